//! What a seed draws before anything runs: the settings of the stack, the collections, the programs,
//! and how much goes wrong.

use std::time::Duration;

use dynashard_core::{RequestDates, ScalingMode, ScalingPolicy, Settings, leases_end};
use dynashard_keys::{PartitionKey, Placement, ShardCount};

use crate::random::Random;

/// The field by which items expire, which patches set and remove like any other.
pub(crate) const EXPIRES: &str = "b";

/// A way to break what the protocol stands on. Each must be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// Requests are executed long after H (against A2).
    LateRequests,
    /// A transaction becomes visible long after V (against A3).
    SlowVisibility,
    /// Writes are sent however old their lease is (against A1).
    UncheckedLeases,
    /// Eventually consistent reads are answered by replicas that lag behind for long (against A5).
    StaleReplicas,
    /// Writes are sent whatever their date (against A2).
    UncheckedDates,
    /// An answer that refuses a condition is lost, and the request is sent again by the store, as
    /// the SDK would.
    StoreRetries,
    /// No function knows the attribute by which items expire.
    UnpinnedTtl,
    /// An update in place at a new home does not ask for a live item there.
    UpdateTrustsNewHome,
    /// An update in place keeps the version that it finds.
    UpdateKeepsVersion,
    /// A client's condition is judged of a marker.
    ConditionSeesMarker,
    /// A cell of a counter gives room that it does not have.
    UncheckedRoom,
}

/// Accidents per million turns of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accidents {
    pub(crate) crash: u64,
    pub(crate) freeze: u64,
    pub(crate) longest_freeze: Duration,
}

/// How often things go wrong, per million.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) functions: Accidents,
    pub(crate) rebalancers: Accidents,
    /// A request never arrives, and the client hears so or hears nothing.
    pub(crate) lost: u64,
    /// It is executed, and its answer never arrives.
    pub(crate) answer_lost: u64,
    /// It arrives up to H after its signing.
    pub(crate) late: u64,
    /// A request is dated ahead.
    pub(crate) dated_ahead: u64,
    /// A replica that lags behind answers an eventually consistent read.
    pub(crate) stale: u64,
    /// A request is refused for what an operator has to put right.
    pub(crate) set_up_wrongly: u64,
    pub(crate) throttled: u64,
    pub(crate) conflict: u64,
    /// A transaction takes up to V to become visible, and not milliseconds.
    pub(crate) long_half_visible: u64,
    /// The usual longest time that a message travels.
    pub(crate) travel: Duration,
    /// A hint to the rebalancer gets lost.
    pub(crate) hint_lost: u64,
}

impl Rates {
    /// Nothing goes wrong, and everything is quick.
    pub(crate) const KIND: Self = {
        let none = Accidents { crash: 0, freeze: 0, longest_freeze: Duration::ZERO };
        Self {
            functions: none,
            rebalancers: none,
            lost: 0,
            answer_lost: 0,
            late: 0,
            dated_ahead: 0,
            stale: 0,
            set_up_wrongly: 0,
            throttled: 0,
            conflict: 0,
            long_half_visible: 0,
            travel: Duration::from_millis(5),
            hint_lost: 0,
        }
    };

    fn draw(random: &Random, term: Duration, lifetime: Duration) -> Self {
        // Half of the runs have none of a thing, so that others come into their own.
        let rate = |most: u64| {
            if random.chance(400_000) { 0 } else { most >> random.below(6) }
        };
        let longest_freeze = random.pick(&[term, term * 3, lifetime + term * 3]);
        Self {
            functions: Accidents { crash: rate(10_000), freeze: rate(30_000), longest_freeze },
            rebalancers: Accidents { crash: rate(20_000), freeze: rate(20_000), longest_freeze },
            lost: rate(60_000),
            answer_lost: rate(60_000),
            late: rate(100_000),
            dated_ahead: rate(20_000),
            stale: rate(500_000),
            set_up_wrongly: rate(5_000),
            throttled: rate(150_000),
            conflict: rate(100_000),
            long_half_visible: rate(300_000),
            travel: Duration::from_millis(random.pick(&[4, 20, 100, 300])),
            hint_lost: rate(500_000),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Collection {
    pub(crate) partition: PartitionKey,
    pub(crate) placement: Placement,
    /// Created ahead with so many shards, or else cold at first.
    pub(crate) pre_sharded: Option<ShardCount>,
    /// The sort keys of a calculated collection. Those of a random one are used once each.
    pub(crate) sort_keys: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) settings: Settings,
    pub(crate) rates: Rates,
    pub(crate) collections: Vec<Collection>,
    pub(crate) clients: u64,
    pub(crate) operations: u64,
    pub(crate) scale_requests: u64,
    pub(crate) longest_thought: Duration,
    pub(crate) longest_rest: Duration,
    pub(crate) longest_slice: Duration,
    /// Whether items expire that have [`EXPIRES`].
    pub(crate) items_expire: bool,
    /// What an operator changes T to while all of it goes on.
    pub(crate) next_term: Option<Duration>,
    /// How writes are dated from some moment on.
    pub(crate) next_dates: Option<RequestDates>,
    /// Whether an earlier version has set up the tables, so that an operator converts the directory meanwhile.
    pub(crate) begins_with_list: bool,
    pub(crate) wall_skew: Duration,
    /// How late a request may be executed after it was signed.
    pub(crate) executed_within: Duration,
    /// How late after a transaction both its halves are visible.
    pub(crate) visible_within: Duration,
    /// How far replicas lag behind.
    pub(crate) replicas_lag_by: Duration,
    /// How far ahead a request may be dated.
    pub(crate) dated_ahead_by: Duration,
    /// What is broken of all that the protocol stands on.
    pub(crate) broken: Option<Mutation>,
}

impl Scenario {
    pub(crate) fn draw(random: &Random, mutation: Option<Mutation>) -> Self {
        let term = Duration::from_millis(random.between(1_000, 5_000));
        let next_term = (mutation.is_none() && random.chance(300_000))
            .then(|| Duration::from_millis(random.between(1_000, 5_000)));
        let mut lifetime = Duration::from_millis(random.between(2_000, 20_000));
        let mut rates = Rates::draw(random, term, lifetime);
        // What is broken is to matter: it happens often, and long enough for a reshard to close.
        match mutation {
            None
            | Some(
                Mutation::StoreRetries
                | Mutation::UnpinnedTtl
                | Mutation::UpdateTrustsNewHome
                | Mutation::UpdateKeepsVersion
                | Mutation::UncheckedRoom,
            ) => {}
            // A marker that comes when those of its reshard are gone stays for the next one.
            Some(Mutation::LateRequests | Mutation::ConditionSeesMarker) => rates.late = 300_000,
            Some(Mutation::StaleReplicas) => rates.stale = 900_000,
            Some(Mutation::UncheckedDates) => {
                rates.late = 100_000;
                rates.dated_ahead = 300_000;
            }
            Some(Mutation::SlowVisibility) => rates.long_half_visible = 700_000,
            Some(Mutation::UncheckedLeases) => {
                rates.functions.freeze = 20_000;
                rates.functions.longest_freeze = Duration::from_mins(2);
            }
        }
        let leaves_markers = mutation == Some(Mutation::ConditionSeesMarker);
        if mutation.is_some() && !leaves_markers {
            lifetime = Duration::from_secs(2);
        }
        let next_dates = (mutation.is_none() && random.chance(200_000)).then(|| {
            let age = Duration::from_secs(random.between(1, (lifetime.as_secs() / 2).max(1)));
            RequestDates { age, lifetime: lifetime.saturating_sub(age) }
        });
        let unpinned = mutation == Some(Mutation::UnpinnedTtl);
        let items_expire =
            unpinned || leaves_markers || (mutation.is_none() && random.chance(300_000));
        let placements = [Placement::Xxh64, Placement::Jump, Placement::Random];
        let growth = random.chance(200_000);
        // Clients of a calculated collection need its placement from the start.
        let cold_are_random = random.chance(150_000);
        let settings = Settings {
            placement: if cold_are_random {
                Placement::Random
            } else {
                random.pick(&placements[..2])
            },
            lease_term: term,
            request_lifetime: lifetime,
            max_shards: ShardCount::new(8).unwrap_or(ShardCount::ONE),
            // With the least an item stays at its old home for seconds, while clients go past it.
            mover_wcu: if unpinned { 4 } else { random.pick(&[4, 20, 100, 400]) },
            ttl_attribute: (items_expire && !unpinned).then(|| EXPIRES.to_owned()),
            // With the least each source has a rebalancer of its own.
            moves_per_call: random.pick(&[1, 5, 800]),
            scaling: ScalingPolicy {
                mode: if growth { ScalingMode::On } else { ScalingMode::Off },
                writers: true,
                cooldown: Duration::from_secs(random.between(1, 20)),
            },
            read_replicas: if mutation.is_none() { random.pick(&[0, 0, 2]) } else { 0 },
            ..Settings::default()
        };
        let collections = (0..random.between(1, 3)).filter_map(|number| {
            let placement =
                if cold_are_random { Placement::Random } else { random.pick(&placements) };
            let ahead = placement != settings.placement || random.chance(300_000);
            Some(Collection {
                partition: PartitionKey::new(format!("c{number}")).ok()?,
                placement,
                pre_sharded: ahead.then(|| any_count(random)),
                sort_keys: random.between(1, 5),
            })
        });
        let collections = collections.collect();
        // V is the shorter of the two, as DynamoDB's bound does not depend on T.
        let settle = leases_end(next_term.map_or(term, |next| next.min(term)));
        let beyond = |held: Duration, by: Mutation| {
            if mutation == Some(by) { held * 20 } else { held }
        };
        Self {
            collections,
            clients: random.between(2, 6),
            operations: random.between(8, 40),
            scale_requests: random.between(2, 16),
            longest_thought: Duration::from_millis(random.pick(&[300, 3_000, 8_000])),
            longest_rest: Duration::from_secs(random.pick(&[4, 15, 40])),
            items_expire,
            // The wait of a random growth is one slice's.
            next_term,
            next_dates,
            longest_slice: leases_end(next_term.map_or(term, |next| next.max(term)))
                + Duration::from_secs(random.pick(&[4, 20, 60])),
            wall_skew: Duration::from_millis(random.pick(&[0, 100, 2_000])),
            executed_within: beyond(lifetime, Mutation::LateRequests),
            visible_within: beyond(settle, Mutation::SlowVisibility),
            // A read may tell of so long ago: were that much longer, hardly anything that it tells could be wrong.
            replicas_lag_by: settle * if mutation == Some(Mutation::StaleReplicas) { 6 } else { 1 },
            dated_ahead_by: beyond(lifetime, Mutation::UncheckedDates),
            broken: mutation,
            begins_with_list: mutation.is_none() && random.chance(300_000),
            settings,
            rates,
        }
    }
}

pub(crate) fn any_count(random: &Random) -> ShardCount {
    let count = random.pick(&[1, 1, 2, 2, 3, 4, 4, 6, 8]);
    ShardCount::new(count).unwrap_or(ShardCount::ONE)
}
