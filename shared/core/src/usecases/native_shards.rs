//! The shards of a collection, for whoever asks them in DynamoDB's own words.

use dynashard_keys::{ItemKey, PhysicalPartitionKey, Separator, ShardCount, ShardId};

use crate::model::lease::Lease;
use crate::model::version::Generation;
use crate::ports::NativeTerms;
use crate::usecases::directory::Known;

/// Where the items of a collection may lie, and what an answer about them stands on.
#[derive(Debug, Clone)]
pub struct NativeShards {
    known: Known,
    separator: Separator,
}

/// What a shard is to an item that was found in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its home, or the one that it is moved to: what is live here counts.
    Home,
    /// The home that it is moved from: what is live here counts where nothing is live at the new one.
    OldHome,
    /// Neither, as of what an earlier change has left over: it does not count.
    Elsewhere,
}

impl NativeShards {
    pub(crate) fn new(known: Known, separator: Separator) -> Self {
        Self { known, separator }
    }

    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// What a request on the collection carries. `None` where it has several shards, is about to, or has markers left.
    pub fn terms(&self) -> Option<NativeTerms> {
        let Known { metadata, lease, .. } = &self.known;
        let is_one_shard = !metadata.needs_rebalancing() && metadata.widest() == ShardCount::ONE;
        is_one_shard.then(|| {
            let placement = metadata.placement;
            NativeTerms {
                partition: metadata.partition.at(placement.first(), placement, self.separator),
                generation: metadata.generation,
                lease: *lease,
                is_moving: false,
            }
        })
    }

    /// The partition keys of all shards in which an item may lie, in groups as they are asked one after the other: while items move,
    /// first those of where they come from. What moves in between is then found where it goes to.
    pub fn waves(&self) -> Vec<Vec<PhysicalPartitionKey>> {
        let metadata = &self.known.metadata;
        let at = |shard| metadata.partition.at(shard, metadata.placement, self.separator);
        let all = metadata.placement.shards(metadata.widest());
        let Some(reshard) = metadata.reshard() else { return vec![all.map(at).collect()] };
        // Those of other epochs may be asked at any time.
        let is_source = |shard: &ShardId| reshard.sources().any(|source| source == *shard);
        let (sources, others) = all.partition::<Vec<_>, _>(is_source);
        [sources, others].map(|shards| shards.into_iter().map(at).collect()).into()
    }

    /// Whether the collection has metadata: it has or had several shards, or has settings of its own.
    pub fn is_listed(&self) -> bool {
        self.known.metadata.is_enlisted()
    }

    /// No answer counts that shows a later generation.
    pub fn generation(&self) -> Generation {
        self.known.metadata.generation
    }

    /// No answer counts that came after it, unless nothing has changed by then.
    pub fn lease(&self) -> Lease {
        self.known.lease
    }

    /// Whether nothing has changed in between, if one of them was read after the other.
    pub fn are_those_of(&self, other: &Self) -> bool {
        self.known.metadata == other.known.metadata
    }

    /// Whether items are being moved, so that only strongly consistent reads are sure to see what has come, and markers are left
    /// at the old homes.
    pub fn is_moving(&self) -> bool {
        self.known.metadata.reshard().is_some()
    }

    /// Whether each item has one home: of a random collection an item may lie in any shard, and in several.
    pub fn have_homes(&self) -> bool {
        self.known.metadata.placement.is_calculated()
    }

    /// Whether some shard may hold markers, of this reshard or of the last one.
    pub fn may_hold_markers(&self) -> bool {
        self.known.metadata.needs_rebalancing()
    }

    /// The partition key of the shard that an item is moved to, if it is one that moves.
    pub fn new_home(&self, key: &ItemKey) -> Option<PhysicalPartitionKey> {
        let reshard = self.known.metadata.at(&key.sort).reshard()?;
        let placement = self.known.metadata.placement;
        Some(key.partition.at(reshard.new_home(key), placement, self.separator))
    }

    /// What the shard of this partition key, as DynamoDB shows it, is to an item.
    pub fn place_of(&self, key: &ItemKey, at: &str) -> Place {
        let metadata = self.known.metadata.at(&key.sort);
        let (placement, layout) = (metadata.placement, metadata.layout());
        let shard = match PhysicalPartitionKey::parse(at, self.separator) {
            Ok((partition, shard)) if partition == key.partition => {
                shard.unwrap_or(placement.first())
            }
            _ => return Place::Elsewhere,
        };
        if !placement.shards(layout.readable).any(|readable| readable == shard) {
            return Place::Elsewhere;
        }
        match metadata.reshard() {
            None => {
                let home = placement.home(key, metadata.number_of_shards);
                if home.is_none_or(|home| home == shard) { Place::Home } else { Place::Elsewhere }
            }
            Some(reshard) if !reshard.may_hold(key, shard) => Place::Elsewhere,
            Some(reshard) if reshard.leaves(key, shard) => Place::OldHome,
            Some(_) => Place::Home,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use dynashard_keys::{PartitionKey, Placement, ShardCount, SortKey};

    use super::*;
    use crate::model::lease::Moment;
    use crate::model::metadata::{CollectionMetadata, Phase};

    fn count(count: u32) -> ShardCount {
        ShardCount::new(count).expect("a count")
    }

    fn shards(placement: Placement, shards: u32, phase: Phase) -> NativeShards {
        let partition = PartitionKey::new("key").expect("a partition key");
        let stable = CollectionMetadata::stable(partition, placement, count(shards), 1);
        let metadata = Arc::new(CollectionMetadata { phase, ..stable });
        let lease = Lease::new(Moment::default(), None, Duration::from_secs(5));
        NativeShards::new(Known { metadata, lease }, Separator::default())
    }

    /// In how many shards each of some items counts at its home, at its old home, and not at all.
    fn places(shards: &NativeShards) -> Vec<[usize; 3]> {
        let of_item = |n: u32| {
            let sort = SortKey::string(n.to_string()).expect("a sort key");
            let partition = shards.known.metadata.partition.clone();
            let key = ItemKey::new(partition, sort);
            let mut places = [0; 3];
            for partition in shards.waves().concat() {
                let at = match shards.place_of(&key, partition.as_str()) {
                    Place::Home => 0,
                    Place::OldHome => 1,
                    Place::Elsewhere => 2,
                };
                places[at] += 1;
            }
            places
        };
        (0..40).map(of_item).collect()
    }

    #[test]
    fn an_item_has_one_home_and_another_while_it_is_moved() {
        let rests = places(&shards(Placement::Xxh64, 4, Phase::Stable));
        assert!(rests.iter().all(|places| *places == [1, 0, 3]), "{rests:?}");
        for (from, to) in [(2, 4), (4, 2)] {
            let phase = Phase::Move { from: count(from), to: count(to) };
            let moves = places(&shards(Placement::Xxh64, to, phase));
            let is_either = |places: &[usize; 3]| [[1, 0, 3], [1, 1, 2]].contains(places);
            assert!(moves.iter().all(is_either), "{moves:?}");
            assert!(moves.contains(&[1, 1, 2]) && moves.contains(&[1, 0, 3]), "{moves:?}");
        }
        let random = places(&shards(Placement::Random, 3, Phase::Stable));
        assert!(random.iter().all(|places| *places == [3, 0, 0]), "{random:?}");
        let phase = Phase::Move { from: count(3), to: count(1) };
        let random = places(&shards(Placement::Random, 1, phase));
        assert!(random.iter().all(|places| *places == [1, 2, 0]), "{random:?}");
    }

    #[test]
    fn all_shards_are_asked_first_those_that_items_leave() {
        for (from, to, asked) in [
            (2, 4, vec![vec!["key", "key#~1"], vec!["key#~2", "key#~3"]]),
            (4, 2, vec![vec!["key#~2", "key#~3"], vec!["key", "key#~1"]]),
        ] {
            let phase = Phase::Move { from: count(from), to: count(to) };
            let shards = shards(Placement::Xxh64, to, phase);
            let waves = shards.waves();
            let texts = |wave: &Vec<PhysicalPartitionKey>| {
                wave.iter().map(|key| key.as_str().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(waves.iter().map(texts).collect::<Vec<_>>(), asked);
            let mut all = waves.concat();
            all.sort_unstable();
            let keys = ["key", "key#~1", "key#~2", "key#~3"];
            assert!(all.iter().map(PhysicalPartitionKey::as_str).eq(keys));
        }
        let waves = shards(Placement::Xxh64, 4, Phase::Stable).waves();
        assert_eq!(waves.iter().map(Vec::len).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn what_lies_under_the_key_of_another_collection_does_not_count() {
        let shards = shards(Placement::Xxh64, 1, Phase::Stable);
        let sort = SortKey::string("1").expect("a sort key");
        let key = ItemKey::new(shards.known.metadata.partition.clone(), sort);
        assert_eq!(shards.place_of(&key, "key"), Place::Home);
        for at in ["another", "key#~1", "key#~01", "key#~0"] {
            assert_eq!(shards.place_of(&key, at), Place::Elsewhere, "{at}");
        }
    }
}
