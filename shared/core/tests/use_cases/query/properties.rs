//! Generated collections, queries, page splits and faults, against the reference.

use dynashard_core::query::Strategy;
use dynashard_core::{Generation, StoredItem};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation};
use proptest::prelude::{Just, ProptestConfig, prop, prop_assert_eq, prop_oneof};

use super::reference::{Case, GENERATION, Lies, MAX_FAULTS, Placed, any_case};
use crate::world::{LEASE, World};

/// What may happen to a request without harm to its query.
#[derive(Debug, Clone, Copy)]
enum RequestFault {
    None,
    Throttle,
    LeaseEndsBefore,
    LeaseEndsAfter,
}

impl RequestFault {
    fn to_fault(self, world: &World) -> Fault {
        match self {
            Self::None => Fault::before(|| {}),
            Self::Throttle => Fault::throttle(),
            Self::LeaseEndsBefore => Fault::before(world.passing(LEASE)),
            Self::LeaseEndsAfter => Fault::after(world.passing(LEASE)),
        }
    }
}

fn any_faults() -> impl proptest::strategy::Strategy<Value = Vec<RequestFault>> {
    let fault = prop_oneof![
        3 => Just(RequestFault::None),
        3 => Just(RequestFault::Throttle),
        1 => Just(RequestFault::LeaseEndsBefore),
        1 => Just(RequestFault::LeaseEndsAfter),
    ];
    prop::collection::vec(fault, 0..MAX_FAULTS)
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_pages_together_are_the_collection(case in any_case()) {
        for strategy in Strategy::ALL {
            case.check(strategy, &case.world())?;
        }
    }

    #[test]
    fn faults_on_the_way_change_no_page(case in any_case(), faults in any_faults()) {
        for strategy in Strategy::ALL {
            let world = case.world();
            world.store.script(Operation::Query, faults.iter().map(|fault| fault.to_fault(&world)));
            case.check(strategy, &world)?;
        }
    }

    /// Invariant I5.
    #[test]
    fn an_ordered_query_survives_any_reshards_between_its_pages(
        case in any_case(),
        counts in prop::collection::vec(0..5_u32, 1..20),
    ) {
        let case = Case {
            placement: Placement::Xxh64,
            shards: 1,
            placed: case.placed.into_iter().map(|p| Placed { lies: Lies::AtHome(0), ..p }).collect(),
            ..case
        };
        let world = case.world();
        let expected = case.expected(&world);
        let mut counts = (GENERATION + 1..).zip(counts.into_iter().map(|n| 1 << n));
        let reshard = || if let Some((generation, shards)) = counts.next() {
            world.reshard(generation, shards);
        };
        // The reader keeps its metadata for a lease, and learns from what it finds.
        let query = case.query(Strategy::Ordered);
        let items = case.walk(&world, &world.reader(), query, reshard)?;
        // A move changes nothing of an item but its generation.
        let moved = |(sort, item)| (sort, StoredItem { generation: Generation::new(0), ..item });
        let items = items.into_iter().map(moved).collect::<Vec<_>>();
        prop_assert_eq!(items, expected.into_iter().map(moved).collect::<Vec<_>>());
    }
}
