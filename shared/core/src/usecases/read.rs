//! Finds single items, wherever a change of the shard count has them.

use std::collections::BTreeMap;

use dynashard_keys::{ItemKey, PhysicalKey, Placement, ShardId};

use crate::decide::replicas::may_answer;
use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::model::metadata::{CollectionMetadata, Reshard};
use crate::model::replica::Replica;
use crate::ports::{Consistency, Metered, ShardPage, ShardQuery, StoreError};
use crate::usecases::cost::Cost;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::fan_out;
use crate::usecases::retry::within;
use crate::usecases::settle::{BothHomes, Settling, Unsettled};

/// What a look at all places where an item may lie came to.
enum Looked {
    /// What lies there, the one that counts first.
    At(Vec<StoredItem>),
    /// The item could not be moved between these shards before it is shown.
    Unsettled(Unsettled, [ShardId; 2]),
}

/// One item, and how it is read.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) key: &'a ItemKey,
    pub(crate) fields: Option<&'a Fields>,
    pub(crate) consistency: Consistency,
    /// Whether replicas of the table may answer, too: those of a collection that rests, to a read that need not be strong.
    pub(crate) is_spread: bool,
    pub(crate) deadline: Deadline,
}

impl<'a> Lookup<'a> {
    /// One that asks the table alone.
    pub(crate) fn new(
        directory: &'a Directory,
        key: &'a ItemKey,
        fields: Option<&'a Fields>,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Self {
        Self { directory, key, fields, consistency, is_spread: false, deadline }
    }

    /// The item, if there is one, and what looking for it cost.
    pub(crate) async fn find(self) -> Result<(Option<StoredItem>, Cost), Error> {
        let Self { key, deadline, .. } = self;
        let mut attempts = self.directory.attempts(deadline);
        let mut cost = Cost::default();
        loop {
            let known = self.directory.find_for(key, deadline).await?;
            let metadata = &known.metadata;
            let lookup = Self { is_spread: self.may_be_spread(metadata), ..self };
            let (looked, read) = match metadata.reshard() {
                None => {
                    let shards = possible_shards(key, &known);
                    let (found, read) = lookup.get_at_each(metadata.placement, shards).await?;
                    (Looked::At(found), read)
                }
                Some(reshard) => lookup.get_moving(reshard, &known).await?,
            };
            cost += read;
            let found = match looked {
                Looked::At(found) => found,
                Looked::Unsettled(unsettled, [one, other]) => {
                    let shards = vec![one.min(other), one.max(other)];
                    let refusal = unsettled.refusal();
                    if let Some(refusal) = refusal.map_err(|e| e.of_shards(shards.clone()))? {
                        attempts.pause(refusal.of_shards(shards)).await?;
                    } else {
                        self.directory.forget(&key.partition);
                        attempts.refresh().await?;
                    }
                    continue;
                }
            };
            if found.iter().any(|item| item.generation > known.metadata.generation) {
                self.directory.forget(&key.partition);
                attempts.refresh().await?;
                continue;
            }
            if !known.holds(self.directory, key, deadline).await? {
                let why = "the item could not be read within a metadata lease";
                attempts.pause(Error::new(Code::Unavailable, why)).await?;
                continue;
            }
            return Ok((found.into_iter().find(StoredItem::is_live), cost));
        }
    }

    /// What lies at both homes of an item that a reshard may have moved, the one that counts first
    /// (protocol: "Steps", "get").
    async fn get_moving(self, reshard: Reshard, known: &Known) -> Result<(Looked, Cost), Error> {
        let settles = self.consistency == Consistency::Strong;
        let strong = Self { consistency: Consistency::Strong, ..self };
        let placement = known.metadata.placement;
        if !placement.is_calculated() {
            // Their sort keys never repeat, and no write of theirs has a precondition.
            let (found, cost) = strong.get_drained(reshard, known).await?;
            return Ok((Looked::At(found), cost));
        }
        let Some((old, new)) = reshard.homes(self.key) else {
            let home = std::iter::once(reshard.new_home(self.key));
            let (found, cost) = strong.get_at_each(placement, home).await?;
            return Ok((Looked::At(found), cost));
        };
        let (found, mut cost) = strong.get_at_each(placement, std::iter::once(new)).await?;
        if found.iter().any(|item| answers(item, known)) {
            return Ok((Looked::At(found), cost));
        }
        if settles {
            let (looked, read) = strong.get_settled(new, old, known).await?;
            cost += read;
            return Ok((looked, cost));
        }
        let (found, read) = strong.get_both(placement, [new, old]).await?;
        cost += read;
        Ok((Looked::At(found), cost))
    }

    /// Both homes of an item at one moment. What is at the old one alone is moved before it is returned,
    /// since writes in `move` may look at the new home alone (invariant I31).
    async fn get_settled(
        self,
        new: ShardId,
        old: ShardId,
        known: &Known,
    ) -> Result<(Looked, Cost), Error> {
        // All of an item moves, whatever of it was asked for.
        let whole = Self { fields: None, ..self };
        let Metered { value, consumed_rcu } =
            whole.get_pair(known.metadata.placement, [new, old]).await?;
        let items_read = value.iter().flatten().count();
        let items_read = u64::try_from(items_read).unwrap_or(u64::MAX);
        let mut cost = Cost { items_read, consumed_rcu, ..Cost::default() };
        let project = |item| match self.fields {
            Some(fields) => fields.project(item),
            None => item,
        };
        let is_live = |item: &Option<StoredItem>| item.as_ref().is_some_and(StoredItem::is_live);
        let seen = match value {
            [at_new, Some(seen)] if seen.is_live() && !is_live(&at_new) => seen,
            both => {
                let found = both.into_iter().flatten().map(project).collect();
                return Ok((Looked::At(found), cost));
            }
        };
        let at = |shard| self.at(known.metadata.placement, shard);
        let homes = BothHomes { old: at(old), new: at(new) };
        let mut settling = Settling::new(self.directory.context().items(), &homes, known);
        let bringing = settling.bring_observed(seen.clone());
        let settled = within(self.directory.clock(), self.deadline, bringing).await;
        cost.consumed_wcu += settling.consumed_wcu();
        let looked = match settled {
            Some(Ok(item)) => Looked::At(vec![project(item)]),
            // It cannot be moved, and both homes were read at one moment.
            Some(Err(Unsettled::Unmovable(_))) => Looked::At(vec![project(seen)]),
            Some(Err(unsettled)) => Looked::Unsettled(unsettled, [new, old]),
            None => return Err(Error::new(Code::Unavailable, NOT_IN_TIME)),
        };
        Ok((looked, cost))
    }

    /// Finds an item in a random collection that shrinks: the drained shards first, since items leave
    /// them and never come back.
    async fn get_drained(
        self,
        reshard: Reshard,
        known: &Known,
    ) -> Result<(Vec<StoredItem>, Cost), Error> {
        let placement = known.metadata.placement;
        let mut cost = Cost::default();
        let mut found = BTreeMap::new();
        for shards in
            [reshard.sources().collect::<Vec<_>>(), reshard.destinations().collect::<Vec<_>>()]
        {
            for (shard, read) in self.get_side_by_side(placement, shards.into_iter()).await? {
                cost += Cost::of(&read);
                found.extend(read.value.map(|item| (shard, item)));
            }
        }
        let marked_at = found.iter().rfind(|(_, item)| is_marker_of(item, known));
        if !found.values().any(|item| answers(item, known))
            && let Some((old, _)) = marked_at
        {
            let new = reshard.new_home(self.key);
            let (both, read) = self.get_both(placement, [new, *old]).await?;
            cost += read;
            return Ok((both, cost));
        }
        Ok((found.into_values().collect(), cost))
    }

    /// Both homes as they were at one moment: two plain reads could miss an item that moves between
    /// them.
    pub(crate) async fn get_both(
        self,
        placement: Placement,
        [new, old]: [ShardId; 2],
    ) -> Result<(Vec<StoredItem>, Cost), Error> {
        let Metered { value, consumed_rcu } = self.get_pair(placement, [new, old]).await?;
        let found = value.into_iter().flatten().collect::<Vec<_>>();
        let items_read = u64::try_from(found.len()).unwrap_or(u64::MAX);
        Ok((found, Cost { items_read, consumed_rcu, ..Cost::default() }))
    }

    /// Reads an item at both homes in one transaction; each answer is in the place of its key.
    pub(crate) async fn get_pair(
        self,
        placement: Placement,
        shards: [ShardId; 2],
    ) -> Result<Metered<[Option<StoredItem>; 2]>, Error> {
        let Self { fields, deadline, .. } = self;
        let keys = shards.map(|shard| self.at(placement, shard));
        let mut attempts = self.directory.attempts(deadline);
        let read = attempts.make(
            || self.directory.context().items().get_both(keys.each_ref(), fields),
            NOT_IN_TIME,
        );
        let [one, other] = shards;
        read.await.map_err(|error| error.of_shards(vec![one.min(other), one.max(other)]))
    }

    /// Where an item lies in a shard.
    fn at(self, placement: Placement, shard: ShardId) -> PhysicalKey {
        self.key.at(shard, placement, self.directory.settings().schema.separator)
    }

    /// What lies in each of these shards, side by side.
    async fn get_at_each(
        self,
        placement: Placement,
        shards: impl Iterator<Item = ShardId>,
    ) -> Result<(Vec<StoredItem>, Cost), Error> {
        let mut cost = Cost::default();
        let mut found = Vec::new();
        for (_, read) in self.get_side_by_side(placement, shards).await? {
            cost += Cost::of(&read);
            found.extend(read.value);
        }
        Ok((found, cost))
    }

    async fn get_side_by_side(
        self,
        placement: Placement,
        shards: impl Iterator<Item = ShardId>,
    ) -> Result<Vec<(ShardId, Metered<Option<StoredItem>>)>, Error> {
        let requests =
            shards.map(|shard| async move { Ok((shard, self.get_at(placement, shard).await?)) });
        fan_out(requests.collect::<Vec<_>>()).await
    }

    pub(crate) async fn get_at(
        self,
        placement: Placement,
        shard: ShardId,
    ) -> Result<Metered<Option<StoredItem>>, Error> {
        let Self { fields, consistency, deadline, .. } = self;
        let key = self.at(placement, shard);
        let mut attempts = self.directory.attempts(deadline);
        let get = || self.directory.context().items().get(&key, fields, consistency);
        let read = async {
            if !self.is_spread {
                return attempts.make(get, NOT_IN_TIME).await;
            }
            let (found, replica) = attempts.make(|| self.ask_any(&key), NOT_IN_TIME).await?;
            let is_found = found.value.as_ref().is_some_and(StoredItem::is_live);
            if replica.is_none() || is_found {
                return Ok(found);
            }
            // A replica may not have it yet.
            let of_table = attempts.make(get, NOT_IN_TIME).await?;
            let consumed_rcu = found.consumed_rcu + of_table.consumed_rcu;
            Ok(Metered { consumed_rcu, ..of_table })
        };
        read.await.map_err(|error: Error| error.of_shards(vec![shard]))
    }

    /// Whether replicas may answer, while the metadata says that nothing moves. An item of a random collection is looked for in
    /// every shard, and most do not have it: what a replica does not have the table is asked for.
    fn may_be_spread(self, metadata: &CollectionMetadata) -> bool {
        let Self { directory, consistency, .. } = self;
        self.is_spread
            && consistency == Consistency::Eventual
            && metadata.placement.is_calculated()
            && may_answer(metadata, directory.settings(), directory.now())
    }

    /// What the table or a replica has under a key, and who has answered.
    async fn ask_any(
        self,
        key: &PhysicalKey,
    ) -> Result<(Metered<Option<StoredItem>>, Option<Replica>), StoreError> {
        let Self { directory, fields, consistency, .. } = self;
        let context = directory.context();
        let request = |replica| async move {
            let Some(replica) = replica else {
                return context.items().get(key, fields, consistency).await;
            };
            let query = ShardQuery::of_item(key, fields, replica);
            let ShardPage { items, consumed_rcu, .. } = context.items().query(&query).await?;
            let value = items.into_iter().next().map(|(_, item)| item);
            Ok(Metered { value, consumed_rcu })
        };
        context.ask_any(request).await
    }
}

/// The shards that may hold an item: its home, or every shard of a random collection.
pub(crate) fn possible_shards(
    key: &ItemKey,
    known: &Known,
) -> impl Iterator<Item = ShardId> + use<> {
    let metadata = known.metadata.at(&key.sort);
    let (placement, count) = (metadata.placement, metadata.layout().readable);
    let home = placement.home(key, count);
    placement.shards(count).filter(move |shard| home.is_none_or(|home| *shard == home))
}

/// Whether an item answers a read without a look at its other home: it is live, or shows that the
/// metadata is out of date.
fn answers(item: &StoredItem, known: &Known) -> bool {
    item.is_live() || item.generation > known.metadata.generation
}

/// Whether this is the marker of an item that the running reshard has moved.
pub(crate) fn is_marker_of(item: &StoredItem, known: &Known) -> bool {
    !item.is_live() && item.generation == known.metadata.generation
}

pub(crate) const NOT_IN_TIME: &str = "the item could not be read in time";
