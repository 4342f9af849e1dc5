//! What operations cost in each phase of a reshard: the table of docs/PROTOCOL.md, "Costs".
//!
//! The use cases run over DynamoDB's adapter and the embedded engine, whose endpoint counts requests
//! and capacity as DynamoDB does. Metadata and what lies at an item's homes are put there by hand,
//! and nobody rebalances, so that a collection stays in its phase.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use dynashard_aws::{
    DynamoItemStore, DynamoRecordStore, OsEntropy, ServerClock, SystemClock, connect_local,
};
use dynashard_core::ports::{
    Action, Change, Clock, Condition, Consistency, Expected, ItemStore, ReadRecords, RecordStore,
    Write,
};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    Advance, AttributeValue, Attributes, Code, CollectionMetadata, Deadline, Directory,
    DirectoryItem, Generation, Group, Job, KeyHash, Lease, NewItem, Phase, Pinned, Precondition,
    Reader, Rebalancer, Scaler, Segment, ServerTime, Settings, StoredItem, Version, Writer,
};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, ShardId, SortKey};
use dynashard_local::{Counters, DynamoDb, DynamoDbOptions};
use dynashard_testkit::{beginning, enlist, hashes_beside};

const MAIN_TABLE: &str = "main";
const METADATA_TABLE: &str = "metadata";

/// Far longer than a test takes: no metadata is read twice.
const LEASE: Duration = Duration::from_mins(10);

/// With its keys and the system's attributes, an item of just under one kilobyte, of which four are
/// read for one unit.
const PAYLOAD_BYTES: usize = 880;

/// When collections changed last, in epoch seconds.
const LONG_AGO: u64 = 1_356_998_400;

/// The generation of the reshards. What lay there before has the one before.
const NOW: u64 = 2;

/// Where a collection of one shard stands that grows to two.
#[derive(Debug, Clone, Copy)]
enum In {
    Stable,
    Forward,
    Move,
}

impl In {
    fn phase(self) -> Phase {
        let (from, to) = (ShardCount::ONE, two());
        match self {
            Self::Stable => Phase::Stable,
            Self::Forward => Phase::Forward { from, to },
            Self::Move => Phase::Move { from, to },
        }
    }
}

/// What lies in a shard under a sort key.
#[derive(Debug, Clone, Copy)]
enum Lies {
    Nothing,
    /// An item from before the reshard.
    Before,
    /// An item that was written or moved since it began.
    Since,
    Marker,
    /// A marker of an earlier reshard.
    OldMarker,
}

/// The version of [`Lies::Before`], which a move keeps.
const SEEN: Version = Version::new(1);

impl Lies {
    fn item(self) -> Option<StoredItem> {
        let live = |version, generation| StoredItem {
            attributes: attributes(),
            generation: Generation::new(generation),
            version,
            forwarded: false,
        };
        match self {
            Self::Nothing => None,
            Self::Before => Some(live(SEEN, NOW - 1)),
            Self::Since => Some(live(Version::new(2), NOW)),
            Self::Marker => Some(StoredItem::marker(Generation::new(NOW))),
            Self::OldMarker => Some(StoredItem::marker(Generation::new(NOW - 1))),
        }
    }
}

/// What a client does.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Put(Precondition),
    Delete(Precondition),
    Patch,
    Get(Consistency),
    /// One page, which holds the whole collection.
    Query(Consistency),
}

const PUT: Operation = Operation::Put(Precondition::None);
const CREATE: Operation = Operation::Put(Precondition::Absent);
const REPLACE: Operation = Operation::Put(Precondition::Exists);
const REPLACE_SEEN: Operation = Operation::Put(Precondition::Version(SEEN));
const DELETE: Operation = Operation::Delete(Precondition::None);
const DELETE_THERE: Operation = Operation::Delete(Precondition::Exists);
const DELETE_SEEN: Operation = Operation::Delete(Precondition::Version(SEEN));
const PATCH: Operation = Operation::Patch;
const GET: Operation = Operation::Get(Consistency::Strong);
const GET_EVENTUAL: Operation = Operation::Get(Consistency::Eventual);
const QUERY: Operation = Operation::Query(Consistency::Strong);
const QUERY_EVENTUAL: Operation = Operation::Query(Consistency::Eventual);

type Outcome = Result<(), Code>;

const DONE: Outcome = Ok(());
const REFUSED: Outcome = Err(Code::PreconditionFailed);
const ABSENT: Outcome = Err(Code::ItemNotFound);

/// What an operation comes to, its requests on the main table, and the units of these.
type Step = (Operation, Outcome, &'static str, &'static str);

/// What lies at an item's old home and at its new one, and what is done to it then, one after the
/// other.
type Row = ([Lies; 2], &'static [Step]);

use Lies::{Before, Marker, Nothing, OldMarker, Since};

/// In `stable` the new home is the only one.
const STABLE: &[Row] = &[
    (
        [Nothing, Nothing],
        &[
            (GET, ABSENT, "GetItem", "1 RCU"),
            (PATCH, ABSENT, "GetItem", "1 RCU"),
            (REPLACE, REFUSED, "PutItem", "1 WCU"),
            (DELETE_THERE, REFUSED, "DeleteItem", "1 WCU"),
            (DELETE, DONE, "DeleteItem", "1 WCU"),
            (PUT, DONE, "PutItem", "1 WCU"),
            (PUT, DONE, "PutItem", "1 WCU"),
            (DELETE, DONE, "DeleteItem", "1 WCU"),
            (CREATE, DONE, "PutItem", "1 WCU"),
        ],
    ),
    (
        [Nothing, Before],
        &[
            (GET, DONE, "GetItem", "1 RCU"),
            (GET_EVENTUAL, DONE, "GetItem", "0.5 RCU"),
            (QUERY, DONE, "2 Query", "2 RCU"),
            (QUERY_EVENTUAL, DONE, "2 Query", "1 RCU"),
            (CREATE, REFUSED, "PutItem", "1 WCU"),
            (REPLACE_SEEN, DONE, "PutItem", "1 WCU"),
            (REPLACE_SEEN, REFUSED, "PutItem", "1 WCU"),
            (DELETE_SEEN, REFUSED, "DeleteItem", "1 WCU"),
            (PATCH, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, DONE, "DeleteItem", "1 WCU"),
        ],
    ),
];

/// The first time whatever needs one puts a marker, and afterwards it is there.
const FORWARD_OF_NOTHING: &[Row] = &[
    (
        [Nothing, Nothing],
        &[
            (GET, ABSENT, "GetItem, TransactGetItems", "5 RCU"),
            (PUT, DONE, "GetItem, 2 PutItem", "1 RCU + 2 WCU"),
            (PUT, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (GET, DONE, "GetItem", "1 RCU"),
            (CREATE, REFUSED, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (REPLACE, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (PATCH, DONE, "2 GetItem, PutItem", "2 RCU + 1 WCU"),
            (DELETE_THERE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, REFUSED, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
            (DELETE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
            (REPLACE, REFUSED, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (CREATE, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
        ],
    ),
    ([OldMarker, Nothing], &[(PUT, DONE, "GetItem, 2 PutItem", "1 RCU + 2 WCU")]),
    (
        [Nothing, Nothing],
        &[
            (DELETE, DONE, "DeleteItem, GetItem, PutItem", "1 RCU + 2 WCU"),
            (DELETE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
        ],
    ),
];

/// Each of these but an eventually consistent get moves the item first, once.
const NOT_YET_MOVED: &[Row] = &[
    (
        [Before, Nothing],
        &[
            (GET_EVENTUAL, DONE, "GetItem, TransactGetItems", "5 RCU"),
            (GET, DONE, "GetItem, TransactGetItems, TransactWriteItems", "5 RCU + 4 WCU"),
            (GET, DONE, "GetItem", "1 RCU"),
        ],
    ),
    (
        [Before, Nothing],
        &[
            (DELETE, DONE, "DeleteItem, GetItem, TransactWriteItems", "1 RCU + 5 WCU"),
            (DELETE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
        ],
    ),
    (
        [Before, OldMarker],
        &[
            (CREATE, REFUSED, "GetItem, PutItem, TransactWriteItems", "1 RCU + 5 WCU"),
            (DELETE_SEEN, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
        ],
    ),
    (
        [Before, Nothing],
        &[(DELETE_THERE, DONE, "DeleteItem, GetItem, TransactWriteItems", "1 RCU + 5 WCU")],
    ),
];

/// What only in `forward` goes by way of the old home.
const ONLY_IN_FORWARD: &[Row] = &[
    (
        [Before, Nothing],
        &[
            (PUT, DONE, "GetItem, PutItem, TransactWriteItems", "1 RCU + 5 WCU"),
            (GET, DONE, "GetItem", "1 RCU"),
            (PUT, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
        ],
    ),
    (
        [Before, Nothing],
        &[
            (REPLACE, DONE, "GetItem, PutItem, TransactWriteItems", "1 RCU + 5 WCU"),
            (GET, DONE, "GetItem", "1 RCU"),
            (REPLACE, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
        ],
    ),
    (
        [Before, Nothing],
        &[(REPLACE_SEEN, DONE, "GetItem, PutItem, TransactWriteItems", "1 RCU + 5 WCU")],
    ),
    (
        [Before, Nothing],
        &[
            (PATCH, DONE, "2 GetItem, PutItem, TransactWriteItems", "2 RCU + 5 WCU"),
            (PATCH, DONE, "2 GetItem, PutItem", "2 RCU + 1 WCU"),
        ],
    ),
    (
        [Nothing, Nothing],
        &[
            (CREATE, DONE, "GetItem, 2 PutItem", "1 RCU + 2 WCU"),
            (CREATE, REFUSED, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
            (REPLACE, REFUSED, "GetItem, PutItem", "1 RCU + 1 WCU"),
        ],
    ),
    ([Nothing, Nothing], &[(REPLACE, REFUSED, "GetItem, 2 PutItem", "1 RCU + 2 WCU")]),
    (
        [Nothing, Nothing],
        &[(DELETE_THERE, REFUSED, "DeleteItem, GetItem, PutItem", "1 RCU + 2 WCU")],
    ),
    // That nothing is there is only said on the word of a transaction, as by a get.
    (
        [Nothing, Nothing],
        &[
            (PATCH, ABSENT, "2 GetItem, PutItem, TransactGetItems", "6 RCU + 1 WCU"),
            (PATCH, ABSENT, "2 GetItem, TransactGetItems", "6 RCU"),
        ],
    ),
];

/// Without a precondition a put in `move` goes past the old home, and a delete only reads there.
const BLIND_IN_MOVE: &[Row] = &[
    (
        [Nothing, Nothing],
        &[
            (GET, ABSENT, "GetItem, TransactGetItems", "5 RCU"),
            (DELETE, DONE, "GetItem, TransactGetItems", "5 RCU"),
            (PUT, DONE, "PutItem", "1 WCU"),
            (PUT, DONE, "PutItem", "1 WCU"),
            (GET, DONE, "GetItem", "1 RCU"),
            (DELETE, DONE, "DeleteItem, GetItem, TransactGetItems", "5 RCU + 1 WCU"),
            (DELETE, DONE, "GetItem, TransactGetItems", "5 RCU"),
        ],
    ),
    (
        [OldMarker, Since],
        &[(DELETE, DONE, "DeleteItem, GetItem, TransactGetItems", "5 RCU + 1 WCU")],
    ),
    // It has moved, and its marker says so.
    (
        [Marker, Since],
        &[
            (PUT, DONE, "PutItem", "1 WCU"),
            (DELETE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
            (DELETE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
            (GET, ABSENT, "GetItem, TransactGetItems", "5 RCU"),
        ],
    ),
];

/// A create reads at the old home, and what finds its item at the new one does not go near it.
const CONDITIONAL_IN_MOVE: &[Row] = &[
    (
        [Nothing, Nothing],
        &[
            (CREATE, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (CREATE, REFUSED, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (REPLACE, DONE, "PutItem", "1 WCU"),
            (PATCH, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, DONE, "DeleteItem, GetItem, TransactGetItems", "5 RCU + 1 WCU"),
            (DELETE_THERE, REFUSED, "GetItem, TransactGetItems", "5 RCU"),
            (REPLACE, REFUSED, "GetItem, 2 PutItem", "1 RCU + 2 WCU"),
            (PATCH, ABSENT, "GetItem, TransactGetItems", "5 RCU"),
        ],
    ),
    ([OldMarker, Nothing], &[(CREATE, DONE, "GetItem, PutItem", "1 RCU + 1 WCU")]),
    // It has moved, and its marker says so.
    (
        [Marker, Since],
        &[
            (REPLACE, DONE, "PutItem", "1 WCU"),
            (REPLACE_SEEN, REFUSED, "PutItem", "1 WCU"),
            (CREATE, REFUSED, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (PATCH, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, REFUSED, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
        ],
    ),
    // It has not, and is moved once.
    (
        [Before, Nothing],
        &[
            (REPLACE, DONE, "GetItem, 2 PutItem, TransactWriteItems", "1 RCU + 6 WCU"),
            (REPLACE, DONE, "PutItem", "1 WCU"),
        ],
    ),
    (
        [Before, Nothing],
        &[(REPLACE_SEEN, DONE, "GetItem, 2 PutItem, TransactWriteItems", "1 RCU + 6 WCU")],
    ),
    (
        [Before, Nothing],
        &[
            (
                PATCH,
                DONE,
                "GetItem, PutItem, TransactGetItems, TransactWriteItems",
                "5 RCU + 5 WCU",
            ),
            (PATCH, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
        ],
    ),
];

/// The first that looks at the old home lets what a put has gone past give way, once.
const WENT_PAST: &[Row] = &[
    (
        [Before, Nothing],
        &[
            (PUT, DONE, "PutItem", "1 WCU"),
            (PUT, DONE, "PutItem", "1 WCU"),
            (GET, DONE, "GetItem", "1 RCU"),
            (DELETE, DONE, "DeleteItem, GetItem, 2 TransactWriteItems", "1 RCU + 9 WCU"),
            (DELETE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
        ],
    ),
    (
        [Before, Since],
        &[
            (CREATE, REFUSED, "GetItem, PutItem, 2 TransactWriteItems", "1 RCU + 9 WCU"),
            (DELETE_THERE, DONE, "DeleteItem, GetItem", "1 RCU + 1 WCU"),
        ],
    ),
    (
        [Before, Since],
        &[(DELETE_THERE, DONE, "DeleteItem, GetItem, 2 TransactWriteItems", "1 RCU + 9 WCU")],
    ),
    (
        [Before, Since],
        &[
            (REPLACE, DONE, "PutItem", "1 WCU"),
            (PATCH, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, DONE, "DeleteItem, GetItem, 2 TransactWriteItems", "1 RCU + 9 WCU"),
        ],
    ),
];

/// The source and the destination, and the source once more if it alone has an item that moves.
const QUERIES: &[Row] = &[
    ([Nothing, Nothing], &[(QUERY, DONE, "2 Query", "2 RCU")]),
    (
        [Before, Nothing],
        &[
            (QUERY, DONE, "3 Query", "3 RCU"),
            (QUERY_EVENTUAL, DONE, "3 Query", "3 RCU"),
            (GET, DONE, "GetItem, TransactGetItems, TransactWriteItems", "5 RCU + 4 WCU"),
            (QUERY, DONE, "2 Query", "2 RCU"),
        ],
    ),
    ([Before, Since], &[(QUERY, DONE, "2 Query", "2 RCU")]),
    ([Nothing, Since], &[(QUERY_EVENTUAL, DONE, "2 Query", "2 RCU")]),
    // A marker without its item is looked up.
    ([Marker, Nothing], &[(QUERY, DONE, "2 Query, TransactGetItems", "6 RCU")]),
];

/// What does not move lies at the old home, which is the new one.
const UNMOVED: &[Row] = &[
    (
        [Before, Nothing],
        &[
            (GET, DONE, "GetItem", "1 RCU"),
            (GET_EVENTUAL, DONE, "GetItem", "1 RCU"),
            (QUERY_EVENTUAL, DONE, "2 Query", "2 RCU"),
            (PUT, DONE, "PutItem", "1 WCU"),
            (REPLACE, DONE, "PutItem", "1 WCU"),
            (CREATE, REFUSED, "PutItem", "1 WCU"),
            (PATCH, DONE, "GetItem, PutItem", "1 RCU + 1 WCU"),
            (DELETE_THERE, DONE, "DeleteItem", "1 WCU"),
        ],
    ),
    (
        [Nothing, Nothing],
        &[
            (GET, ABSENT, "GetItem", "1 RCU"),
            (PATCH, ABSENT, "GetItem", "1 RCU"),
            (DELETE_THERE, REFUSED, "DeleteItem", "1 WCU"),
            (DELETE, DONE, "DeleteItem", "1 WCU"),
            (PUT, DONE, "PutItem", "1 WCU"),
        ],
    ),
];

#[tokio::test]
async fn operations_in_stable_cost_what_the_protocol_says() {
    Box::pin(check(In::Stable, true, &[STABLE])).await;
}

#[tokio::test]
async fn operations_in_forward_cost_what_the_protocol_says() {
    let tables = [FORWARD_OF_NOTHING, NOT_YET_MOVED, ONLY_IN_FORWARD];
    Box::pin(check(In::Forward, true, &tables)).await;
}

#[tokio::test]
async fn operations_in_move_cost_what_the_protocol_says() {
    let tables = [BLIND_IN_MOVE, CONDITIONAL_IN_MOVE, NOT_YET_MOVED, WENT_PAST];
    Box::pin(check(In::Move, true, &tables)).await;
}

#[tokio::test]
async fn a_query_pays_for_its_pages_and_once_more_for_those_of_a_source_with_items_to_move() {
    for phase in [In::Forward, In::Move] {
        Box::pin(check(phase, true, &[QUERIES])).await;
    }
}

#[tokio::test]
async fn what_does_not_move_costs_what_it_does_in_stable_with_strong_reads() {
    for phase in [In::Forward, In::Move] {
        Box::pin(check(phase, false, &[UNMOVED])).await;
    }
}

/// All groups have changed so often that their counters have three digits.
#[tokio::test]
async fn a_directory_of_a_million_collections_costs_what_the_protocol_says() {
    let world = Box::pin(World::start()).await;
    let store = &world.metadata;
    let seen = store.get::<DirectoryItem>(&()).await.expect("a read").value.unwrap_or_default();
    let groups = Group::all().map(|group| (group, 999)).collect();
    let pinned = seen.pinned.clone().unwrap_or_else(|| Pinned::of(&Settings::default()));
    let root = DirectoryItem::stored(seen.rev + 1, Vec::new(), Some(groups), Some(pinned));
    let root = root.expect("a root");
    store.commit(&[Change::of_directory(&seen, root)]).await.expect("a root");
    let hash = KeyHash::of(&PartitionKey::new("listed").expect("a valid partition key"));
    let of = hash.segment();
    let listed = Change::of_segment(of, Segment::of(hashes_beside(hash).take(123)));
    store.commit(&[listed]).await.expect("a segment");
    let mut before = world.database.counters();
    let mut costs = || {
        let after = world.database.counters();
        let spent = spent_on(METADATA_TABLE, &before, &after);
        before = after;
        spent
    };
    let cost = |requests: &str, units: &str| (requests.to_owned(), units.to_owned());
    store.get::<DirectoryItem>(&()).await.expect("a read");
    assert_eq!(costs(), cost("GetItem", "1 RCU"));
    store.get::<Segment>(&of).await.expect("a read");
    assert_eq!(costs(), cost("GetItem", "1 RCU"));
    store.raise(&[of.group(), hash.metadata_group()]).await.expect("a root");
    assert_eq!(costs(), cost("UpdateItem", "4 WCU"));
    world.database.shutdown().await;
}

/// Goes through these rows, each with a collection of its own and one item in it, which moves or not.
async fn check(phase: In, moves: bool, tables: &[&[Row]]) {
    let world = Box::pin(World::start()).await;
    for (n, (there, steps)) in tables.iter().copied().flatten().enumerate() {
        let metadata = metadata(&format!("case {n}"), phase);
        enlist(&world.metadata, &metadata).await.expect("a new collection");
        // They would believe for a lease that the collection is cold.
        let (writer, reader) = (world.writer().await, world.reader().await);
        let key = item_key(&metadata.partition, 0, moves);
        world.lay(&key, *there).await;
        for (n, (operation, outcome, requests, units)) in steps.iter().enumerate() {
            let before = world.database.counters();
            let found = world.carry_out(&writer, &reader, *operation, &key).await;
            let spent = spent(&before, &world.database.counters());
            assert_eq!(
                (found, spent.0.as_str(), spent.1.as_str()),
                (*outcome, *requests, *units),
                "{phase:?}, {there:?}, step {n}: {operation:?}"
            );
        }
    }
    world.database.shutdown().await;
}

/// Four write units for each item and eight where a put went past it, a share of a page, and
/// afterwards one for each marker.
#[tokio::test]
async fn a_mover_pays_what_the_protocol_says_for_items_and_markers() {
    let world = Box::pin(World::start()).await;
    let begun = Box::pin(world.begin_growth("moved")).await;
    let partition = &begun.partition;
    let items = [[Before, Nothing], [Before, OldMarker], [Before, Nothing], [Before, Since]];
    for (n, there) in items.into_iter().enumerate() {
        world.lay(&item_key(partition, n, true), there).await;
    }
    // `move`, just begun: a scan comes first, and the closing one a long time later.
    let job = world.job(partition).await;
    let moving = CollectionMetadata { rev: begun.rev + 1, ..metadata("moved", In::Move) };
    let seen = Some(ServerTime(job.started_secs));
    let next =
        Job { rev: job.rev + 1, forward_seen: seen, move_seen: seen, yielded: true, ..job.clone() };
    world.metadata.commit(&beginning(&begun, &moving, Some(&job), &next)).await.expect("moving");
    let (waits, spent) = Box::pin(world.advance(partition)).await;
    assert!(matches!(waits, Advance::Waiting { .. }), "{waits:?}");
    assert_eq!(spent, "Query, 5 TransactWriteItems: 1 RCU + 20 WCU");

    // Closed, long enough ago for the removal of markers.
    let job = world.job(partition).await;
    assert_eq!(job.items_moved, 4);
    let closed = CollectionMetadata {
        rev: moving.rev + 1,
        cleanup_pending: true,
        ..metadata("moved", In::Stable)
    };
    let next = Job {
        rev: job.rev + 1,
        done: BTreeSet::new(),
        under_way: BTreeMap::new(),
        closed_seen: Some(ServerTime(LONG_AGO)),
        yielded: true,
        ..job.clone()
    };
    world.metadata.commit(&beginning(&moving, &closed, Some(&job), &next)).await.expect("closed");
    let (finished, spent) = Box::pin(world.advance(partition)).await;
    assert!(matches!(finished, Advance::Finished(_)), "{finished:?}");
    assert_eq!(spent, "4 DeleteItem, Query: 1 RCU + 4 WCU");
    world.database.shutdown().await;
}

type Writes = Writer;
type Reads = Reader;

/// The tables in an engine of their own, behind an endpoint that counts.
struct World {
    database: DynamoDb,
    clock: SystemClock,
    items: DynamoItemStore,
    metadata: DynamoRecordStore,
    settings: Settings,
}

impl World {
    async fn start() -> Self {
        let database = DynamoDb::start(DynamoDbOptions::default()).await.expect("an engine");
        let server_clock = ServerClock::default();
        let clock = SystemClock::new(server_clock.clone());
        let client = connect_local(database.url(), server_clock).await;
        let settings = Settings { lease_term: LEASE, ..Settings::default() };
        let schema = settings.schema.clone();
        let partition = (schema.partition_key_name.as_str(), KeyType::Hash);
        let sort = (schema.sort_key_name.as_str(), KeyType::Range);
        create_table(&client, MAIN_TABLE, &[partition.clone(), sort]).await;
        create_table(&client, METADATA_TABLE, &[partition]).await;

        let metadata = METADATA_TABLE.to_owned();
        let metadata = DynamoRecordStore::new(client.clone(), metadata, &schema);
        let items = DynamoItemStore::new(client, clock.clone(), MAIN_TABLE.to_owned(), schema);
        Self { database, clock, items, metadata, settings }
    }

    /// That of an environment which has seen already that the main table belongs to no other stack.
    async fn directory(&self) -> Directory {
        let (metadata, clock) = (self.metadata.clone(), self.clock.clone());
        let directory = Directory::new(
            dynashard_core::ports::World::new(self.items.clone(), metadata, clock, OsEntropy),
            self.settings.clone(),
        );
        directory.lease().hold(self.deadline()).await.expect("a read");
        directory
    }

    async fn writer(&self) -> Writes {
        Writer::new(self.directory().await)
    }

    async fn reader(&self) -> Reads {
        Reader::new(self.directory().await)
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.clock.now(), Duration::from_secs(20))
    }

    /// Puts what is to lie at both homes of an item.
    async fn lay(&self, key: &ItemKey, there: [Lies; 2]) {
        for (shard, lies) in (0..).map(ShardId::new).zip(there) {
            let Some(item) = lies.item() else { continue };
            let condition = Condition { generation: item.generation, expected: Expected::Any };
            let write = Write {
                key: key.at(shard, Placement::Xxh64, self.settings.schema.separator),
                action: Action::Put(item.into()),
                condition,
                lease: Lease::new(self.clock.now(), None, LEASE),
            };
            self.items.write(&write).await.expect("a put by hand");
        }
    }

    async fn carry_out(
        &self,
        writer: &Writes,
        reader: &Reads,
        operation: Operation,
        key: &ItemKey,
    ) -> Outcome {
        let deadline = self.deadline();
        let outcome = match operation {
            Operation::Put(precondition) => {
                let item = NewItem::new(key.clone(), attributes(), &self.settings.schema);
                let item = item.expect("a valid item");
                Box::pin(writer.put(&item, precondition, deadline)).await.map(drop)
            }
            Operation::Delete(precondition) => {
                Box::pin(writer.delete(key, precondition, deadline)).await.map(drop)
            }
            Operation::Patch => {
                let patch = writer.patch(key, attributes(), Precondition::None, deadline);
                Box::pin(patch).await.map(drop)
            }
            Operation::Get(consistency) => {
                Box::pin(reader.get(key, None, consistency, deadline)).await.map(drop)
            }
            Operation::Query(consistency) => {
                let query = Query { consistency, ..Query::all(key.partition.clone()) };
                let page = reader.query(&query, PageBudget::UNLIMITED, deadline);
                Box::pin(page).await.map(|page| assert_eq!(page.cursor, None, "it is the last one"))
            }
        };
        outcome.map_err(|error| error.code())
    }

    /// A collection of one shard that begins to grow to two, with its job.
    async fn begin_growth(&self, name: &str) -> CollectionMetadata {
        let one = CollectionMetadata {
            generation: Generation::new(NOW - 1),
            phase: Phase::Stable,
            ..metadata(name, In::Forward)
        };
        enlist(&self.metadata, &one).await.expect("a new collection");
        let scaler = Scaler::new(self.directory().await);
        let begun = Box::pin(scaler.request_count(&one.partition, two(), self.deadline())).await;
        begun.expect("it begins")
    }

    async fn job(&self, partition: &PartitionKey) -> Job {
        self.metadata.get::<Job>(partition).await.expect("a read").value.expect("a job")
    }

    /// What a slice of a rebalancer came to, and what it has spent.
    async fn advance(&self, partition: &PartitionKey) -> (Advance, String) {
        let rebalancer = Rebalancer::new(self.directory().await);
        let before = self.database.counters();
        let slice = Box::pin(rebalancer.advance(partition, 0, self.deadline())).await;
        let (requests, units) = spent(&before, &self.database.counters());
        (slice.advance.expect("a slice"), format!("{requests}: {units}"))
    }
}

async fn create_table(client: &Client, table: &str, keys: &[(&str, KeyType)]) {
    let mut request =
        client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for (name, key_type) in keys {
        let attribute = AttributeDefinition::builder().attribute_name(*name);
        let attribute = attribute.attribute_type(ScalarAttributeType::S);
        let element = KeySchemaElement::builder().attribute_name(*name).key_type(key_type.clone());
        request = request
            .attribute_definitions(attribute.build().expect("name and type"))
            .key_schema(element.build().expect("name and type"));
    }
    request.send().await.expect("a new table");
}

fn two() -> ShardCount {
    ShardCount::new(2).expect("a valid count")
}

/// A collection where one is that grows from one shard to two, or has grown.
fn metadata(name: &str, phase: In) -> CollectionMetadata {
    let partition = PartitionKey::new(name).expect("a valid partition key");
    let in_force = match phase {
        In::Forward => ShardCount::ONE,
        In::Move | In::Stable => two(),
    };
    CollectionMetadata {
        phase: phase.phase(),
        generation: Generation::new(NOW),
        ..CollectionMetadata::stable(partition, Placement::Xxh64, in_force, LONG_AGO)
    }
}

/// The `n`th key of those that move from shard 0 to shard 1 as their collection grows, or of those
/// that stay.
fn item_key(partition: &PartitionKey, n: usize, moves: bool) -> ItemKey {
    let keys = (0..).map(|n| {
        let sort = SortKey::string(format!("{n:03}")).expect("a valid sort key");
        ItemKey::new(partition.clone(), sort)
    });
    let home = ShardId::new(u32::from(moves));
    let mut keys = keys.filter(|key| Placement::Xxh64.home(key, two()) == Some(home));
    keys.nth(n).expect("half of all keys")
}

fn attributes() -> Attributes {
    let text = AttributeValue::String("x".repeat(PAYLOAD_BYTES));
    Attributes::from([("text".to_owned(), text)])
}

/// The requests on the main table between two looks, by operation, and what they have consumed.
fn spent(before: &Counters, after: &Counters) -> (String, String) {
    spent_on(MAIN_TABLE, before, after)
}

fn spent_on(table: &str, before: &Counters, after: &Counters) -> (String, String) {
    let mut requests = Vec::new();
    let (mut rcu, mut wcu) = (0.0, 0.0);
    for (operation, after) in &after.tables[table] {
        let before = before.tables[table].get(operation).copied().unwrap_or_default();
        match after.requests - before.requests {
            0 => {}
            1 => requests.push(operation.clone()),
            n => requests.push(format!("{n} {operation}")),
        }
        rcu += after.consumed_rcu - before.consumed_rcu;
        wcu += after.consumed_wcu - before.consumed_wcu;
    }
    let units = [(rcu, "RCU"), (wcu, "WCU")].into_iter().filter(|(units, _)| *units > 0.0);
    let units = units.map(|(units, kind)| format!("{units} {kind}")).collect::<Vec<_>>();
    (requests.join(", "), units.join(" + "))
}
