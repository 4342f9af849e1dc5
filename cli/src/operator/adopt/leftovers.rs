//! What the application has left in a table that is to leave it.

use dynashard_core::{Attributes, INDEX_SHARD, TableSchema};
use dynashard_keys::PhysicalPartitionKey;

use super::super::check::{Check, Status};
use super::survey::{Example, FORWARDED, GENERATION, Tally, VERSION, example};

/// Where an item lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Under its own key, where any client looks for it.
    OwnKey,
    /// In another shard than the first.
    OtherShard,
    /// In the first shard of a collection whose key ends in the separator and a number, which has a suffix
    /// there for good.
    SuffixForGood,
    /// Under a key that ends in the separator and a number, where another program has put it.
    Foreign,
}

/// What a scan has found. Its size is that of a few keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Leftovers {
    pub(super) items: u64,
    pub(super) consumed_rcu: f64,
    pub(super) markers: Tally,
    pub(super) other_shards: Tally,
    pub(super) suffixes_for_good: Tally,
    pub(super) cells: Tally,
    /// Items with a version, and with a generation.
    pub(super) versions: u64,
    pub(super) generations: u64,
    /// Items with a shard of indexes.
    index_shards: u64,
    /// Items with any of these.
    pub(super) with_attributes: u64,
}

impl Leftovers {
    /// Takes note of a cell of a counter.
    pub(super) fn observe_cell(&mut self, cell: &Attributes, schema: &TableSchema) {
        self.cells.note(&example(cell, schema), true);
    }

    /// Takes note of an item.
    pub(super) fn observe(&mut self, item: &Attributes, schema: &TableSchema) {
        let key = example(item, schema);
        self.items += 1;
        if item.contains_key(FORWARDED) {
            self.markers.note(&key, true);
            return;
        }
        match place(&key, item.contains_key(GENERATION), schema) {
            Place::OwnKey | Place::Foreign => {}
            Place::OtherShard => self.other_shards.note(&key, true),
            Place::SuffixForGood => self.suffixes_for_good.note(&key, true),
        }
        let [version, generation] = [VERSION, GENERATION].map(|name| item.contains_key(name));
        self.versions += u64::from(version);
        self.generations += u64::from(generation);
        let index_shard = item.contains_key(INDEX_SHARD);
        self.index_shards += u64::from(index_shard);
        self.with_attributes += u64::from(version || generation || index_shard);
    }

    /// A line for each thing that was looked at. By `flags` other commands find the tables.
    pub(super) fn checks(&self, table: &str, flags: &str) -> Vec<Check> {
        let verify = format!("`dynashard verify{flags} --all`");
        let repair = format!("`dynashard verify{flags} --all --repair`");
        let such_as = |tally: &Tally| {
            let key = |Example { pk, sk }: &Example| format!(", such as {pk:?} {sk:?}");
            tally.example.as_ref().map(key).unwrap_or_default()
        };
        let line = |name, tally: &Tally, what: &str, advice: &str, status| {
            if tally.count == 0 {
                return Check::ok(name, format!("{table} holds no {what}"));
            }
            let seen = format!("{table} holds {} {what}{}", tally.count, such_as(tally));
            Check::new(name, status, seen).advise(advice)
        };
        vec![
            Check::ok(
                "items",
                format!("{} items, read with {:.1} read units", self.items, self.consumed_rcu),
            ),
            line(
                "other_shards",
                &self.other_shards,
                "items in other shards than the first",
                &format!(
                    "bring their collections to one shard; if they have one, look at what {verify} finds, and have it repaired \
                     with --repair misplaced"
                ),
                Status::Problem,
            ),
            line(
                "markers",
                &self.markers,
                "markers",
                &format!(
                    "wait until RebalanceFunction has removed them; if nothing is under way, run {repair}"
                ),
                Status::Problem,
            ),
            line(
                "suffixes_for_good",
                &self.suffixes_for_good,
                "items whose collections have a suffix in their first shard, too",
                "their keys end in the separator and a number: copy them to where clients will look for them",
                Status::Warning,
            ),
            line(
                "counters",
                &self.cells,
                "cells of counters",
                "read each counter, and delete it by `DELETE /counter` while the stack is there",
                Status::Problem,
            ),
            self.attributes(table),
        ]
    }

    fn attributes(&self, table: &str) -> Check {
        const CHECK: &str = "attributes";
        if self.with_attributes == 0 {
            return Check::ok(
                CHECK,
                format!("the items of {table} have no attributes of dynashard's"),
            );
        }
        let Self { versions, generations, index_shards, .. } = self;
        let mut seen = format!("{versions} items have `_ds_v` and {generations} have `_ds_g`");
        if *index_shards > 0 {
            seen = format!(
                "{seen}; {index_shards} have `_ds_index_shard`, which stays for the indexes that are keyed by it"
            );
        }
        Check::warning(CHECK, seen).advise(
            "plain clients may leave them; once the stack is deleted, --remove-attributes \
             --stack-is-deleted removes them",
        )
    }
}

/// Where an item with this key lies. The application gives a generation to whatever it puts into another
/// shard than the first, as that takes a change of the collection. It gives none to a collection that was
/// never changed, and a removal takes it away, so a suffix for good shows by the key alone.
pub(super) fn place(key: &Example, has_generation: bool, schema: &TableSchema) -> Place {
    if !PhysicalPartitionKey::has_suffix(&key.pk, schema.separator) {
        return Place::OwnKey;
    }
    match PhysicalPartitionKey::parse(&key.pk, schema.separator) {
        Ok((_, Some(_))) if has_generation => Place::OtherShard,
        Ok((_, None)) => Place::SuffixForGood,
        Ok((_, Some(_))) | Err(_) => Place::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::AttributeValue;

    use super::*;

    fn item(pk: &str, more: &[&str]) -> Attributes {
        let text = |text: &str| AttributeValue::String(text.to_owned());
        let key = [("pk".to_owned(), text(pk)), ("sk".to_owned(), text("1"))];
        let more = more.iter().map(|&name| (name.to_owned(), AttributeValue::Number(1.into())));
        key.into_iter().chain(more).collect()
    }

    fn leftovers(items: &[Attributes]) -> Leftovers {
        let mut leftovers = Leftovers::default();
        for item in items {
            leftovers.observe(item, &TableSchema::default());
        }
        leftovers
    }

    fn statuses(leftovers: &Leftovers) -> Vec<(&'static str, Status)> {
        let checks = leftovers.checks("T", "").into_iter().map(|check| (check.name, check.status));
        checks.filter(|(_, status)| *status != Status::Ok).collect()
    }

    #[test]
    fn an_item_lies_where_its_key_says() {
        let schema = TableSchema::default();
        for (pk, expected) in [
            ("EWR", Place::OwnKey),
            ("USER#1", Place::OwnKey),
            ("EWR#~3", Place::OtherShard),
            ("a#~1#~0", Place::SuffixForGood),
            ("a#~1#~2", Place::OtherShard),
            ("EWR#~0", Place::Foreign),
            ("EWR#~03", Place::Foreign),
        ] {
            let key = example(&item(pk, &[]), &schema);
            assert_eq!(place(&key, true, &schema), expected, "{pk}");
        }
    }

    #[test]
    fn regression_an_item_of_a_plain_program_under_a_suffix_was_a_problem_for_ever() {
        let plain = leftovers(&[item("EWR#~1", &[]), item("EWR#~1", &["_ds_v"])]);
        assert_eq!(plain.other_shards.count, 0);
        assert_eq!(leftovers(&[item("EWR#~1", &["_ds_v", "_ds_g"])]).other_shards.count, 1);
    }

    #[test]
    fn what_is_left_is_counted() {
        let plain = leftovers(&[item("EWR", &[]), item("EWR#~0", &[])]);
        assert_eq!((statuses(&plain), plain.items), (Vec::new(), 2));
        let attributes = leftovers(&[item("EWR", &["_ds_v", "_ds_g"]), item("JFK", &["_ds_v"])]);
        let Leftovers { versions, generations, with_attributes, .. } = attributes;
        assert_eq!((versions, generations, with_attributes), (2, 1, 2));
        assert_eq!(statuses(&attributes), [("attributes", Status::Warning)]);
        let spread = leftovers(&[item("EWR#~1", &["_ds_g"]), item("EWR", &["_ds_fwd", "_ds_g"])]);
        assert_eq!(spread.generations, 1, "a marker counts as a marker");
        assert_eq!(
            statuses(&spread),
            [
                ("other_shards", Status::Problem),
                ("markers", Status::Problem),
                ("attributes", Status::Warning)
            ]
        );
        let for_good = leftovers(&[item("a#~1#~0", &[])]);
        assert_eq!(statuses(&for_good), [("suffixes_for_good", Status::Warning)]);
    }
}
