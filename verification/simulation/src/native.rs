//! Requests in DynamoDB's own words: what their sender sends, and what DynamoDB makes of that.

use std::collections::BTreeSet;

use async_trait::async_trait;
use dynashard_core::ports::{
    Consistency, Existing, NativeGot, NativeGuard, NativeKind, NativeRead, NativeSent, NativeTerms,
    NativeWrite, Required, StoreError,
};
use dynashard_core::{StoredItem, Version};
use dynashard_keys::{ItemKey, PhysicalKey};

use crate::endpoint::at_once;
use crate::history::{attributes, content_of};
use crate::linearizability::{Content, Expect, Step};
use crate::network::{Endpoint, Kind};
use crate::scenario::Mutation;
use crate::tables::ConditionFailed;

/// A write of a client, and the way that it takes.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) endpoint: Endpoint,
    pub(crate) key: ItemKey,
    /// What it does, on the client's own condition.
    pub(crate) step: Step,
    /// Whether its client asks for what was there before (`ReturnValues`).
    pub(crate) shows: bool,
}

/// What a client is answered.
#[derive(Debug)]
pub(crate) enum Answered {
    Done {
        version: Version,
        /// What was there, if the client has asked for that.
        before: Option<StoredItem>,
    },
    /// The client's condition did not hold of this.
    Refused(Option<StoredItem>),
    Invalid,
}

/// A read of a client, and the way that it takes.
pub(crate) struct Look {
    pub(crate) endpoint: Endpoint,
    pub(crate) key: ItemKey,
    pub(crate) consistency: Consistency,
}

#[async_trait]
impl NativeWrite for Request {
    type Answer = Answered;

    fn kind(&self) -> NativeKind {
        match self.step {
            Step::Delete(_) => NativeKind::Delete,
            Step::Put(Expect::Anything, _) if !self.shows => NativeKind::Replace,
            _ => NativeKind::Depend,
        }
    }

    fn may_expire(&self, ttl_attributes: &BTreeSet<String>) -> bool {
        // What an update names is what it leaves of nothing.
        let left = self.step.apply(None).map(attributes).unwrap_or_default();
        ttl_attributes.iter().any(|name| left.contains_key(name))
    }

    async fn send(
        &self,
        terms: &NativeTerms,
        guard: NativeGuard,
    ) -> Result<NativeSent<Answered>, StoreError> {
        let at = PhysicalKey { partition: terms.partition.clone(), sort: self.key.sort.clone() };
        let name = || format!("native {:?} of {at:?} {:?} {guard:?}", self.step, terms.generation);
        let (request, terms_of_it, at_of_it) = (self.clone(), terms.clone(), at.clone());
        let execute = at_once(move |tables, _, now| {
            tables.change(&at_of_it, now, |existing| {
                request.carried_out(existing, &terms_of_it, guard)
            })
        });
        let sent = self.endpoint.call(name, Kind::Write(Some(terms.lease)), execute).await;
        let (is_done, found) = match sent {
            Ok(dated) => dated.value,
            Err(StoreError::Rejected(_)) => return Ok(NativeSent::Invalid(Answered::Invalid)),
            Err(error) => return Err(error),
        };
        if is_done {
            let before = found.filter(|_| self.shows);
            let answer = Answered::Done { version: guard.version, before };
            return Ok(NativeSent::Done { answer, consumed_wcu: 1.0 });
        }
        let existing = found.as_ref().map(existing);
        Ok(NativeSent::Refused { answer: Answered::Refused(found), existing })
    }
}

impl Request {
    /// What the write leaves of what is there. DynamoDB knows nothing of
    /// markers: to the client's condition one is an item that has a key alone.
    fn carried_out(
        &self,
        existing: Option<&StoredItem>,
        terms: &NativeTerms,
        guard: NativeGuard,
    ) -> Result<Option<StoredItem>, ConditionFailed> {
        let broken = self.endpoint.terms().broken;
        let required = match guard.required {
            Required::Live if broken == Some(Mutation::UpdateTrustsNewHome) => Required::Anything,
            Required::NoMarker if broken == Some(Mutation::ConditionSeesMarker) => {
                Required::Anything
            }
            required => required,
        };
        let is_marker = existing.is_some_and(|item| !item.is_live());
        let is_as_required = match required {
            Required::Anything => true,
            Required::NoMarker => !is_marker,
            Required::Live => existing.is_some() && !is_marker,
            Required::Version(seen) => {
                existing.is_some_and(|item| item.is_live() && item.version == seen)
            }
            Required::Nothing => existing.is_none(),
        };
        let keys_alone = Content { writer: 0, fields: [None; 2] };
        let content = existing.map(|item| content_of(item).unwrap_or(keys_alone));
        let is_behind = existing.is_some_and(|item| item.generation > terms.generation);
        if is_behind || !is_as_required || !self.step.can_happen_to(content) {
            return Err(ConditionFailed);
        }
        let keeps_version =
            broken == Some(Mutation::UpdateKeepsVersion) && matches!(self.step, Step::Update(..));
        let kept = existing.filter(|_| keeps_version).map(|item| item.version);
        let next = self.step.apply(content).map(|content| StoredItem {
            attributes: attributes(content),
            generation: terms.generation,
            version: kept.unwrap_or(guard.version),
            forwarded: false,
        });
        Ok(next)
    }
}

#[async_trait]
impl NativeRead for Look {
    type Answer = Option<StoredItem>;

    fn is_strong(&self) -> bool {
        self.consistency == Consistency::Strong
    }

    async fn send(
        &self,
        terms: &NativeTerms,
        strong: bool,
    ) -> Result<NativeGot<Self::Answer>, StoreError> {
        let at = PhysicalKey { partition: terms.partition.clone(), sort: self.key.sort.clone() };
        let consistency = if strong { Consistency::Strong } else { Consistency::Eventual };
        let name = || format!("native get {at:?} {consistency:?}");
        let lag = self.endpoint.lag(consistency);
        let at_of_it = at.clone();
        let get = at_once(move |tables, _, now| Ok(tables.get(&at_of_it, now.saturating_sub(lag))));
        let answer = match self.endpoint.call(name, Kind::Read, get).await {
            Ok(dated) => dated.value,
            Err(StoreError::Rejected(_)) => return Ok(NativeGot::Invalid(None)),
            Err(error) => return Err(error),
        };
        let existing = answer.as_ref().map(existing);
        Ok(NativeGot::Read { answer, existing, consumed_rcu: 1.0 })
    }
}

fn existing(item: &StoredItem) -> Existing {
    Existing { generation: item.generation, version: item.version, is_marker: !item.is_live() }
}
