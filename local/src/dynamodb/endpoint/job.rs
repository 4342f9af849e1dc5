//! One request on its way: what is looked up for it, admitted, changed and settled.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::{Members, Outcome, consumed, merge_unprocessed, with_member};
use super::call::{BatchForm, Request};
use super::cost::{Charge, ItemWork, PageWork};
use super::meter::Meter;
use super::refusal::{Hit, Refusal};
use super::tables::Tables;
use crate::dynamodb::engine::Store;

/// How a request consumes capacity.
#[derive(Debug)]
pub(super) enum Job {
    Items(ItemsJob),
    Page(PageWork),
    TableChange,
    /// Not at all.
    Free,
}

/// Actions on items.
#[derive(Debug)]
pub(super) struct ItemsJob {
    works: Vec<ItemWork>,
    unit: Unit,
}

/// What is admitted or refused as a whole.
#[derive(Debug)]
enum Unit {
    /// The one action that there is.
    Action,
    /// All actions together.
    Transaction,
    /// Each action by itself.
    Batch(BatchForm),
}

/// A request of which nothing was admitted.
#[derive(Debug)]
pub(super) struct Throttled {
    pub(super) refusal: Refusal,
    /// Every limit that was met.
    pub(super) hits: Vec<Hit>,
}

impl Job {
    pub(super) fn of(request: Request, tables: &Tables) -> Self {
        let (actions, unit) = match request {
            Request::Single(action) => (vec![action], Unit::Action),
            Request::Transaction(actions) => (actions, Unit::Transaction),
            Request::Batch(batch) => (batch.actions, Unit::Batch(batch.form)),
            Request::Page(page) => {
                return PageWork::of(&page, tables).map_or(Self::Free, Self::Page);
            }
            Request::TableChange => return Self::TableChange,
            Request::Other => return Self::Free,
        };
        let works = actions.into_iter().map(|action| ItemWork::of(action, tables)).collect();
        Self::Items(ItemsJob { works, unit })
    }

    /// Admits the request if there is room for all of it, and otherwise gives it back, with nothing
    /// changed and nothing counted as throttled.
    pub(super) fn admit_if_room(self, now: Duration, meter: &Meter) -> Result<Admitted, Self> {
        let charges = match &self {
            Self::Items(items) => items.foreseen().concat(),
            Self::Page(page) => vec![page.least.clone()],
            Self::TableChange | Self::Free => Vec::new(),
        };
        if meter.admit_if_room(now, &charges) {
            Ok(Admitted { job: self, at: now, charges, left: None })
        } else {
            Err(self)
        }
    }

    /// Lets a request pass that the engine will refuse. Should the engine execute it after all, it
    /// is charged afterwards.
    pub(super) const fn pass(self, now: Duration) -> Admitted {
        Admitted { job: self, at: now, charges: Vec::new(), left: None }
    }

    /// Admits what there is room for; an error if that is nothing.
    pub(super) fn admit(self, now: Duration, meter: &Meter) -> Result<Admitted, Throttled> {
        let (job, charges, left) = match self {
            Self::Items(items) => return items.admit(now, meter),
            Self::Page(page) => {
                let charges = vec![page.least.clone()];
                meter.admit(now, &charges).map_err(Throttled::as_a_whole)?;
                (Self::Page(page), charges, None)
            }
            Self::TableChange | Self::Free => (self, Vec::new(), None),
        };
        Ok(Admitted { job, at: now, charges, left })
    }
}

impl ItemsJob {
    /// Reads every item as it is now. Blocks.
    pub(super) fn look_up(&mut self, store: &Store) {
        self.works.iter_mut().for_each(|work| work.look_up(store));
    }

    /// Whether the cost is known only after [`Self::look_again`].
    pub(super) fn has_updates(&self) -> bool {
        self.works.iter().any(ItemWork::is_update)
    }

    /// Reads what became of the items that were updated. Blocks.
    pub(super) fn look_again(&mut self, store: &Store) {
        self.works.iter_mut().for_each(|work| work.look_again(store));
    }

    /// The actions with what is known of their items.
    pub(super) fn works(&self) -> &[ItemWork] {
        &self.works
    }

    /// What is foreseen of each action.
    fn foreseen(&self) -> Vec<Vec<Charge>> {
        let is_transactional = self.is_transactional();
        self.works.iter().map(|work| work.foreseen(is_transactional)).collect()
    }

    fn admit(self, now: Duration, meter: &Meter) -> Result<Admitted, Throttled> {
        let by_action = self.foreseen();
        if let Unit::Batch(form) = self.unit {
            return admit_each(self.works, by_action, form, now, meter);
        }
        let charges = by_action.concat();
        meter.admit(now, &charges).map_err(|hits| {
            if self.is_transactional() {
                Throttled::by_action(hits, &by_action)
            } else {
                Throttled::as_a_whole(hits)
            }
        })?;
        Ok(Admitted { job: Job::Items(self), at: now, charges, left: None })
    }

    fn due(&self, outcome: Outcome) -> Vec<Charge> {
        let is_transactional = self.is_transactional();
        self.works.iter().flat_map(|work| work.due(outcome, is_transactional)).collect()
    }

    pub(super) fn is_transactional(&self) -> bool {
        matches!(self.unit, Unit::Transaction)
    }
}

/// Admits each action of a batch that there is room for, with its charges; an error if there is room for none.
fn admit_each(
    actions: Vec<ItemWork>,
    by_action: Vec<Vec<Charge>>,
    form: BatchForm,
    now: Duration,
    meter: &Meter,
) -> Result<Admitted, Throttled> {
    let (mut works, mut charges) = (Vec::new(), Vec::new());
    let (mut left, mut hits) = (Vec::new(), Vec::new());
    for (work, own) in actions.into_iter().zip(by_action) {
        match meter.admit(now, &own) {
            Ok(()) => {
                works.push(work);
                charges.extend(own);
            }
            Err(own_hits) => {
                left.push(work.action);
                hits.extend(own_hits);
            }
        }
    }
    if works.is_empty() && !left.is_empty() {
        return Err(Throttled::as_a_whole(hits));
    }
    let left = (!left.is_empty()).then(|| Left {
        request_items: form.request_items(works.iter().map(|work| &work.action)),
        unprocessed: form.request_items(left.iter()),
        member: form.unprocessed(),
        hits: hits.into_iter().map(|(_, hit)| hit).collect(),
    });
    let job = Job::Items(ItemsJob { works, unit: Unit::Batch(form) });
    Ok(Admitted { job, at: now, charges, left })
}

impl Throttled {
    fn as_a_whole(hits: Vec<(usize, Hit)>) -> Self {
        let hits: Vec<_> = hits.into_iter().map(|(_, hit)| hit).collect();
        Self { refusal: Refusal::throttled(&hits), hits }
    }

    /// A transaction whose actions have these charges. The first limit that an action met is its
    /// reason.
    fn by_action(hits: Vec<(usize, Hit)>, charges: &[Vec<Charge>]) -> Self {
        let mut reasons = Vec::new();
        let mut first = 0;
        for charges in charges {
            let own = first..first + charges.len();
            reasons.push(hits.iter().find(|(at, _)| own.contains(at)).map(|(_, hit)| hit));
            first = own.end;
        }
        let refusal = Refusal::cancelled(&reasons);
        Self { refusal, hits: hits.into_iter().map(|(_, hit)| hit).collect() }
    }
}

/// A request that may execute.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) job: Job,
    at: Duration,
    /// What it was admitted with.
    charges: Vec<Charge>,
    left: Option<Left>,
}

/// The part of a batch that was not admitted.
#[derive(Debug)]
struct Left {
    /// The part that was.
    request_items: Value,
    unprocessed: Value,
    /// The member of the answer that holds it.
    member: &'static str,
    hits: Vec<Hit>,
}

/// What a request cost, and what its client is answered.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) charges: Vec<Charge>,
    /// `None` where the engine's answer is right as it is.
    pub(super) body: Option<Bytes>,
}

impl Admitted {
    /// The limits that keep a part of the request from executing.
    pub(super) fn hits(&self) -> &[Hit] {
        self.left.as_ref().map_or(&[], |left| &left.hits)
    }

    /// The request for the engine.
    pub(super) fn body(&self, body: Bytes) -> Bytes {
        let changed = match (&self.left, &self.job) {
            (Some(left), _) => with_member(&body, "RequestItems", &left.request_items),
            (None, Job::Page(page)) if !page.is_capacity_wanted => {
                with_member(&body, "ReturnConsumedCapacity", &json!("TOTAL"))
            }
            _ => None,
        };
        changed.unwrap_or(body)
    }

    /// Charges or refunds the difference between what was admitted and what the request cost.
    pub(super) fn settle(
        self,
        outcome: Outcome,
        answer: &[u8],
        now: Duration,
        meter: &Meter,
    ) -> Settled {
        let (due, body) = match &self.job {
            Job::Items(items) => (items.due(outcome), None),
            Job::Page(page) => page_due(page, outcome, answer),
            Job::TableChange | Job::Free => (Vec::new(), None),
        };
        meter.settle(now, self.at, &self.charges, &due);
        let body = match self.left {
            Some(left) if outcome == Outcome::Done => left.add_to(answer),
            _ => body,
        };
        Settled { charges: due, body }
    }
}

impl Left {
    /// The answer to the part that was admitted, with this one as unprocessed.
    fn add_to(self, answer: &[u8]) -> Option<Bytes> {
        let mut unprocessed =
            Members::of(answer).and_then(|members| members.get(self.member)).unwrap_or(json!({}));
        merge_unprocessed(&mut unprocessed, self.unprocessed);
        with_member(answer, self.member, &unprocessed)
    }
}

/// What a page cost, and its answer without what only the endpoint has asked for.
fn page_due(page: &PageWork, outcome: Outcome, answer: &[u8]) -> (Vec<Charge>, Option<Bytes>) {
    match outcome {
        Outcome::Done => {}
        Outcome::Unknown => return (vec![page.least.clone()], None),
        Outcome::ConditionFailed | Outcome::Invalid => return (Vec::new(), None),
    }
    let Some(mut members) = Members::of(answer) else {
        return (vec![page.least.clone()], None);
    };
    let units = consumed(&members).unwrap_or(page.least.units);
    let due = vec![page.charge(units)];
    if page.is_capacity_wanted {
        return (due, None);
    }
    members.remove("ConsumedCapacity");
    (due, members.to_body())
}
