//! The settings that all functions of a stack must agree on, and the stack that a main table belongs to.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::model::error::{Code, Error};
use crate::model::lease::leases_end;
use crate::model::reshard::Waits;
use crate::model::schema::TableSchema;
use crate::model::settings::Settings;

/// The settings that stored data and running functions depend on, as the directory item holds them
/// (protocol: "Pinned settings").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The version of everything that is stored.
    pub format: u64,
    /// Raised by every change, so that one there and back is noticed.
    pub revision: u64,
    /// Drawn by the function that pins first: the main table names the stack with this id as its owner. `None` where an
    /// earlier version has pinned, until a function adds it.
    pub stack_id: Option<String>,
    /// The keys of the main table. They never change.
    pub schema: TableSchema,
    /// T.
    pub lease_term: PinnedTime,
    /// H. All act by what is pinned, whatever they are set to.
    pub request_lifetime: PinnedTime,
    /// By how much writes are dated back. All act by what is pinned.
    pub signature_age: Duration,
    /// Every attribute by which items of the table expire, or have: whoever is set to another one adds it, and an item that
    /// has any of them is put so that nothing lies hidden below it. None is ever taken out.
    pub ttl_attributes: BTreeSet<String>,
}

/// The stack that a main table belongs to, as an item of that table says (protocol: "Pinned settings").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The id that the owner's directory has pinned.
    pub stack_id: String,
    /// The metadata table that holds this directory.
    pub metadata_table: String,
    /// Whether it says so of the table in which the item lies. One that was restored says it of the table of before, and has
    /// another metadata table.
    pub is_of_this_table: bool,
}

impl Owner {
    /// The partition key of the item in the main table. Must be kept stable.
    pub const KEY: &str = "_ds_owner";
}

/// A time that all functions must agree on, and that an operator may change. In whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinnedTime {
    /// What functions may be set to.
    pub accepted: Duration,
    /// What they may be set to as well, while it changes.
    pub next: Option<Duration>,
    /// The longest that may still be in use. All waits go by it.
    pub longest: Duration,
}

impl Pinned {
    /// The version where the directory item lists collections. Every change of a stored format has the next number.
    pub const LISTED: u64 = 1;

    /// The version where writes are dated back. Software that knows only the one before dates none, and does nothing.
    const DATED: u64 = 2;

    /// The version where segments list collections, the root counts changes of what rests, and writes may be dated back.
    const SEGMENTED: u64 = 4;

    /// The version of segments whose root counts no changes of what rests. No release had it.
    const NEVER_RELEASED: u64 = 3;

    /// The version where a collection may have several epochs. Software that does not know them would look for items by one count.
    const EPOCHED: u64 = 5;

    /// The versions that this software knows, but one that no release had.
    pub const FORMATS: RangeInclusive<u64> = Self::LISTED..=Self::EPOCHED;

    /// The settings of a stack that is the first to use its tables.
    pub fn of(settings: &Settings) -> Self {
        Self {
            format: Self::EPOCHED,
            revision: 1,
            stack_id: None,
            schema: settings.schema.clone(),
            lease_term: PinnedTime::only(settings.lease_term),
            request_lifetime: PinnedTime::only(settings.request_lifetime),
            signature_age: settings.signature_age,
            ttl_attributes: settings.ttl_attribute.iter().cloned().collect(),
        }
    }

    /// Whether segments list collections, and not the directory item itself.
    pub fn has_segments(&self) -> bool {
        self.format >= Self::SEGMENTED
    }

    /// Whether nobody acts on these tables who does not know epochs.
    pub fn has_epochs(&self) -> bool {
        self.format >= Self::EPOCHED
    }

    /// In the newest format.
    pub(crate) fn converted(self) -> Self {
        Self { format: Self::EPOCHED, revision: self.revision + 1, ..self }
    }

    pub(crate) fn without_segments(self) -> Self {
        let format = if self.signature_age.is_zero() { Self::LISTED } else { Self::DATED };
        Self { format, ..self }
    }

    /// With writes dated `age` ago, which DynamoDB executes within `lifetime` if at all. Requests from before may live longer.
    #[must_use]
    pub(crate) fn dated(&self, age: Duration, lifetime: Duration) -> Self {
        let request_lifetime = self.request_lifetime.accepting_only(lifetime);
        let dated = Self { signature_age: age, request_lifetime, ..self.clone() };
        if self.has_segments() { dated } else { dated.without_segments() }
    }

    /// With the attribute by which items expire under these settings, and an id. `None` if both are pinned.
    pub(crate) fn completed(
        &self,
        settings: &Settings,
        draw_id: impl FnOnce() -> String,
    ) -> Option<Self> {
        let name = settings.ttl_attribute.as_ref();
        let name = name.filter(|name| !self.ttl_attributes.contains(*name));
        if name.is_none() && self.stack_id.is_some() {
            return None;
        }
        let mut next = self.clone();
        next.revision += 1;
        next.ttl_attributes.extend(name.cloned());
        next.stack_id.get_or_insert_with(draw_id);
        Some(next)
    }

    /// The times to wait for, so that nobody acts on what was before, whoever it is.
    pub fn waits(&self) -> Waits {
        Waits {
            leases_end: leases_end(self.lease_term.longest),
            request_lifetime: self.request_lifetime.longest,
            signature_age: self.signature_age,
        }
    }

    /// Refuses what other software has stored: everything but its format may mean something else.
    pub(crate) fn check_format(&self) -> Result<(), Error> {
        if Self::FORMATS.contains(&self.format) && self.format != Self::NEVER_RELEASED {
            return Ok(());
        }
        let (own, stored) = (Self::FORMATS.end(), self.format);
        let why = format!(
            "the tables have format {stored}, and this software knows up to {own}, without {}",
            Self::NEVER_RELEASED
        );
        Err(Error::new(Code::SettingsMismatch, why))
    }

    /// Refuses settings that differ from what is pinned. The error names each that does.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Error> {
        self.check_format()?;
        let mut differences = Vec::new();
        let mut compare = |name: &str, own: &str, pinned: &str| {
            if own != pinned {
                differences.push(format!("{name} is {own}, pinned is {pinned}"));
            }
        };
        let (own, pinned) = (&settings.schema, &self.schema);
        compare("PartitionKeyName", &own.partition_key_name, &pinned.partition_key_name);
        compare("SortKeyName", &own.sort_key_name, &pinned.sort_key_name);
        compare("SortKeyType", own.sort_key_type.as_str(), pinned.sort_key_type.as_str());
        compare("Separator", own.separator.as_str(), pinned.separator.as_str());
        // The other times are not compared: all act by what is pinned.
        let (own, pinned) = (settings.lease_term, self.lease_term);
        if !pinned.accepts(own) {
            let next = pinned.next.map(|next| format!(" or {}", next.as_secs()));
            let (own, accepted) = (own.as_secs(), pinned.accepted.as_secs());
            differences.push(format!(
                "LeaseSecs is {own}, pinned is {accepted}{}",
                next.unwrap_or_default()
            ));
        }
        if differences.is_empty() {
            return Ok(());
        }
        let why =
            format!("the settings differ from those that are pinned: {}", differences.join("; "));
        Err(Error::new(Code::SettingsMismatch, why))
    }
}

impl PinnedTime {
    /// A time that does not change.
    pub fn only(time: Duration) -> Self {
        Self { accepted: time, next: None, longest: time }
    }

    /// What a function that starts now is to be set to, so that it may act after a change, too.
    pub fn newest(self) -> Duration {
        self.next.unwrap_or(self.accepted)
    }

    /// Whether a function may be set to it.
    pub fn accepts(self, time: Duration) -> bool {
        self.accepted == time || self.next == Some(time)
    }

    /// The first step of a change: what functions may be set to as well.
    #[must_use]
    pub fn accepting(self, time: Duration) -> Self {
        let next = Some(time).filter(|time| *time != self.accepted);
        Self { next, longest: self.longest.max(time), ..self }
    }

    /// The second step: the only one that they may be set to. What was before may still be in use.
    #[must_use]
    pub fn accepting_only(self, time: Duration) -> Self {
        Self { accepted: time, next: None, longest: self.longest.max(time) }
    }

    /// The last step: nothing longer is in use any more.
    #[must_use]
    pub fn at_rest(self) -> Self {
        Self::only(self.accepted)
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::Separator;

    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn every_setting_that_differs_is_named() {
        let settings = Settings::default();
        let pinned = Pinned::of(&settings);
        assert_eq!(pinned.check(&settings), Ok(()));
        let schema = TableSchema {
            partition_key_name: "id".to_owned(),
            separator: Separator::Hash,
            ..TableSchema::default()
        };
        let other = Settings { schema, lease_term: secs(7), ..settings.clone() };
        let error = pinned.check(&other).expect_err("three differ");
        assert_eq!(error.code(), Code::SettingsMismatch);
        assert_eq!(
            error.message(),
            "the settings differ from those that are pinned: PartitionKeyName is id, pinned is pk; Separator is #, pinned is #~; LeaseSecs is 7, pinned is 2"
        );
        for format in [0, 3, 6] {
            assert!(Pinned { format, ..pinned.clone() }.check(&settings).is_err(), "{format}");
        }
    }

    #[test]
    fn while_a_time_changes_both_are_accepted_and_waits_go_by_the_longest() {
        for (old, new) in [(5, 9), (9, 5)] {
            let at_rest = PinnedTime::only(secs(old));
            let both = at_rest.accepting(secs(new));
            assert!(both.accepts(secs(old)) && both.accepts(secs(new)) && !both.accepts(secs(6)));
            let only = both.accepting_only(secs(new));
            assert!(!only.accepts(secs(old)) && only.accepts(secs(new)));
            assert_eq!(
                (at_rest.longest, both.longest, only.longest),
                (secs(old), secs(9), secs(9))
            );
            assert_eq!(only.at_rest(), PinnedTime::only(secs(new)));
            let back = both.accepting_only(secs(old));
            assert_eq!((back.at_rest(), back.longest), (at_rest, secs(9)));
            assert_eq!(at_rest.accepting(secs(old)), at_rest);
        }
    }
}
