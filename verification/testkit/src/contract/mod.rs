//! What every store must do: one suite over the ports, for the memory store and for each adapter.
//!
//! A user brings a [`Fixture`] and makes a test of each function, with [`contract_suite!`], or runs
//! them all over one fixture, with [`run_all`]. Each function works in collections of its own.
//!
//! [`contract_suite!`]: crate::contract_suite

#![expect(clippy::missing_panics_doc, reason = "a panic is how a test says what is wrong")]

use std::time::Duration;

use dynashard_core::ports::{
    Action, Change, Clock, CollectionCatalog, Condition, Dated, Expected, ItemStore, ReadRecords,
    RecordStore, StoreError, Write,
};
use dynashard_core::{
    AttributeValue, Attributes, CollectionMetadata, DirectoryItem, Generation, Job, KeyHash, Lease,
    StoredItem, TableSchema, Version,
};
use dynashard_keys::{
    PartitionKey, PhysicalKey, PhysicalPartitionKey, Placement, ShardId, SortKey, SortKeyType,
};

pub mod cells;
pub mod items;
pub mod metadata;
pub mod projections;
pub mod queries;
pub mod reshard;

/// Two stores over empty tables.
pub trait Fixture: Sync {
    /// The main table.
    type Items: ItemStore;
    /// The metadata table.
    type Metadata: RecordStore + CollectionCatalog;
    /// The clock that the stores check leases with.
    type Clock: Clock;

    /// The main table.
    fn items(&self) -> &Self::Items;

    /// The metadata table.
    fn metadata(&self) -> &Self::Metadata;

    /// The clock that the stores check leases with.
    fn clock(&self) -> &Self::Clock;

    /// How the main table calls and types its keys.
    fn schema(&self) -> &TableSchema;
}

/// Calls a macro of the caller's with the paths of all functions of the suite, in
/// [`contract`](crate::contract): `items::what_was_put_is_read_back, ...`.
///
/// ```
/// macro_rules! count {
///     ($($module:ident :: $test:ident),+) => { [$(stringify!($test)),+].len() };
/// }
/// assert!(dynashard_testkit::contract_suite!(count) > 20);
/// ```
#[macro_export]
macro_rules! contract_suite {
    ($for_each:ident) => {
        $for_each! {
            items::what_was_put_is_read_back,
            items::an_absent_item_is_none,
            items::a_put_replaces_the_whole_item,
            items::the_largest_item_fits,
            items::the_item_of_most_numbers_fits,
            items::the_deepest_item_is_taken,
            items::keys_hold_any_characters,
            items::the_guard_lets_equal_and_higher_generations_pass,
            items::the_guard_refuses_a_lower_generation_and_returns_what_is_there,
            items::expectations_hold_of_live_items_only,
            items::a_delete_of_nothing_succeeds,
            items::nothing_is_sent_after_the_lease,
            items::a_batch_read_finds_what_exists,
            items::a_main_table_is_claimed_once,
            cells::a_change_of_a_cell_is_carried_out_where_its_conditions_hold,
            cells::two_cells_change_together,
            queries::pages_are_in_order_both_ways,
            queries::string_keys_are_in_the_order_of_their_bytes,
            queries::number_keys_are_in_the_order_of_their_values,
            queries::ranges_include_their_bounds,
            queries::a_page_ends_at_its_limit_and_says_where_to_go_on,
            queries::a_page_begins_behind_a_key_that_need_not_exist,
            queries::walking_the_pages_gives_everything_once,
            queries::a_page_ends_early_where_items_are_large,
            queries::a_page_says_what_it_read_and_paid,
            queries::a_shard_holds_its_own_items_only,
            queries::an_empty_shard_is_an_empty_page,
            projections::only_the_fields_that_were_named_are_returned,
            projections::names_are_taken_as_they_are,
            projections::a_part_of_an_item_costs_as_much_as_all_of_it,
            metadata::a_collection_that_was_not_created_is_none,
            metadata::every_state_is_read_back,
            metadata::a_collection_is_created_once,
            metadata::settings_are_pinned_where_the_directory_is_as_seen,
            metadata::a_collection_is_enlisted_with_its_job_or_not_at_all,
            metadata::a_list_becomes_a_root_whose_counts_go_on,
            metadata::segments_list_what_they_did_and_more,
            metadata::the_collections_of_a_grant_are_counted_where_they_are_as_seen,
            metadata::a_change_is_made_where_the_metadata_is_as_seen,
            metadata::the_index_lists_what_is_being_resharded,
            metadata::the_longest_keys_are_taken_everywhere,
            metadata::the_catalog_lists_each_collection_once_and_nothing_else,
            metadata::answers_carry_the_servers_time,
            metadata::a_ledger_adds_up_sums_unites_sets_and_forgets,
            reshard::an_item_changes_its_home_in_one_step,
            reshard::what_is_not_as_seen_is_not_moved,
            reshard::a_late_copy_gives_way,
            reshard::nothing_is_moved_after_the_lease,
            reshard::two_items_are_read_at_one_moment,
            reshard::a_reshard_begins_with_its_job,
            reshard::a_job_is_changed_where_it_is_as_seen,
            reshard::a_change_ends_with_its_job
        }
    };
}

macro_rules! run_each {
    ($($module:ident :: $test:ident),+) => {
        /// Runs the whole suite over one fixture.
        pub async fn run_all(fixture: &impl Fixture) {
            $($module::$test(fixture).await;)+
        }
    };
}

contract_suite!(run_each);

/// Gives a collection its metadata item, and no job.
pub async fn enlist(
    store: &impl RecordStore,
    metadata: &CollectionMetadata,
) -> Result<Dated<()>, StoreError> {
    let seen = store.get::<DirectoryItem>(&()).await?.value.unwrap_or_default();
    store.commit(&enlisting(&seen, metadata, None)).await
}

/// The changes that give a collection its metadata, and its job if it begins with a change, under this directory.
///
/// # Panics
///
/// If the directory is full.
pub fn enlisting(
    seen: &DirectoryItem,
    metadata: &CollectionMetadata,
    job: Option<&Job>,
) -> Vec<Change> {
    let partition = &metadata.partition;
    let listing = if seen.groups().is_some() {
        Change::listing(KeyHash::of(partition))
    } else {
        Change::of_directory(seen, seen.with(partition).expect("room in the directory"))
    };
    let mut changes = vec![Change::of_metadata(None, metadata.clone()), listing];
    changes.extend(job.map(|job| Change::of_job(&job.partition, None, Some(job.clone()))));
    changes
}

/// The changes that begin a reshard.
pub fn beginning(
    seen: &CollectionMetadata,
    next: &CollectionMetadata,
    seen_job: Option<&Job>,
    job: &Job,
) -> [Change; 2] {
    let metadata = Change::of_metadata(Some(seen), next.clone());
    [metadata, Change::of_job(&job.partition, seen_job, Some(job.clone()))]
}

/// The changes that end one.
pub fn ending(seen: &CollectionMetadata, next: &CollectionMetadata, job: &Job) -> [Change; 2] {
    let metadata = Change::of_metadata(Some(seen), next.clone());
    [metadata, Change::of_job(&job.partition, Some(job), None)]
}

/// A partition of the main table that only the named test uses.
fn shard(test: &str, fixture: &impl Fixture) -> PhysicalPartitionKey {
    partition(test).at(ShardId::new(0), Placement::Xxh64, fixture.schema().separator)
}

fn partition(test: &str) -> PartitionKey {
    PartitionKey::new(format!("contract {test}")).expect("a valid partition key")
}

/// The sort keys in a table of either type, in ascending order of `n`.
fn sort_key(n: u32, fixture: &impl Fixture) -> SortKey {
    match fixture.schema().sort_key_type {
        SortKeyType::String => SortKey::string(format!("{n:08}")).expect("a valid sort key"),
        SortKeyType::Number => SortKey::Number(u64::from(n).into()),
    }
}

fn at(partition: &PhysicalPartitionKey, sort: SortKey) -> PhysicalKey {
    PhysicalKey { partition: partition.clone(), sort }
}

fn item(generation: u64, version: u64) -> StoredItem {
    let text = AttributeValue::String(format!("version {version}"));
    StoredItem {
        attributes: Attributes::from([("text".to_owned(), text)]),
        generation: Generation::new(generation),
        version: Version::new(version),
        forwarded: false,
    }
}

fn marker(generation: u64) -> StoredItem {
    StoredItem::marker(Generation::new(generation))
}

fn guarded(
    key: &PhysicalKey,
    action: Action,
    generation: u64,
    expected: Expected,
    fixture: &impl Fixture,
) -> Write {
    // Far longer than a test takes on the real clock.
    let lease = Lease::new(fixture.clock().now(), None, Duration::from_mins(10));
    let condition = Condition { generation: Generation::new(generation), expected };
    Write { key: key.clone(), action, condition, lease }
}

/// Puts an item, whatever is there.
async fn put(key: &PhysicalKey, item: StoredItem, fixture: &impl Fixture) {
    let write = guarded(key, Action::Put(item.into()), u64::MAX, Expected::Any, fixture);
    fixture.items().write(&write).await.expect("an unconditional put");
}
