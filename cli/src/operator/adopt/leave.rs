//! `dynashard adopt --leave`: whether a table is plain again, and the removal of what is left in its
//! items.

use std::cell::RefCell;
use std::process::ExitCode;

use dynashard_aws::DynamoRecordStore;
use dynashard_aws_operator::{ScanPage, Stack, Stripped, owner, release, strip};
use dynashard_core::ports::{CollectionCatalog, ReadRecords, StoreError};
use dynashard_core::{
    Attributes, Code, CollectionMetadata, Error, Phase, Pinned, ScalingMode, Settings, TableSchema,
    item_bytes,
};
use dynashard_keys::{PartitionKey, Separator, ShardCount};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;

use super::super::Failure;
use super::super::budget::Budget;
use super::super::check::{self, Check, Totals};
use super::super::connect::{deadline, table_of};
use super::super::output::{Activity, Output};
use super::super::patience::patiently;
use super::super::scan::all_segments;
use super::super::shell::{flags, quoted};
use super::leftovers::Leftovers;
use super::survey::{FORWARDED, is_dynashards};
use super::{AdoptArgs, Found, PROBLEMS_FOUND};
use crate::clock::Stopwatch;
use crate::numbers::float;

/// Collections that are shown to people.
const SHOWN: usize = 10;

/// Requests that a segment, or the look at the collections, has under way.
const SIDE_BY_SIDE: usize = 8;

/// Looks at the metadata and at the items, and removes what is left in them if that was asked for.
pub(super) async fn run(args: &AdoptArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let found = Found::by(args).await?;
    let Found { operator, stack, separator, .. } = &found;
    let (table, stack) = (&args.table, stack.as_ref());
    let of_stack = stack.and_then(|stack| table_of(stack, "MetadataTable"));
    let metadata_table = args.leave.metadata_table.as_ref().or(of_stack).ok_or_else(|| {
        Failure::connection("the stack has no MetadataTable; is it dynashard's?".to_owned())
    })?;
    let described = found.schema()?;
    let settings = Settings { schema: described.clone(), ..Settings::default() };
    let directory = operator.directory(table, metadata_table, settings);
    // Nothing is pinned if nobody has ever written through the application.
    let pinned = directory.pinned().read(deadline(&directory)).await?;
    let schema = agreed(table, described, *separator, pinned.as_ref())?;
    let owner = patiently(async || owner(operator, table, &schema).await).await?;
    let is_of_this_table = owner.as_ref().filter(|owner| owner.is_of_this_table);
    if let Some(other) = is_of_this_table.filter(|owner| owner.metadata_table != *metadata_table) {
        let other = &other.metadata_table;
        let why = format!(
            "the table {table} belongs to the stack with the metadata table {other}, not {metadata_table}; nothing was looked at or changed"
        );
        return Err(Failure::connection(why));
    }

    let store = operator.records(metadata_table, &schema);
    let flags = flags_of(args, metadata_table, schema.separator);
    let leftovers = leftovers(&found, &schema, output).await?;
    // A collection that grows during the scan is found only by who looks at the collections later: at rest
    // with one shard by then, it has its items where they belong.
    let mut checks = vec![collections(&store, &flags, output).await?];
    if let Some(stack) = stack {
        let policy = directory.pinned().policy(deadline(&directory)).await?;
        checks.push(scaling(stack, policy.map(|policy| policy.scaling.mode)));
    }
    checks.extend(leftovers.checks(table, &flags));
    let mut removed = None;
    if args.leave.remove_attributes {
        if Totals::of(&checks).problems > 0 {
            let seen = "nothing was removed, since something else stands in the way";
            checks.push(Check::problem("removal", seen));
        } else {
            let removal = remove(&found, &schema, output).await?;
            if let Some(owner) = owner {
                patiently(async || release(operator, table, &schema, &owner).await).await?;
            }
            // What was said of the attributes before is out of date.
            checks.retain(|check| check.name != "attributes");
            checks.push(removal.check());
            removed = Some(removal.removed);
        }
    }
    let totals = Totals::of(&checks);
    let plain = totals.problems == 0 && leftovers.suffixes_for_good.count == 0;
    let report = Report {
        table,
        plain,
        items: leftovers.items,
        items_in_other_shards: leftovers.other_shards.count,
        items_with_suffixes_for_good: leftovers.suffixes_for_good.count,
        markers: leftovers.markers.count,
        items_with_version: leftovers.versions,
        items_with_generation: leftovers.generations,
        items_stripped: removed,
        checks,
        totals,
    };
    report.print(output);
    Ok(if plain { ExitCode::SUCCESS } else { ExitCode::from(PROBLEMS_FOUND) })
}

/// The keys and the separator of the table: those that are pinned, since the items lie by them. `own` is the
/// separator that a flag or the stack names.
fn agreed(
    table: &str,
    described: TableSchema,
    own: Option<Separator>,
    pinned: Option<&Pinned>,
) -> Result<TableSchema, Failure> {
    let Some(Pinned { schema: pinned, .. }) = pinned else { return Ok(described) };
    let keys = |schema: &TableSchema| {
        let TableSchema { partition_key_name, sort_key_name, sort_key_type, .. } = schema;
        [partition_key_name, sort_key_name, sort_key_type.as_str()].map(str::to_owned)
    };
    let names = ["PartitionKeyName", "SortKeyName", "SortKeyType"].into_iter();
    let mut keys = names.zip(keys(pinned)).zip(keys(&described));
    let differing = keys.find(|((_, pinned), described)| pinned != described);
    let why = if let Some(((name, pinned), described)) = differing {
        format!("the pinned {name} is {pinned:?}, and that of {table} is {described:?}")
    } else if let Some(own) = own.filter(|own| *own != pinned.separator) {
        format!("the pinned Separator is {}, and the one that was named is {own}", pinned.separator)
    } else {
        return Ok(pinned.clone());
    };
    Err(Error::new(Code::SettingsMismatch, why).into())
}

/// Whether the stack leaves the collections as they are.
fn scaling(stack: &Stack, told: Option<ScalingMode>) -> Check {
    const CHECK: &str = "scaling";
    let mode = stack.parameters.get("ScalingMode").map(String::as_str);
    match mode.or(told.map(ScalingMode::as_str)) {
        Some("off") => Check::ok(CHECK, "nothing grows: ScalingMode is off"),
        mode => {
            let mode = mode.unwrap_or("missing");
            Check::problem(CHECK, format!("the stack's ScalingMode is {mode}"))
                .advise("deploy ScalingMode=off, or collections spread again")
        }
    }
}

/// The flags by which the other commands find the tables, for a shell.
fn flags_of(args: &AdoptArgs, metadata_table: &str, separator: Separator) -> String {
    let separator = (separator != Separator::default()).then_some(separator.as_str());
    let tables = match &args.stack_name {
        Some(stack) => flags(&[("--stack-name", Some(stack))]),
        None => flags(&[
            ("--main-table", Some(&args.table)),
            ("--metadata-table", Some(metadata_table)),
            ("--separator", separator),
        ]),
    };
    tables + &args.caller.for_shell()
}

/// What a collection has to do before the table is plain; nothing if it rests with one shard.
fn in_the_way(metadata: &CollectionMetadata) -> Option<String> {
    let count = metadata.widest();
    match metadata.phase {
        Phase::Forward { from, to } | Phase::Move { from, to } => {
            Some(format!("it changes from {from} to {to} shards"))
        }
        Phase::Stable if count != ShardCount::ONE => Some(format!("it has {count} shards")),
        Phase::Stable if metadata.cleanup_pending => {
            Some("markers of its last change are still to be removed".to_owned())
        }
        Phase::Stable => None,
    }
}

/// Looks at each collection that was ever changed. In memory are those of a page. By `flags` other commands find the
/// tables.
async fn collections(
    store: &DynamoRecordStore,
    flags: &str,
    output: &mut Output,
) -> Result<Check, Failure> {
    const CHECK: &str = "collections";
    let (mut all, mut left, mut shown) = (0_u64, 0_u64, Vec::new());
    let mut after: Option<String> = None;
    loop {
        let page = patiently(async || store.collections(after.as_deref()).await).await?;
        let look = |partition: PartitionKey| async move {
            let found =
                patiently(async || match store.get::<CollectionMetadata>(&partition).await {
                    Err(StoreError::Corrupt(why)) => Ok(Err(why)),
                    found => found.map(|found| Ok(found.value)),
                });
            let why = match found.await? {
                Ok(metadata) => metadata.as_ref().and_then(in_the_way),
                Err(why) => Some(format!("its metadata is damaged: {why}")),
            };
            Ok::<_, Failure>((partition, why))
        };
        let looks = page.entries.into_iter().map(look);
        let mut looks = stream::iter(looks).buffer_unordered(SIDE_BY_SIDE);
        while let Some((partition, why)) = looks.try_next().await? {
            all += 1;
            let Some(why) = why else { continue };
            left += 1;
            let pk = partition.as_str();
            let command = format!("dynashard scale{flags} --pk {} --shards 1 --whole", quoted(pk));
            output.event("collection", &CollectionLine { pk, why: &why, command: &command });
            if shown.len() < SHOWN {
                shown.push(format!("{partition:?}: {why}: {command}"));
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if left == 0 {
        let seen = format!("{all} collections were ever changed, and each rests with one shard");
        return Ok(Check::ok(CHECK, seen));
    }
    for line in &shown {
        output.text(line);
    }
    if left > SHOWN as u64 {
        output.text(format_args!("and {} more; --json prints all", left - SHOWN as u64));
    }
    let seen = format!("{left} of {all} collections do not rest with one shard");
    Ok(Check::problem(CHECK, seen).advise(
        "deploy ScalingMode=off, run these commands, and wait until markers are removed: about a minute \
         after a change has closed",
    ))
}

/// Reads every item, strongly.
async fn leftovers(
    found: &Found<'_>,
    schema: &TableSchema,
    output: &Output,
) -> Result<Leftovers, Failure> {
    let activity = Activity::begin(!output.is_for_machines());
    let mut leftovers = Leftovers::default();
    let scan = found.scan();
    let mut pages = scan.pages(all_segments(found.args.segments).collect(), true);
    while let Some((_, page)) = pages.try_next().await? {
        for item in &page.items {
            leftovers.observe(item, schema);
        }
        page.cells.iter().for_each(|cell| leftovers.observe_cell(cell, schema));
        leftovers.consumed_rcu += page.consumed_rcu;
        activity.says(|| format!("{} of about {} items", leftovers.items, found.state.items));
    }
    Ok(leftovers)
}

/// What a removal has done.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Removal {
    removed: u64,
    /// Items that somebody has written or deleted meanwhile.
    changed: u64,
    consumed_wcu: f64,
}

impl Removal {
    fn check(self) -> Check {
        let Self { removed, changed, consumed_wcu } = self;
        let seen = format!(
            "`_ds_v` and `_ds_g` were removed from {removed} items, with {consumed_wcu:.0} write units"
        );
        if changed == 0 {
            return Check::ok("removal", seen);
        }
        Check::warning("removal", format!("{seen}; {changed} were written or deleted meanwhile"))
            .advise("run the same command again")
    }
}

/// Takes the attributes off every item that has them.
async fn remove(
    found: &Found<'_>,
    schema: &TableSchema,
    output: &Output,
) -> Result<Removal, Failure> {
    let Found { args, operator, .. } = found;
    let activity = Activity::begin(!output.is_for_machines());
    let clock = Stopwatch::start();
    let budget = RefCell::new(Budget::new(args.leave.write_units.get(), clock.elapsed()));
    let removal = RefCell::new(Removal::default());
    let strip = async |item: &Attributes| {
        // The image before counts, and indexes come on top.
        let expected = float(item_bytes(item).div_ceil(1_024));
        // Patience is for refusals: a wait for the budget may be as long as it takes.
        let wait = budget.borrow_mut().take(expected, clock.elapsed());
        tokio::time::sleep(wait).await;
        let stripped = patiently(async || strip(operator, &args.table, item, schema).await).await?;
        match stripped {
            Stripped::Done { consumed_wcu } => {
                budget.borrow_mut().correct(expected, consumed_wcu);
                let mut removal = removal.borrow_mut();
                removal.removed += 1;
                removal.consumed_wcu += consumed_wcu;
                activity.says(|| format!("removed from {} items", removal.removed));
            }
            Stripped::Changed => removal.borrow_mut().changed += 1,
        }
        Ok::<(), Failure>(())
    };
    let strip = &strip;
    let scan = found.scan();
    let pages = scan.pages(all_segments(args.segments).collect(), true);
    let strip_page = async |(_, page): (_, ScanPage)| {
        let own = page.items.iter().filter(|item| is_dynashards(item));
        let items = own.filter(|item| !item.contains_key(FORWARDED));
        stream::iter(items.map(strip)).buffer_unordered(SIDE_BY_SIDE).try_collect::<()>().await
    };
    pages.try_for_each_concurrent(args.segments as usize, strip_page).await?;
    Ok(removal.into_inner())
}

/// `{"event":"collection", ...}`
#[derive(Serialize)]
struct CollectionLine<'a> {
    pk: &'a str,
    why: &'a str,
    command: &'a str,
}

/// `{"event":"leave", ...}`
#[derive(Serialize)]
struct Report<'a> {
    table: &'a str,
    /// Whether a client without dynashard finds every item where it looks for it.
    plain: bool,
    items: u64,
    items_in_other_shards: u64,
    items_with_suffixes_for_good: u64,
    markers: u64,
    /// Before a removal.
    items_with_version: u64,
    items_with_generation: u64,
    /// Null if nothing was to be removed.
    items_stripped: Option<u64>,
    checks: Vec<Check>,
    #[serde(flatten)]
    totals: Totals,
}

impl Report<'_> {
    fn print(&self, output: &mut Output) {
        output.event("leave", self);
        check::print(&self.checks, output);
        output.text(self.totals);
        let table = self.table;
        output.text(match (self.plain, self.totals.problems) {
            (true, _) => format!("{table} is plain: each item lies under its own key"),
            (false, 0) => format!("{table} is not plain: items with a suffix for good are left"),
            (false, _) => format!("{table} is not plain yet"),
        });
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{Placement, SortKeyType};

    use super::super::super::check::Status;
    use super::*;

    fn pinned(schema: TableSchema) -> Pinned {
        Pinned { schema, ..Pinned::of(&Settings::default()) }
    }

    #[test]
    fn regression_the_separator_was_guessed_although_one_is_pinned() {
        let described = TableSchema::default();
        let hash = pinned(TableSchema { separator: Separator::Hash, ..described.clone() });
        let agree = |own, pinned: &Pinned| agreed("T", described.clone(), own, Some(pinned));
        for own in [None, Some(Separator::Hash)] {
            let schema = agree(own, &hash).expect("they agree");
            assert_eq!(schema.separator, Separator::Hash);
        }
        let refused = agree(Some(Separator::HashTilde), &hash).expect_err("they differ");
        assert_eq!(refused.code, "settings_mismatch");
        for other in [
            TableSchema { partition_key_name: "other".to_owned(), ..described.clone() },
            TableSchema { sort_key_name: "other".to_owned(), ..described.clone() },
            TableSchema { sort_key_type: SortKeyType::Number, ..described.clone() },
        ] {
            let refused = agree(None, &pinned(other)).expect_err("keys of another table");
            assert_eq!(refused.code, "settings_mismatch");
        }
        assert_eq!(agreed("T", described.clone(), None, None), Ok(described.clone()));
    }

    #[test]
    fn regression_a_table_was_called_plain_while_its_stack_lets_it_grow() {
        let of = |mode: &str| {
            let parameters = [("ScalingMode".to_owned(), mode.to_owned())].into();
            scaling(&Stack { parameters, ..Stack::default() }, None).status
        };
        assert_eq!(of("off"), Status::Ok);
        assert_eq!((of("on"), of("observe")), (Status::Problem, Status::Problem));
        assert_eq!(scaling(&Stack::default(), None).status, Status::Problem);
        // A stack of the CDK has no parameters, and tells its functions' settings.
        assert_eq!(scaling(&Stack::default(), Some(ScalingMode::Off)).status, Status::Ok);
    }

    #[test]
    fn a_collection_stands_in_the_way_until_it_rests_with_one_shard() {
        let count = |count| ShardCount::new(count).expect("a count");
        let of = |shards| {
            let partition = PartitionKey::new("EWR").expect("a key");
            CollectionMetadata::stable(partition, Placement::Xxh64, count(shards), 1)
        };
        assert_eq!(in_the_way(&of(1)), None);
        assert_eq!(in_the_way(&of(4)).as_deref(), Some("it has 4 shards"));
        let pending = CollectionMetadata { cleanup_pending: true, ..of(1) };
        assert!(in_the_way(&pending).is_some_and(|why| why.contains("markers")));
        let phase = Phase::Move { from: count(4), to: count(1) };
        let moving = CollectionMetadata { phase, ..of(1) };
        assert_eq!(in_the_way(&moving).as_deref(), Some("it changes from 4 to 1 shards"));
    }
}
