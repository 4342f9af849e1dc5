//! What a round does with the items that it finds: it moves them, or removes markers.

use crate::decide::pace::{LEAST_MOVE, Units, most_of};
use crate::decide::turn::Share;
use crate::model::metadata::Reshard;
use crate::model::settings::Settings;
use crate::model::version::Generation;

/// What a round does with what it finds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    Move(Reshard),
    /// Of this generation and those before it.
    RemoveMarkers(Generation),
}

impl Work {
    /// The least that one item takes.
    pub(crate) fn least(self) -> Units {
        match self {
            Self::Move(_) => LEAST_MOVE,
            Self::RemoveMarkers(_) => LEAST_REMOVAL,
        }
    }

    /// The share of the units that the partition takes which is gone through.
    pub(crate) fn at_source(self) -> f64 {
        self.least().at_source / self.least().in_all
    }

    /// How many of `left` shards one call takes on, and how fast, where the change may take so many write units a second.
    pub(crate) fn share(self, settings: &Settings, mover_wcu: u32, left: usize) -> Share {
        let all = f64::from(mover_wcu);
        // Where many sources lead to few destinations, those are what bounds them.
        let all = match self {
            Self::Move(reshard) => {
                let destinations = u32::try_from(reshard.destinations().len()).unwrap_or(u32::MAX);
                let at_destination = 1.0 - self.at_source();
                all.min(f64::from(destinations) * most_of(settings.partition) / at_destination)
            }
            Self::RemoveMarkers(_) => all,
        };
        let of_source = most_of(settings.partition) / self.at_source();
        let most = |wcu: f64| wcu.min(of_source);
        Share::of(all, settings.moves_per_call, left, self.least().in_all, most)
    }
}

/// What it takes to remove a marker, unless its keys are long.
const LEAST_REMOVAL: Units = Units { at_source: 1.0, in_all: 1.0 };

#[cfg(test)]
mod tests {
    use dynashard_keys::{PartitionKey, Placement, ShardCount};

    use super::*;
    use crate::model::metadata::CollectionMetadata;
    use crate::model::policy::PartitionLimits;
    use crate::model::transitions::Next;

    /// Fifteen sources were to write 4,000 units a second to the one shard that all clients use.
    #[test]
    fn regression_many_sources_filled_the_partitions_of_few_destinations() {
        let settings = Settings::default();
        let most = most_of(settings.partition);
        for (from, to) in [(16, 1), (4, 1), (16, 4), (64, 4), (4, 16), (1, 4)] {
            let count = |n| ShardCount::new(n).expect("count");
            let partition = PartitionKey::new("EWR").expect("pk");
            let before = CollectionMetadata::stable(partition, Placement::Xxh64, count(from), 1);
            let reshard =
                Next::after(&before, 2).forward(None, count(to)).reshard().expect("items move");
            let share =
                Work::Move(reshard).share(&settings, settings.mover_wcu, reshard.sources().len());
            let [sources, destinations] = [share.side_by_side, reshard.destinations().len()]
                .map(|n| f64::from(u32::try_from(n).expect("few")));
            let at_each = share.wcu_each * sources / 2.0 / destinations;
            assert!(at_each <= most, "{from} -> {to}: {at_each} units a second");
            assert!(share.wcu_each / 2.0 <= most, "{from} -> {to}: {share:?}");
        }
    }

    /// The mover reckoned with 1,000 write units whatever `PartitionWriteUnits` said, which decisions reckon with.
    #[test]
    fn regression_the_mover_took_partitions_to_be_larger_than_they_were_set_to() {
        let partition = PartitionLimits { write_units: 100, ..PartitionLimits::default() };
        let settings = Settings { partition, ..Settings::default() };
        let pk = PartitionKey::new("EWR").expect("pk");
        let before = CollectionMetadata::stable(pk, Placement::Xxh64, ShardCount::ONE, 1);
        let four = ShardCount::new(4).expect("count");
        let reshard = Next::after(&before, 2).forward(None, four).reshard().expect("items move");
        let work = Work::Move(reshard);
        let share = work.share(&settings, settings.mover_wcu, 1);
        let at_source = share.wcu_each * work.at_source();
        assert!((at_source - 80.0).abs() < 0.001, "{at_source} units a second: {share:?}");
    }
}
