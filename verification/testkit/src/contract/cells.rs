//! Changes of the cells of counters.

use std::time::Duration;

use dynashard_core::ports::{Clock, ItemStore, StoreError};
use dynashard_core::{Adjustment, CellChange, CellNumber, Lease, StoredItem, Version};
use dynashard_keys::PhysicalKey;

use super::{Fixture, at, shard, sort_key};
use crate::contract::items::get;

const NUMBERS: [CellNumber; 3] = [CellNumber::Value, CellNumber::Below, CellNumber::Id];

fn lease(time: Duration, fixture: &impl Fixture) -> Lease {
    Lease::new(fixture.clock().now(), None, time)
}

fn adjustment(key: &PhysicalKey, version: u64, change: CellChange) -> Adjustment {
    Adjustment { key: key.clone(), version: Version::new(version), change }
}

fn creation(value: i128) -> CellChange {
    let adds = NUMBERS.into_iter().zip([value, 10, u64::MAX.into()]).collect();
    CellChange { creates: true, adds, ..CellChange::default() }
}

async fn adjust(
    adjustments: &[Adjustment],
    fixture: &impl Fixture,
) -> Result<Option<StoredItem>, StoreError> {
    let lease = lease(Duration::from_mins(10), fixture);
    fixture.items().adjust(adjustments, lease).await.map(|adjusted| adjusted.item)
}

/// What a change that is carried out here leaves lies there, and is what is answered.
pub async fn a_change_of_a_cell_is_carried_out_where_its_conditions_hold(fixture: &impl Fixture) {
    let key = at(&shard("cells", fixture), sort_key(1, fixture));
    let plain = |adds: Vec<_>| CellChange { adds, ..CellChange::default() };
    let value = CellNumber::Value;
    let changes = [
        plain(vec![(value, 1)]),
        creation(-5),
        creation(7),
        plain(vec![(value, -3), (CellNumber::Closing, 0)]),
        CellChange { at_least: vec![(CellNumber::Below, 11)], ..plain(vec![(value, 1)]) },
        CellChange {
            at_least: vec![(CellNumber::Below, 10), (value, -8)],
            equals: vec![(CellNumber::Id, u64::MAX.into())],
            lacks: vec![CellNumber::Above],
            ..plain(vec![(value, 1), (CellNumber::Below, -10)])
        },
        CellChange { equals: vec![(CellNumber::Id, 1)], ..plain(vec![(value, 1)]) },
        CellChange { lacks: vec![CellNumber::Closing], ..plain(vec![(value, 1)]) },
        CellChange { at_least: vec![(CellNumber::Above, 0)], ..plain(vec![(value, 1)]) },
    ];
    let mut carried_out = Vec::new();
    for (change, version) in changes.into_iter().zip(1..) {
        let adjustment = adjustment(&key, version, change);
        let before = get(&key, fixture).await;
        let expected = adjustment.carried_out(before.as_ref());
        let answer = adjust(std::slice::from_ref(&adjustment), fixture).await;
        let after = get(&key, fixture).await;
        if expected.is_some() {
            assert_eq!((answer, &after), (Ok(expected.clone()), &expected), "{adjustment:?}");
            carried_out.push(version);
        } else {
            let existing = before.clone().map(Box::new);
            assert_eq!(answer, Err(StoreError::ConditionFailed { existing }), "{adjustment:?}");
            assert_eq!(after, before, "{adjustment:?}");
        }
    }
    assert_eq!(carried_out, [2, 4, 6]);
}

/// Both cells change, or neither does; and nothing is sent after the lease.
pub async fn two_cells_change_together(fixture: &impl Fixture) {
    let shard = shard("two cells", fixture);
    let keys = [1, 2].map(|n| at(&shard, sort_key(n, fixture)));
    for key in &keys {
        adjust(&[adjustment(key, 1, creation(0))], fixture).await.expect("it is new");
    }
    let moving = |room: i128, version| {
        [-room, room]
            .map(|by| CellChange {
                adds: vec![(CellNumber::Below, by)],
                at_least: vec![(CellNumber::Below, (-by).max(0))],
                ..CellChange::default()
            })
            .into_iter()
            .zip(&keys)
            .map(|(change, key)| adjustment(key, version, change))
            .collect::<Vec<_>>()
    };
    let expired = lease(Duration::ZERO, fixture);
    let refused = fixture.items().adjust(&moving(1, 2), expired).await;
    assert_eq!(refused.map(drop), Err(StoreError::LeaseExpired));
    let nothing = StoreError::ConditionFailed { existing: None };
    assert_eq!(adjust(&moving(11, 2), fixture).await, Err(nothing));
    for key in &keys {
        assert_eq!(get(key, fixture).await.map(|it| it.version), Some(Version::new(1)));
    }
    let before = [get(&keys[0], fixture).await, get(&keys[1], fixture).await];
    let adjustments = moving(4, 2);
    assert_eq!(adjust(&adjustments, fixture).await, Ok(None));
    for ((key, adjustment), before) in keys.iter().zip(&adjustments).zip(&before) {
        assert_eq!(get(key, fixture).await, adjustment.carried_out(before.as_ref()));
    }
}
