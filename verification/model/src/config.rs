//! The searches: which clients, how many reshards, how many failures.
//!
//! A program is written as its verbs and how many operations it begins: `writes 2` is a client that begins two
//! operations, each of any kind of write.

use std::fmt;

use crate::check::{Limit, Progress, Report, Verdict, search};
use crate::conversion::ConversionModel;
use crate::epochs::{EpochsModel, Interval};
use crate::index_shards::IndexShardsModel;
use crate::item::{Home, ItemModel, Program, Value, Verb};
use crate::layouts::LayoutsModel;
use crate::lifetimes::LifetimesModel;
use crate::mutation::Mutation;
use crate::ownership::OwnershipModel;
use crate::query::{QueryModel, SourceIs, Way};
use crate::random::{self, RandomModel};
use crate::schedule::{Numbering, Revision};
use crate::segments::SegmentsModel;
use crate::settings::{SettingsModel, Term};

/// One search.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What it is called.
    pub name: String,
    /// What is searched.
    pub subject: Subject,
    /// How much there is to search.
    pub extent: Extent,
    /// What some state of every search must show, also of one that is cut off where the tests cut it off.
    pub shows: &'static [&'static str],
}

/// How much there is to search, as measured. A search that no longer ends where it did has grown, and its bounds are to
/// be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The tests search it to the end.
    Small,
    /// The nightly run does.
    Large,
    /// It is not known to end within the bound of the nightly run.
    Open,
}

/// One of the models.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The item protocol.
    Item(ItemModel),
    /// Queries.
    Query(QueryModel),
    /// A `random` collection.
    Random(RandomModel),
    /// A layout of epochs.
    Epochs(EpochsModel),
    /// Changes of the lease term.
    Settings(SettingsModel),
    /// Two stacks on one main table.
    Ownership(OwnershipModel),
    /// A directory in segments.
    Segments(SegmentsModel),
    /// Layouts that are renewed by the root.
    Layouts(LayoutsModel),
    /// A directory of one item that becomes one in segments.
    Conversion(ConversionModel),
    /// Changes of the lifetime of requests.
    Lifetimes(LifetimesModel),
    /// Shards of indexes.
    IndexShards(IndexShardsModel),
}

/// Where the search for a mutation ends. Those that are caught are caught before, and in as many steps each time.
pub fn limit_against(mutation: Mutation) -> Limit {
    Limit::States(match mutation {
        // They take 14 and 15 steps of three clients and the mover to show.
        Mutation::RemoveMarkersWhileMoving | Mutation::DrainGivesWayUnchecked => 10_000_000,
        _ => 3_000_000,
    })
}

/// Configurations that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Puts, deletes, conditional writes, updates in place and checks, with timeouts and crashes.
    Good,
    /// Upserts, `If-Match` on a version, and routes over three homes.
    Ext,
    /// Queries.
    Query,
    /// `random` collections that grow and shrink.
    Random,
    /// Layouts of several epochs.
    Epochs,
    /// Changes of the lease term and of the lifetime of requests during a reshard, the owner of a main table, and a directory
    /// in segments.
    Settings,
}

const BEGINS: &str = "the last reshard begins";
const MOVES: &str = "an operation in the last `move`";
const CLOSES: &str = "the last reshard closes";
const ACTS_BEHIND: &str = "an operation behind the last reshard";
const ALL_END: &str = "every operation ends behind the last reshard";
const CLOSED: &[&str] = &[BEGINS, MOVES, CLOSES];
const BEHIND: &[&str] = &[BEGINS, MOVES, CLOSES, ACTS_BEHIND];
const ENDED: &[&str] = &[BEGINS, MOVES, CLOSES, ALL_END];
const QUERY_ENDS: &str = "a query ends behind the reshard";
const UNMOVABLE: &[&str] = &[
    BEGINS,
    MOVES,
    CLOSES,
    ACTS_BEHIND,
    "an item that cannot be moved is noted",
    "an item is deleted where it cannot be moved from",
];
const NOTED: &[&str] = &[BEGINS, MOVES, CLOSES, "an item that cannot be moved is noted"];
const EXPIRES: &[&str] = &[BEGINS, MOVES, CLOSES, "an item that may expire beside a marker"];
const QUERY_MOVES: &[&str] =
    &["a query in `move`", "an item beside what it has replaced", "half of a transaction shows"];

const TWO_EPOCHS: &[&str] =
    &["a query at the boundary of two counts", "a late put in `move`", "markers of two reshards"];

const LAST_ENDS: &str = "the last change ends";
const LOOKS_UP: &str = "a marker is looked up";
const DELETES: &str = "a delete where a marker points";
const GROWN: &[&str] = &[LAST_ENDS];
const LOOKED_UP: &[&str] = &[LAST_ENDS, LOOKS_UP, "a late put in a drained shard"];
const DELETED: &[&str] = &[LAST_ENDS, DELETES, "a delete that has begun again in part"];
const DRAINED: &[&str] = &[LAST_ENDS, LOOKS_UP, DELETES, "a move of which half shows"];
const PUT_LATE: &[&str] = &[LAST_ENDS, LOOKS_UP, DELETES, "a late put in a drained shard"];
const TWO_COPIES: &[&str] = &[LAST_ENDS, DELETES, "two copies of a sort key"];

const WRITES: &[Verb] = &[Verb::Put, Verb::Delete, Verb::Create, Verb::Replace];
const BLIND: &[Verb] = &[Verb::Put, Verb::Delete];
const PUT: &[Verb] = &[Verb::Put];
const GET: &[Verb] = &[Verb::Get];
const UPSERT: &[Verb] = &[Verb::Upsert];
const CHECK: &[Verb] = &[Verb::Check];
const PEEK: &[Verb] = &[Verb::Peek];
const READS: &[Verb] = &[Verb::Get, Verb::Peek];

/// Writes that go by what is there, or keep it, and one that makes it absent.
const UPDATES: &[Verb] = &[Verb::Upsert, Verb::Unless, Verb::Delete];

/// Blind writes, of items that may expire and of others.
const EXPIRING: &[Verb] = &[Verb::PutExpiring, Verb::Put, Verb::Delete];

/// A put that comes late and is read, one that hides it, and a delete that shows it again.
const HIDDEN_AND_SHOWN: &[(&[Verb], u8)] =
    &[(&[Verb::Put], 1), (&[Verb::Put], 1), (&[Verb::Delete], 1), (PEEK, 1)];

/// Up, and no further.
const UP: &[u8] = &[0, 1];
/// Up and down again.
const UP_AND_DOWN: &[u8] = &[0, 1, 0];
/// Up twice.
const UP_AND_UP: &[u8] = &[0, 1, 2];
/// Round all homes, and back to the first.
const ROUND: &[u8] = &[0, 1, 2, 0];

impl Suite {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Good, Self::Ext, Self::Query, Self::Random, Self::Epochs, Self::Settings];

    /// Its searches. None may find anything.
    pub fn configurations(self) -> Vec<Configuration> {
        match self {
            Self::Good => good(),
            Self::Ext => ext(),
            Self::Query => queries(),
            Self::Random => randoms(),
            Self::Epochs => epochs(),
            Self::Settings => settings(),
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Good => "good",
            Self::Ext => "ext",
            Self::Query => "query",
            Self::Random => "random",
            Self::Epochs => "epochs",
            Self::Settings => "settings",
        })
    }
}

impl Configuration {
    /// Searches it.
    pub fn search(self, limit: Limit, on_progress: &mut (dyn FnMut(Progress) + Send)) -> Report {
        let end = self.end();
        let mut report = match self.subject {
            Subject::Item(model) => search(model, limit, on_progress),
            Subject::Query(model) => search(model, limit, on_progress),
            Subject::Random(model) => search(model, limit, on_progress),
            Subject::Epochs(model) => search(model, limit, on_progress),
            Subject::Settings(model) => search(model, limit, on_progress),
            Subject::Ownership(model) => search(model, limit, on_progress),
            Subject::Segments(model) => search(model, limit, on_progress),
            Subject::Layouts(model) => search(model, limit, on_progress),
            Subject::Conversion(model) => search(model, limit, on_progress),
            Subject::Lifetimes(model) => search(model, limit, on_progress),
            Subject::IndexShards(model) => search(model, limit, on_progress),
        };
        let end = Some(end).filter(|_| report.verdict == Verdict::Holds);
        let shows = self.shows.iter().copied().chain(end);
        report.missing = shows.filter(|label| !report.reached.contains(label)).collect();
        report
    }

    /// What every search that comes to its end shows.
    fn end(&self) -> &'static str {
        match self.subject {
            Subject::Item(_) => ALL_END,
            Subject::Query(_) => QUERY_ENDS,
            Subject::Random(_) => "every operation ends behind the last change",
            Subject::Epochs(_) => "a query ends behind the last reshard",
            Subject::Settings(_) => "a reshard during which the term shrinks",
            Subject::Ownership(_) => "the owner serves all writes",
            Subject::Segments(_) => "the items of a key that was cold move",
            Subject::Layouts(_) => "a collection that has rested moves",
            Subject::Conversion(_) => "what was enlisted by a segment moves",
            Subject::Lifetimes(_) => "a close by the shorter lifetime",
            Subject::IndexShards(_) => "an item in the last shard",
        }
    }

    /// The smallest search that is known to catch a mutation, or the likeliest if none is. It needs no more than
    /// [`limit_against`] it.
    pub fn against(mutation: Mutation) -> Self {
        use Mutation as M;
        if let Some(small) = small_against(mutation) {
            return small;
        }
        let (put, put_create) = (&[Verb::Put][..], &[Verb::Put, Verb::Create][..]);
        let search = match mutation {
            M::UpsertKeepsMarker
            | M::UpdateKeepsVersion
            | M::VersionRepeats
            | M::UpsertTrustsNewHome
            | M::ConditionSeesMarker
            | M::RemoveMarkerUnchecked
            | M::RemoveMarkerWithoutGuard
            | M::CheckWithoutMarker => updates_against(mutation),
            M::RetryUnknown | M::DeleteOldHomeFirst => {
                Search::of(&[(WRITES, 2), (GET, 2)], UP, true)
            }
            M::GetsDoNotSettle | M::CreateSkipsOldHome => {
                Search { crashes: 0, ..Search::of(&[(put_create, 2), (GET, 2)], UP, false) }
            }
            M::AcknowledgeAfterLease | M::DropCopyUnchecked | M::DeleteOnlyAtOldHome => {
                let clients = [(put, 1), (BLIND, 2), (GET, 1)];
                Search { crashes: 0, timeouts: 0, ..Search::of(&clients, UP, false) }
            }
            M::RemoveMarkersWhileMoving => {
                let clients = [(put, 1), (&[Verb::Delete][..], 2), (&[Verb::Peek, Verb::Put], 2)];
                Search { crashes: 0, timeouts: 0, ..Search::of(&clients, UP, false) }
            }
            M::DeleteSkipsMarker | M::DeleteReadsHomesApart => {
                Search { crashes: 0, timeouts: 0, ..Search::of(HIDDEN_AND_SHOWN, UP, false) }
            }
            M::DeleteUnmovableUnchecked | M::CloseOverUnmovable => Search {
                crashes: 0,
                timeouts: 0,
                rejects: true,
                ..Search::of(&[(BLIND, 1), (GET, 2)], UP, true)
            },
            M::UnpinnedTtl => {
                let clients = [(EXPIRING, 1), (GET, 1)];
                Search { crashes: 0, timeouts: 0, ..Search::of(&clients, UP, true) }
            }
            M::ForwardBeforeStableIsKnown | M::MoveKeepsGeneration => {
                Search::of(&[(WRITES, 2), (GET, 1)], UP_AND_DOWN, true).that_shows(CLOSED)
            }
            M::EnlistWithoutWait | M::CountEnlistingFromMetadata | M::AbsenceWithoutLease => {
                Search { enlists: true, ..Search::of(&[(WRITES, 2), (GET, 2)], UP, false) }
            }
            M::PublishBeforeLeasesEnd
            | M::CloseWithoutH
            | M::CountHFromForward
            | M::LeaveNoMarkers
            | M::WriteWithoutGuard
            | M::MoverCopiesThenErases
            | M::PlainSecondGet
            | M::GetOldHomeFirst
            | M::ReplaceTrustsNewHome
            | M::DeleteOnlyAtNewHome => Search::of(&[(WRITES, 2), (GET, 2)], UP, false),
            M::QueryTakesLargestWatermark
            | M::QueryIgnoresGeneration
            | M::QueryKeepsDuplicates
            | M::QuerySkipsMarkers
            | M::CheckpointBeforeMove
            | M::MoveLeavesNoMarker
            | M::RemoveMarkersInClosingScan
            | M::RemoveMarkersUnderLeases
            | M::CloseWithoutV => {
                return QueryModel { mutation: Some(mutation), ..SMALL_QUERY }.into();
            }
            M::QuerySourcesFirst | M::QueryTrustsPilot => {
                let is_pilot = mutation == M::QueryTrustsPilot;
                let source_is = if is_pilot { SourceIs::Pilot } else { SourceIs::Last };
                let there = QueryModel { exists: true, writes: 2, source_is, ..SMALL_QUERY };
                return QueryModel { mutation: Some(mutation), ..there }.into();
            }
            M::WaitByOwnTerm
            | M::DecideByOldDirectory
            | M::AcceptWithoutRaising
            | M::ShortenAtOnce
            | M::ShortenAfterOneLease
            | M::ShortenThoughChanged
            | M::ReadWithoutDirectory
            | M::KeepWithoutDirectory => return changes(&[1, 2], Some(mutation)),
            // What is forgotten is longer than both terms of the next change.
            M::ForgetLonger => return changes(&[1, 2, 3], Some(mutation)),
            _ => return random_against(mutation),
        };
        Search { mutation: Some(mutation), ..search }.into()
    }
}

/// What the searches of the item protocol differ in.
#[derive(Clone, Debug)]
struct Search {
    programs: Vec<Program>,
    route: &'static [u8],
    /// Where a marker lies at first.
    marker: Option<u8>,
    /// Whether the item is there at first.
    exists: bool,
    /// Whether the collection is without metadata at first.
    enlists: bool,
    crashes: u8,
    timeouts: u8,
    /// Whether DynamoDB rejects moves.
    rejects: bool,
    numbering: Numbering,
    mutation: Option<Mutation>,
    extent: Extent,
    shows: &'static [&'static str],
}

impl Search {
    /// With a crash of the mover, and a timeout of each client.
    fn of(programs: &[(&[Verb], u8)], route: &'static [u8], exists: bool) -> Self {
        let program =
            |&(verbs, operations): &(&[Verb], u8)| Program { verbs: verbs.to_vec(), operations };
        Self {
            programs: programs.iter().map(program).collect(),
            route,
            marker: None,
            exists,
            enlists: false,
            crashes: 1,
            timeouts: 1,
            rejects: false,
            numbering: Numbering::OncePerReshard,
            mutation: None,
            extent: Extent::Open,
            shows: &[BEGINS, MOVES, CLOSES, ACTS_BEHIND, ALL_END],
        }
    }

    fn that_is(self, extent: Extent) -> Self {
        Self { extent, ..self }
    }

    /// Searched wide before deep, many clients that act get no further where the tests cut them off.
    fn that_shows(self, shows: &'static [&'static str]) -> Self {
        Self { shows, ..self }
    }

    fn name(&self) -> String {
        let mutation = self.mutation.map(prefix).unwrap_or_default();
        let route = self.route.iter().map(ToString::to_string).collect::<Vec<_>>().join(">");
        let programs = self.programs.iter().map(describe).collect::<Vec<_>>().join(", ");
        let exists = if self.exists { "there" } else { "absent" };
        let marker = self.marker.map(|home| format!(", a marker in {home}")).unwrap_or_default();
        let enlists = if self.enlists { ", unlisted" } else { "" };
        let rejects = if self.rejects { ", moves rejected" } else { "" };
        let numbering = suffix(self.numbering);
        let Self { crashes, timeouts, .. } = self;
        format!(
            "{mutation}{route}: {programs}; {exists}{marker}{enlists}{rejects}, crashes {crashes}, timeouts {timeouts}{numbering}"
        )
    }
}

impl From<Search> for Configuration {
    fn from(search: Search) -> Self {
        let reshards = u8::try_from(search.route.len() - 1).expect("routes are short");
        Self {
            name: search.name(),
            extent: search.extent,
            shows: search.shows,
            subject: Subject::Item(ItemModel {
                programs: search.programs,
                initial: search.exists.then_some(Value(1)),
                marker: search.marker.map(Home),
                route: search.route.iter().copied().map(Home).collect(),
                enlists: search.enlists,
                last: Revision::closing(reshards),
                crashes: search.crashes,
                timeouts: search.timeouts,
                rejects: search.rejects,
                numbering: search.numbering,
                mutation: search.mutation,
            }),
        }
    }
}

fn describe(program: &Program) -> String {
    let verbs = if program.verbs == WRITES {
        "writes".to_owned()
    } else {
        let names = program.verbs.iter().map(|verb| format!("{verb:?}").to_lowercase());
        names.collect::<Vec<_>>().join("|")
    };
    format!("{verbs} {}", program.operations)
}

fn good() -> Vec<Configuration> {
    let mut searches = Vec::new();
    for exists in [false, true] {
        let small_if_absent = if exists { Extent::Large } else { Extent::Small };
        let large_if_absent = if exists { Extent::Open } else { Extent::Large };
        searches.extend([
            Search::of(&[(WRITES, 2), (GET, 2)], UP, exists).that_is(large_if_absent),
            Search::of(&[(WRITES, 1), (WRITES, 1), (GET, 1)], UP, exists).that_shows(BEHIND),
            Search::of(&[(WRITES, 1), (GET, 2)], UP_AND_DOWN, exists).that_is(small_if_absent),
            Search::of(&[(WRITES, 2), (GET, 1)], UP_AND_DOWN, exists).that_shows(CLOSED),
            Search::of(&[(WRITES, 2), (READS, 2)], UP, exists).that_is(large_if_absent),
            Search::of(&[(WRITES, 2), (PEEK, 1)], UP_AND_DOWN, exists).that_is(small_if_absent),
            // Clients that hold a lease of the directory beside those that have read the metadata.
            Search {
                enlists: true,
                extent: Extent::Small,
                ..Search::of(&[(WRITES, 1), (GET, 2)], UP, exists)
            },
            Search {
                enlists: true,
                crashes: 0,
                extent: Extent::Small,
                ..Search::of(&[(WRITES, 1), (GET, 2)], UP_AND_DOWN, exists)
            },
        ]);
    }
    searches.extend([
        Search {
            enlists: true,
            crashes: 0,
            extent: Extent::Small,
            ..Search::of(&[(WRITES, 2), (GET, 1)], UP, false)
        },
        Search {
            enlists: true,
            crashes: 0,
            timeouts: 0,
            extent: Extent::Small,
            ..Search::of(&[(WRITES, 1), (WRITES, 1), (GET, 1)], UP, false)
        },
    ]);
    let conditional = &[Verb::Create, Verb::Replace, Verb::Delete];
    searches.extend([
        Search { timeouts: 0, ..Search::of(&[(conditional, 2), (WRITES, 2)], UP, true) }
            .that_shows(BEHIND),
        Search::of(&[(WRITES, 1), (WRITES, 1), (GET, 2)], UP, true).that_shows(BEHIND),
        Search::of(&[(BLIND, 1), (WRITES, 1), (GET, 1)], UP_AND_DOWN, true).that_shows(&[BEGINS]),
        // What a late put, a delete that overtakes it and a read that sees either can do to each other.
        Search {
            crashes: 0,
            timeouts: 0,
            extent: Extent::Large,
            ..Search::of(&[(&[Verb::Put], 1), (BLIND, 2), (GET, 1)], UP, false)
        },
        Search {
            crashes: 0,
            timeouts: 0,
            extent: Extent::Small,
            ..Search::of(HIDDEN_AND_SHOWN, UP, false)
        },
        // With creates, which put no marker, and a reader of either kind.
        Search {
            crashes: 0,
            timeouts: 0,
            extent: Extent::Large,
            shows: BEHIND,
            ..Search::of(
                &[(&[Verb::Put], 1), (&[Verb::Create], 1), (BLIND, 1), (READS, 1)],
                UP,
                false,
            )
        },
        Search {
            numbering: Numbering::TwicePerReshard,
            ..Search::of(&[(WRITES, 2), (GET, 1)], UP_AND_DOWN, false)
        },
    ]);
    searches.extend(updates());
    searches.extend(checks());
    searches.extend(rejections());
    searches.extend(expirations());
    searches.into_iter().map(Configuration::from).collect()
}

/// Updates in place and conditions that an absent item meets, also under the directory.
fn updates() -> Vec<Search> {
    let mut searches = Vec::new();
    for exists in [false, true] {
        let large_if_absent = if exists { Extent::Open } else { Extent::Large };
        let enlisting = |programs, route| Search {
            enlists: true,
            crashes: 0,
            extent: Extent::Small,
            ..Search::of(programs, route, exists)
        };
        searches.extend([
            Search::of(&[(UPDATES, 2), (GET, 2)], UP, exists).that_is(large_if_absent),
            enlisting(&[(UPDATES, 1), (GET, 2)], UP),
            enlisting(&[(UPDATES, 1), (GET, 1)], UP_AND_DOWN),
            Search {
                crashes: 0,
                timeouts: 0,
                extent: Extent::Small,
                ..Search::of(&[(UPSERT, 2), (UPSERT, 1), (GET, 1)], UP, exists)
            },
        ]);
    }
    // A marker of an earlier reshard lies where the item is written, before the reshard or behind it.
    let (both, put_get) = (&[Verb::Upsert, Verb::Unless][..], &[Verb::Put, Verb::Get]);
    searches.extend([(0, both), (1, UPSERT)].map(|(home, updates)| Search {
        marker: Some(home),
        crashes: 0,
        extent: Extent::Small,
        ..Search::of(&[(updates, 1), (put_get, 2)], UP, false)
    }));
    searches
}

fn updates_against(mutation: Mutation) -> Search {
    use Mutation as M;
    let search = match mutation {
        M::UpdateKeepsVersion | M::VersionRepeats => {
            let search = Search::of(&[(UPSERT, 2), (GET, 1)], UP, true);
            Search { enlists: true, timeouts: 0, ..search }
        }
        M::UpsertTrustsNewHome => Search::of(&[(UPSERT, 1), (GET, 1)], UP, true),
        M::CheckWithoutMarker => {
            Search::of(&[(&[Verb::Put], 1), (CHECK, 1), (READS, 2)], UP, false)
        }
        M::RemoveMarkerUnchecked | M::RemoveMarkerWithoutGuard => {
            let search = Search::of(&[(UPSERT, 1), (PUT, 1), (PUT, 1), (GET, 1)], UP, false);
            Search { marker: Some(0), ..search }
        }
        M::ConditionSeesMarker => {
            Search::of(&[(&[Verb::Create, Verb::Delete], 2), (GET, 1)], UP_AND_DOWN, true)
        }
        _ => Search::of(&[(&[Verb::Upsert, Verb::Delete], 2), (GET, 1)], UP_AND_DOWN, true),
    };
    Search { crashes: 0, ..search }
}

/// Checks, with readers of either kind.
fn checks() -> [Search; 3] {
    let put_check = &[Verb::Put, Verb::Check];
    let check_get = &[Verb::Check, Verb::Get];
    let searches = [
        Search::of(&[(BLIND, 1), (CHECK, 1), (READS, 2)], UP, true).that_is(Extent::Small),
        Search::of(&[(BLIND, 1), (CHECK, 1), (BLIND, 1), (READS, 1)], UP, false)
            .that_is(Extent::Large)
            .that_shows(BEHIND),
        Search::of(&[(put_check, 2), (check_get, 2)], UP_AND_DOWN, false).that_is(Extent::Small),
    ];
    searches.map(|search| Search { crashes: 0, timeouts: 0, ..search })
}

/// DynamoDB rejects moves. Creates and updates are left out: by the protocol, one that overlaps with a get may act here as on
/// an absent item. A check may not.
fn rejections() -> Vec<Search> {
    let writes = &[Verb::Put, Verb::Delete, Verb::Replace];
    let conditional = &[Verb::Get, Verb::Swap, Verb::Remove];
    let searches = [
        Search::of(&[(writes, 2), (GET, 2)], UP, true).that_shows(UNMOVABLE),
        Search::of(&[(BLIND, 1), (writes, 1), (READS, 1)], UP, true).that_shows(UNMOVABLE),
        Search::of(&[(conditional, 2), (BLIND, 1)], UP, true).that_shows(UNMOVABLE),
        Search {
            crashes: 0,
            timeouts: 0,
            ..Search::of(&[(CHECK, 1), (BLIND, 1), (READS, 2)], UP, false)
        }
        .that_is(Extent::Small)
        .that_shows(NOTED),
        Search { crashes: 0, ..Search::of(&[(BLIND, 1), (GET, 1)], UP_AND_DOWN, true) }
            .that_is(Extent::Small)
            .that_shows(UNMOVABLE),
        Search { crashes: 0, ..Search::of(&[(EXPIRING, 2), (GET, 1)], UP, true) }
            .that_shows(EXPIRES),
    ];
    searches.into_iter().map(|search| Search { rejects: true, ..search }).collect()
}

/// Items expire, and are patched so that they do.
fn expirations() -> [Search; 3] {
    let patches = &[Verb::Get, Verb::SwapExpiring, Verb::Delete];
    let searches = [
        Search::of(&[(EXPIRING, 2), (READS, 2)], UP, true),
        Search::of(&[(patches, 2), (EXPIRING, 1), (GET, 1)], UP, true),
        Search::of(&[(EXPIRING, 2), (GET, 1)], UP_AND_DOWN, true),
    ];
    searches.map(|search| search.that_shows(EXPIRES))
}

fn ext() -> Vec<Configuration> {
    let swap = [Verb::Swap, Verb::Upsert];
    let swap_delete = [Verb::Swap, Verb::Upsert, Verb::Delete, Verb::Remove];
    let swap_get = [Verb::Swap, Verb::Upsert, Verb::Get];
    let swap_put_delete = [Verb::Swap, Verb::Upsert, Verb::Put, Verb::Delete];
    let put_create = [Verb::Put, Verb::Upsert, Verb::Create, Verb::Unless];
    let put_delete_create = [Verb::Put, Verb::Delete, Verb::Upsert, Verb::Create, Verb::Unless];
    let mut searches = Vec::new();
    for exists in [true, false] {
        let large_if_absent = if exists { Extent::Open } else { Extent::Large };
        searches.extend([
            Search::of(&[(&swap_delete, 2), (GET, 2)], UP, exists).that_is(large_if_absent),
            Search::of(&[(&[Verb::Get, Verb::Remove], 2), (BLIND, 2), (PEEK, 1)], UP, exists)
                .that_shows(BEHIND),
            Search::of(&[(&swap, 1), (BLIND, 1), (GET, 1)], UP, exists).that_is(large_if_absent),
            Search::of(&[(&swap_get, 2), (&put_create, 2)], UP, exists).that_shows(BEHIND),
            Search::of(&[(&swap_delete, 2), (GET, 1)], UP_AND_DOWN, exists)
                .that_is(large_if_absent)
                .that_shows(CLOSED),
            Search::of(&[(&swap_put_delete, 2), (GET, 1)], UP_AND_UP, exists).that_shows(CLOSED),
            Search::of(&[(&put_delete_create, 1), (GET, 1)], ROUND, exists)
                .that_is(if exists { Extent::Large } else { Extent::Small })
                .that_shows(ENDED),
        ]);
    }
    searches.push(Search {
        numbering: Numbering::TwicePerReshard,
        extent: Extent::Large,
        shows: ENDED,
        ..Search::of(&[(&put_delete_create, 1), (GET, 1)], ROUND, true)
    });
    searches.into_iter().map(Configuration::from).collect()
}

/// A query beside a writer. The small one is searched to the end within seconds, and finds nearly every mutation.
const SMALL_QUERY: QueryModel = QueryModel {
    way: Way::Up,
    exists: false,
    source_is: SourceIs::Last,
    limit: 2,
    writes: 1,
    crashes: 1,
    late_put: false,
    numbering: Numbering::OncePerReshard,
    mutation: None,
};

fn queries() -> Vec<Configuration> {
    let twice = Numbering::TwicePerReshard;
    let mut searches = Vec::new();
    let both = [SourceIs::Last, SourceIs::Pilot]
        .map(|source_is| [(Way::Up, source_is), (Way::Down, source_is)]);
    for (way, source_is) in both.into_iter().flatten() {
        let small = QueryModel { way, source_is, ..SMALL_QUERY };
        for limit in [2, 1] {
            searches.push(QueryModel { limit, ..small.clone() });
            for exists in [false, true] {
                searches.push(QueryModel { exists, limit, writes: 2, crashes: 2, ..small.clone() });
            }
        }
        for exists in [false, true] {
            searches.push(QueryModel { exists, writes: 2, late_put: true, ..small.clone() });
        }
        if way == Way::Up {
            searches.push(QueryModel { way: Way::UpFromUnlisted, ..small.clone() });
        }
        searches.push(QueryModel { numbering: twice, ..small });
    }
    searches.into_iter().map(Configuration::from).collect()
}

fn extent(model: &QueryModel) -> Extent {
    match (model.writes, model.source_is) {
        (1, _) => Extent::Small,
        (_, SourceIs::Last) if model.late_put => Extent::Small,
        _ => Extent::Large,
    }
}

impl From<QueryModel> for Configuration {
    fn from(model: QueryModel) -> Self {
        let QueryModel { limit, writes, crashes, .. } = model;
        let exists = if model.exists { "there" } else { "absent" };
        let late = if model.late_put { ", a late put" } else { "" };
        let mutation = model.mutation.map(prefix).unwrap_or_default();
        let way = match model.way {
            Way::Up => "up",
            Way::UpFromUnlisted => "up from unlisted",
            Way::Down => "down",
        };
        let pilot = match model.source_is {
            SourceIs::Last => "",
            SourceIs::Pilot => ", by a pilot",
        };
        let numbering = suffix(model.numbering);
        Self {
            name: format!(
                "{mutation}query {way}{pilot}, pages of {limit}; {exists}, writes {writes}, crashes {crashes}{late}{numbering}"
            ),
            extent: extent(&model),
            shows: QUERY_MOVES,
            subject: Subject::Query(model),
        }
    }
}

const PUT_ONCE: random::Program = random::Program { verbs: &[random::Verb::Put], operations: 1 };
const DELETE_ONCE: random::Program =
    random::Program { verbs: &[random::Verb::Delete], operations: 1 };
const READ_ONCE: random::Program =
    random::Program { verbs: &[random::Verb::Get, random::Verb::Query], operations: 1 };
const READ_TWICE: random::Program =
    random::Program { verbs: &[random::Verb::Get, random::Verb::Query], operations: 2 };
const GET_ONCE: random::Program = random::Program { verbs: &[random::Verb::Get], operations: 1 };

fn random_against(mutation: Mutation) -> Configuration {
    use Mutation as M;
    let model = match mutation {
        M::GrowAtOnce => random(&[PUT_ONCE, READ_ONCE], &[1, 2], false),
        M::PutIntoDrained | M::DrainClosesWithoutH => random(&[PUT_ONCE], &[2, 1], false),
        M::DeleteSkipsDrained
        | M::DeleteKeptFirst
        | M::DeleteSkipsArrival
        | M::DeleteInPartIsRefused => random(&[DELETE_ONCE, READ_ONCE], &[2, 1], true),
        M::DrainGivesWayUnchecked => {
            let clients = &[PUT_ONCE, DELETE_ONCE, GET_ONCE];
            RandomModel { crashes: 0, ..random(clients, &[2, 1], true) }
        }
        M::DrainedMarkersUnderLeases => random(&[READ_ONCE], &[3, 1], true),
        _ => random(&[READ_ONCE], &[2, 1], true),
    };
    RandomModel { mutation: Some(mutation), ..model }.into()
}

/// With a crash of the mover, and one operation that each client gives up.
fn random(programs: &[random::Program], route: &'static [u8], exists: bool) -> RandomModel {
    RandomModel {
        programs: programs.to_vec(),
        route,
        exists,
        crashes: 1,
        given_up: 1,
        mutation: None,
    }
}

fn randoms() -> Vec<Configuration> {
    let clients = &[PUT_ONCE, DELETE_ONCE, READ_ONCE];
    let deletes_and_reads = &[DELETE_ONCE, READ_ONCE];
    let searches = [
        (random(clients, &[1, 2], false), Extent::Large, GROWN),
        (random(&[DELETE_ONCE, READ_TWICE], &[2, 1], true), Extent::Small, DRAINED),
        (random(&[DELETE_ONCE, DELETE_ONCE], &[2, 1], true), Extent::Small, DELETED),
        (random(clients, &[2, 1], false), Extent::Open, PUT_LATE),
        (random(clients, &[2, 1], true), Extent::Open, TWO_COPIES),
        (random(deletes_and_reads, &[3, 1], true), Extent::Large, DRAINED),
        (random(deletes_and_reads, &[3, 2], true), Extent::Large, DRAINED),
        (random(deletes_and_reads, &[2, 1, 2], true), Extent::Large, DRAINED),
        (random(&[PUT_ONCE, READ_ONCE], &[2, 1, 2, 1], false), Extent::Small, LOOKED_UP),
        (random(&[PUT_ONCE, DELETE_ONCE], &[1, 2, 1], false), Extent::Small, DELETED),
        (random(clients, &[1, 2, 1], false), Extent::Open, GROWN),
        (random(&[PUT_ONCE, PUT_ONCE, DELETE_ONCE], &[2, 1], false), Extent::Open, TWO_COPIES),
    ];
    let searches = searches.into_iter();
    let searches = searches.map(|(model, extent, shows)| Configuration {
        extent,
        shows,
        ..Configuration::from(model)
    });
    searches.collect()
}

impl From<RandomModel> for Configuration {
    fn from(model: RandomModel) -> Self {
        let mutation = model.mutation.map(prefix).unwrap_or_default();
        let route = model.route.iter().map(ToString::to_string).collect::<Vec<_>>().join(">");
        let programs = model.programs.iter().map(|program| {
            let verbs = program.verbs.iter().map(|verb| format!("{verb:?}").to_lowercase());
            format!("{} {}", verbs.collect::<Vec<_>>().join("|"), program.operations)
        });
        let programs = programs.collect::<Vec<_>>().join(", ");
        let exists = if model.exists { "there" } else { "absent" };
        let RandomModel { crashes, given_up, .. } = model;
        Self {
            name: format!(
                "{mutation}random, shards {route}: {programs}; {exists}, crashes {crashes}, given up {given_up}"
            ),
            extent: Extent::Open,
            shows: &[],
            subject: Subject::Random(model),
        }
    }
}

const LOWER: Interval = Interval::LOWER;
const UPPER: Interval = Interval::UPPER;

/// The future gets two shards, and then the past. The query goes up.
const SMALL_EPOCHS: EpochsModel = EpochsModel {
    from: 1,
    route: &[(UPPER, 2), (LOWER, 2)],
    ascending: true,
    exists: true,
    limit: 2,
    writes: 1,
    late_puts: 1,
    crashes: 1,
    mutation: None,
};

fn epochs() -> Vec<Configuration> {
    let small = |(from, route, ascending)| EpochsModel { from, route, ascending, ..SMALL_EPOCHS };
    let mut searches = Vec::new();
    for ascending in [true, false] {
        searches.extend([
            small((1, &[(UPPER, 2), (LOWER, 2)], ascending)),
            // Newer sort keys sort lower.
            small((1, &[(LOWER, 2), (UPPER, 2)], ascending)),
            small((2, &[(UPPER, 1), (LOWER, 1)], ascending)),
            small((2, &[(LOWER, 1), (UPPER, 1)], ascending)),
        ]);
    }
    let one_by_one = EpochsModel { limit: 1, writes: 2, ..SMALL_EPOCHS };
    searches.extend([
        // A reshard that is turned round, and what follows when the epochs are one.
        small((1, &[(UPPER, 2), (UPPER, 1)], true)),
        small((1, &[(UPPER, 2), (LOWER, 2), (Interval::WHOLE, 1)], false)),
        small((1, &[(UPPER, 2), (LOWER, 2), (UPPER, 1)], true)),
        EpochsModel { ascending: false, ..one_by_one.clone() },
        EpochsModel { exists: false, ..one_by_one.clone() },
        EpochsModel { writes: 1, late_puts: 2, ..one_by_one },
    ]);
    searches.into_iter().map(Configuration::from).collect()
}

fn epochs_against(mutation: Mutation) -> Configuration {
    let small = EpochsModel { mutation: Some(mutation), ..SMALL_EPOCHS };
    match mutation {
        Mutation::CursorSkipsBoundary => EpochsModel { ascending: false, ..small },
        Mutation::DropEpochByEdit | Mutation::GrowByEdit => EpochsModel { exists: false, ..small },
        _ => small,
    }
    .into()
}

impl From<EpochsModel> for Configuration {
    fn from(model: EpochsModel) -> Self {
        let EpochsModel { from, limit, writes, late_puts, crashes, .. } = model;
        let mutation = model.mutation.map(prefix).unwrap_or_default();
        let route = model.route.iter().map(|(keys, count)| format!(", {keys} to {count}"));
        let route = route.collect::<String>();
        let way = if model.ascending { "up" } else { "down" };
        let exists = if model.exists { "there" } else { "absent" };
        Self {
            name: format!(
                "{mutation}epochs {from}{route}; query {way}, pages of {limit}; {exists}, writes {writes}, late puts {late_puts}, crashes {crashes}"
            ),
            extent: Extent::Small,
            shows: TWO_EPOCHS,
            subject: Subject::Epochs(model),
        }
    }
}

fn settings() -> Vec<Configuration> {
    // Two of a term may have read the directory and the metadata at different times.
    let terms: &[&[u8]] = &[&[1, 2], &[1, 3], &[2, 3], &[1, 2, 2], &[1, 1, 2], &[1, 2, 3]];
    let changes = terms.iter().map(|terms| changes(terms, None));
    let others = [
        ownership(None),
        segments(None),
        layouts(None),
        conversion(None),
        lifetimes(None),
        index_shards(None),
    ];
    changes.chain(others).collect()
}

/// The search of a model of its own that is known to catch a mutation, if there is one.
fn small_against(mutation: Mutation) -> Option<Configuration> {
    use Mutation as M;
    let small = match mutation {
        M::SecondOwner => ownership,
        M::RootInTransaction
        | M::BumpBeforeSegmentShows
        | M::WaitForSomeCopies
        | M::WaitFromSight
        | M::OneCacheForAllCopies => segments,
        M::WaitFromSightOfLayout
        | M::RaiseBeforeLayoutShows
        | M::RenewByLaterRoot
        | M::RenewWhatMoves
        | M::RenewWithoutMetadata => layouts,
        M::ConvertWithoutV | M::ConvertWhateverChanged | M::ConvertToZero => conversion,
        M::ShortenHThoughRequestsLive | M::DateByWhatIsHeld => lifetimes,
        M::GrowIndexShardsInOneStep | M::SettleIndexShardsAtOnce | M::ReadIndexShardsOnce => {
            index_shards
        }
        M::WindowAcrossBoundary
        | M::QueryOfFirstEpoch
        | M::QueryBoundaryOffByOne
        | M::BoundaryOffByOne
        | M::CursorSkipsBoundary
        | M::ScanFromLaterBoundary
        | M::DropEpochByEdit
        | M::GrowByEdit
        | M::MergeUnequal
        | M::ForgetMarkers => return Some(epochs_against(mutation)),
        _ => return None,
    };
    Some(small(Some(mutation)))
}

/// A second stack on the main table of another.
fn ownership(mutation: Option<Mutation>) -> Configuration {
    Configuration {
        name: format!("{}two stacks on one main table", mutation.map(prefix).unwrap_or_default()),
        extent: Extent::Small,
        shows: &["a stack that is refused", "the owner serves all writes"],
        subject: Subject::Ownership(OwnershipModel { mutation }),
    }
}

/// A directory in segments, and an environment that may know of a key that is enlisted. Others would not know of each other.
fn segments(mutation: Option<Mutation>) -> Configuration {
    Configuration {
        name: format!("{}a directory in segments", mutation.map(prefix).unwrap_or_default()),
        extent: Extent::Small,
        shows: &["a key is taken for cold that is listed", "a segment is renewed by the root"],
        subject: Subject::Segments(SegmentsModel { environments: 1, mutation }),
    }
}

/// Layouts that are renewed by the root, and an environment that acts on them. Others would not know of each other.
fn layouts(mutation: Option<Mutation>) -> Configuration {
    Configuration {
        name: format!("{}layouts without reads", mutation.map(prefix).unwrap_or_default()),
        extent: Extent::Small,
        shows: &["metadata is renewed by the root", "a counter tells that metadata has changed"],
        subject: Subject::Layouts(LayoutsModel { mutation }),
    }
}

/// A directory of one item that becomes one in segments.
fn conversion(mutation: Option<Mutation>) -> Configuration {
    Configuration {
        name: format!("{}a conversion to segments", mutation.map(prefix).unwrap_or_default()),
        extent: Extent::Small,
        shows: &["what was on the list moves under a root", "an environment reads a segment"],
        subject: Subject::Conversion(ConversionModel { mutation }),
    }
}

/// Changes of the lifetime of requests.
fn lifetimes(mutation: Option<Mutation>) -> Configuration {
    // What is wrong shows with one.
    let environments = if mutation.is_some() { 1 } else { 2 };
    Configuration {
        name: format!("{}lifetimes of requests", mutation.map(prefix).unwrap_or_default()),
        extent: Extent::Small,
        shows: &["a request that lives longer than what is adopted"],
        subject: Subject::Lifetimes(LifetimesModel { environments, mutation }),
    }
}

/// Shards of indexes that become more.
fn index_shards(mutation: Option<Mutation>) -> Configuration {
    Configuration {
        name: format!("{}shards of indexes", mutation.map(prefix).unwrap_or_default()),
        extent: Extent::Small,
        shows: &["a write by the count before"],
        subject: Subject::IndexShards(IndexShardsModel { environments: 2, mutation }),
    }
}

/// Changes between the terms of the given environments.
fn changes(terms: &[u8], mutation: Option<Mutation>) -> Configuration {
    let prefix = mutation.map(prefix).unwrap_or_default();
    let environments = terms.iter().copied().map(Term).collect();
    Configuration {
        extent: Extent::Small,
        shows: &["an environment that is refused", "a lease of a term that is accepted no more"],
        name: format!("{prefix}settings, environments with terms of {terms:?}"),
        subject: Subject::Settings(SettingsModel { environments, mutation }),
    }
}

fn prefix(mutation: Mutation) -> String {
    format!("{mutation:?}: ")
}

fn suffix(numbering: Numbering) -> &'static str {
    match numbering {
        Numbering::OncePerReshard => "",
        Numbering::TwicePerReshard => ", generation raised twice",
    }
}
