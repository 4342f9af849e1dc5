//! What follows from what a scan has found: whether the application can serve the items, and which
//! separator it is to have.

use dynashard_keys::Separator;
use serde::Serialize;

use super::super::check::{Check, Status};
use super::survey::{Example, Oddity, Survey, Tally};

/// Items that need something done about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    #[serde(rename = "finding")]
    pub(super) kind: &'static str,
    /// Of keys that end in a separator and a number: which separator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) separator: Option<&'static str>,
    pub(super) items: u64,
    /// Those of collections that `GrowKeys` lets change.
    pub(super) growing_items: u64,
    pub(super) example: Option<Example>,
    pub(super) remedy: &'static str,
}

/// A line for each thing that was looked at in the items. `wanted` is a separator that the table is to
/// have in any case. `is_in_use` says whether the stack that was named uses the table already, so that what
/// it has written is expected.
pub(super) fn checks(survey: &Survey, wanted: Option<Separator>, is_in_use: bool) -> Vec<Check> {
    let kinds = Oddity::ALL.into_iter().map(|oddity| {
        let tally = survey.odd(oddity);
        if is_in_use && oddity == Oddity::DynashardItem {
            let seen = format!("{} items were written through the stack", tally.count);
            return Check::ok(oddity.name(), seen);
        }
        kind(oddity, &tally)
    });
    let Survey { items, bytes, consumed_rcu, .. } = survey;
    let read = format!("{items} items of {bytes} bytes, read with {consumed_rcu:.1} read units");
    [Check::ok("items", read), separator(survey, wanted)].into_iter().chain(kinds).collect()
}

/// What was found, one for each kind and separator.
pub(super) fn findings(survey: &Survey) -> Vec<Finding> {
    let finding = |kind, separator, tally: Tally, remedy| Finding {
        kind,
        separator,
        items: tally.count,
        growing_items: tally.growing,
        example: tally.example,
        remedy,
    };
    let suffixes = Separator::ALL.into_iter().map(|separator| {
        let tally = survey.suffixed(separator);
        finding("separator", Some(separator.as_str()), tally, "choose another separator")
    });
    let odd = Oddity::ALL
        .into_iter()
        .map(|oddity| finding(oddity.name(), None, survey.odd(oddity), oddity.remedy()));
    suffixes.chain(odd).filter(|finding| finding.items > 0).collect()
}

/// The separator to deploy with.
pub(super) fn chosen_separator(survey: &Survey, wanted: Option<Separator>) -> Option<Separator> {
    match wanted {
        Some(separator) => (survey.suffixed(separator).count == 0).then_some(separator),
        None => survey.free_separator(),
    }
}

fn separator(survey: &Survey, wanted: Option<Separator>) -> Check {
    const CHECK: &str = "separator";
    let in_use = |separator: &Separator| {
        let tally = survey.suffixed(*separator);
        let example = tally.example.map(|example| format!("{:?}", example.pk)).unwrap_or_default();
        format!(
            "{} items lie under keys that end in {:?} and a number, such as {example}",
            tally.count,
            separator.as_str()
        )
    };
    let why = "such an item would be looked for elsewhere, and not be found";
    if let Some(chosen) = chosen_separator(survey, wanted) {
        let seen = format!("no partition key ends in {:?} and a number", chosen.as_str());
        let first = wanted.unwrap_or_default();
        return if chosen == first {
            Check::ok(CHECK, seen)
        } else {
            Check::ok(CHECK, format!("{seen}; {}", in_use(&first)))
                .advise(format!("deploy with Separator={chosen}: {why}"))
        };
    }
    if let Some(wanted) = wanted {
        let advice = match survey.free_separator() {
            Some(free) => format!("choose another separator, as {free}: {why}"),
            None => format!("rename these partition keys: {why}"),
        };
        return Check::problem(CHECK, in_use(&wanted)).advise(advice);
    }
    let fewest = Separator::ALL.into_iter().min_by_key(|each| survey.suffixed(*each).count);
    let fewest = fewest.unwrap_or_default();
    let seen = format!(
        "all six separators are in use: {}",
        Separator::ALL.iter().map(in_use).collect::<Vec<_>>().join("; ")
    );
    Check::problem(CHECK, seen).advise(format!(
        "rename the partition keys that end in {:?} and a number, which are the fewest: {why}",
        fewest.as_str()
    ))
}

fn kind(oddity: Oddity, tally: &Tally) -> Check {
    let name = oddity.name();
    let Some(example) = &tally.example else {
        return Check::ok(name, format!("no item {}", oddity.what(true)));
    };
    let (status, scope) = match tally.growing {
        0 if oddity.matters_when_moved() => (Status::Warning, ", none of them in GrowKeys"),
        _ => (oddity.status(), ""),
    };
    let (item, is_one) = if tally.count == 1 { ("item", true) } else { ("items", false) };
    let own = match oddity {
        Oddity::DynashardItem => ": the table is dynashard's own already",
        _ => "",
    };
    let seen = format!(
        "{} {item} {}{scope}, such as {:?} {:?}{own}",
        tally.count,
        oddity.what(is_one),
        example.pk,
        example.sk
    );
    Check::new(name, status, seen).advise(oddity.remedy())
}

impl Oddity {
    const ALL: [Self; 7] = [
        Self::DynashardItem,
        Self::ItemSize,
        Self::ReservedAttribute,
        Self::ReservedKey,
        Self::KeyLength,
        Self::SortKeyLength,
        Self::Value,
    ];

    /// The name of its line, which stays.
    fn name(self) -> &'static str {
        match self {
            Self::DynashardItem => "dynashard_item",
            Self::ReservedKey => "reserved_key",
            Self::KeyLength => "key_length",
            Self::SortKeyLength => "sort_key_length",
            Self::ItemSize => "item_size",
            Self::ReservedAttribute => "reserved_attribute",
            Self::Value => "value",
        }
    }

    /// What such an item does, or such items do.
    fn what(self, is_one: bool) -> &'static str {
        match (self, is_one) {
            (Self::DynashardItem, true) => "was written by dynashard",
            (Self::DynashardItem, false) => "were written by dynashard",
            (Self::ReservedKey, true) => "has a partition key that begins with \"_ds_\"",
            (Self::ReservedKey, false) => "have partition keys that begin with \"_ds_\"",
            (Self::KeyLength, true) => "has a partition key of more than 2,000 bytes",
            (Self::KeyLength, false) => "have partition keys of more than 2,000 bytes",
            (Self::SortKeyLength, true) => "has a sort key of more than 1,024 bytes",
            (Self::SortKeyLength, false) => "have sort keys of more than 1,024 bytes",
            (Self::ItemSize, true) => {
                "takes more than 399 KB, with its entries in local secondary indexes"
            }
            (Self::ItemSize, false) => {
                "take more than 399 KB, with their entries in local secondary indexes"
            }
            (Self::ReservedAttribute, true) => "has attributes of others that begin with \"_ds_\"",
            (Self::ReservedAttribute, false) => {
                "have attributes of others that begin with \"_ds_\""
            }
            (Self::Value, true) => "has a value that a put would be refused for",
            (Self::Value, false) => "have values that a put would be refused for",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::DynashardItem => {
                "use the table with its own stack and metadata table: under another metadata table its \
                 items are answered 503 metadata_behind, and those in other shards are not found. If the \
                 stack is gone for good, make the table plain first (docs/ADOPTING.md, \"Leaving\")"
            }
            Self::ReservedKey => {
                "copy these items to other keys: keys that begin with _ds_ are the system's"
            }
            Self::KeyLength | Self::SortKeyLength => {
                "the API refuses these keys: only plain clients reach these items"
            }
            Self::ItemSize => {
                "make these items smaller: the API refuses to write them, and with a suffix and the system's \
                 attributes they might not fit into another shard"
            }
            Self::ReservedAttribute => {
                "rename these attributes: the API hides attributes that begin with _ds_, and a move drops \
                 them"
            }
            Self::Value => "change these values: the API refuses to write them",
        }
    }

    fn status(self) -> Status {
        match self {
            Self::KeyLength | Self::SortKeyLength => Status::Warning,
            _ => Status::Problem,
        }
    }

    /// Whether it does no harm in a collection that stays as it is.
    fn matters_when_moved(self) -> bool {
        matches!(self, Self::ItemSize | Self::ReservedAttribute | Self::Value)
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::{AttributeValue, Attributes, TableSchema};

    use super::super::survey::Lens;
    use super::*;

    fn survey(keys: &[&str], attribute: &str, grow: &str) -> Survey {
        let mut survey = Survey::default();
        for key in keys {
            let text = |text: &str| AttributeValue::String(text.to_owned());
            let item = [("pk", text(key)), ("sk", text("s")), (attribute, text("x"))];
            let item = item.map(|(name, value)| (name.to_owned(), value));
            let grow = grow.parse().expect("patterns");
            let lens = Lens {
                schema: &TableSchema::default(),
                grow_keys: &grow,
                local_indexes: 0,
                is_in_use: false,
            };
            survey.observe(&Attributes::from(item), lens);
        }
        survey
    }

    fn status(survey: &Survey, wanted: Option<Separator>, name: &str) -> (Status, Option<String>) {
        let checks = checks(survey, wanted, false);
        let check = checks.iter().find(|check| check.name == name).expect("a line");
        (check.status, check.advice.clone())
    }

    #[test]
    fn a_separator_that_is_free_is_recommended() {
        let ordinary = survey(&["USER#1", "EWR"], "n", "*");
        assert_eq!(status(&ordinary, None, "separator"), (Status::Ok, None));
        assert_eq!(findings(&ordinary).len(), 1, "the finding says that # is in use");
        let tilde = survey(&["a#~1"], "n", "*");
        let (is, advice) = status(&tilde, None, "separator");
        assert_eq!(is, Status::Ok);
        assert!(advice.expect("advice").starts_with("deploy with Separator=#:"));
        let (is, advice) = status(&tilde, Some(Separator::HashTilde), "separator");
        assert_eq!(is, Status::Problem, "a separator that was asked for is taken or refused");
        assert!(advice.expect("advice").contains("as #:"));
        let none = survey(&["a#~1", "a#1", "a_1", "a.1", "a-1", "a:1", "b#1"], "n", "*");
        let (is, advice) = status(&none, None, "separator");
        assert_eq!(is, Status::Problem);
        assert!(advice.expect("advice").contains("end in \"#~\""));
    }

    #[test]
    fn what_is_never_moved_is_a_warning() {
        for (name, grow, expected) in [
            ("_ds_x", "*", Status::Problem),
            ("_ds_x", "b*", Status::Warning),
            ("n", "*", Status::Ok),
            ("_ds_fwd", "*", Status::Ok),
        ] {
            let survey = survey(&["a"], name, grow);
            assert_eq!(status(&survey, None, "reserved_attribute").0, expected, "{name} {grow}");
        }
        let own = survey(&["a"], "_ds_fwd", "b");
        assert_eq!(status(&own, None, "dynashard_item").0, Status::Problem);
        let in_use = checks(&own, None, true);
        assert!(in_use.iter().all(|check| check.status == Status::Ok), "{in_use:?}");
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let survey = survey(&[], "n", "*");
        let checks = checks(&survey, None, false);
        let mut names = checks.iter().map(|check| check.name).collect::<Vec<_>>();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), checks.len());
        for oddity in Oddity::ALL {
            let stored = serde_json::to_value(oddity).expect("JSON");
            assert_eq!(stored, oddity.name(), "as the state file has it");
        }
    }
}
