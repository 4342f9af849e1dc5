//! One request on its way: what is looked up for it, admitted, changed and settled.

use std::time::Duration;

use bytes::Bytes;
use dynashard_wire::members::{JsonMembers, with_member};
use serde_json::{Value, json};

use super::answer::{Outcome, consumed, merge_unprocessed};
use super::call::{BatchForm, Request, Unit};
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
    /// The actions with what is known of their items.
    pub(super) works: Vec<ItemWork>,
    unit: Unit,
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
        match request {
            Request::Items(actions, unit) => {
                let works = actions.into_iter().map(|action| ItemWork::of(action, tables));
                Self::Items(ItemsJob { works: works.collect(), unit })
            }
            Request::Page(page) => PageWork::of(&page, tables).map_or(Self::Free, Self::Page),
            Request::TableChange => Self::TableChange,
            Request::Other => Self::Free,
        }
    }

    /// Whether the cost, or what tables there are, is known only by another look.
    pub(super) fn changes_what_is_known(&self) -> bool {
        match self {
            Self::Items(items) => items.works.iter().any(ItemWork::is_update),
            Self::TableChange => true,
            Self::Page(_) | Self::Free => false,
        }
    }

    /// What is foreseen of each action.
    fn foreseen(&self) -> Vec<Vec<Charge>> {
        match self {
            Self::Items(items) => {
                let is_transactional = items.is_transactional();
                items.works.iter().map(|work| work.foreseen(is_transactional)).collect()
            }
            Self::Page(page) => vec![vec![page.least.clone()]],
            Self::TableChange | Self::Free => Vec::new(),
        }
    }

    /// Admits the request if there is room for all of it, and otherwise gives it back, with nothing
    /// changed and nothing counted as throttled.
    pub(super) fn admit_if_room(self, now: Duration, meter: &Meter) -> Result<Admitted, Self> {
        let charges = self.foreseen().concat();
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
        let by_action = self.foreseen();
        let is_transactional = match self {
            Self::Items(ItemsJob { works, unit: Unit::Batch(form) }) => {
                return admit_each(works, by_action, form, now, meter);
            }
            Self::Items(ref items) => items.is_transactional(),
            _ => false,
        };
        let charges = by_action.concat();
        meter.admit(now, &charges).map_err(|hits| {
            if is_transactional {
                Throttled::by_action(hits, &by_action)
            } else {
                Throttled::as_a_whole(hits)
            }
        })?;
        Ok(Admitted { job: self, at: now, charges, left: None })
    }
}

impl ItemsJob {
    /// Reads every item as it is now. Blocks.
    pub(super) fn look_up(&mut self, store: &Store) {
        self.works.iter_mut().for_each(|work| work.look_up(store));
    }

    /// Reads what became of the items that were updated. Blocks.
    pub(super) fn look_again(&mut self, store: &Store) {
        self.works.iter_mut().for_each(|work| work.look_again(store));
    }

    pub(super) const fn is_transactional(&self) -> bool {
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
            let hit = hits.iter().find(|(at, _)| own.contains(at));
            reasons.push(hit.map(|(_, hit)| (hit.code, hit.message)));
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

    /// Charges or refunds the difference between what was admitted and what the request cost. Returns
    /// what it cost, and what its client is answered where the engine's answer is not right as it is.
    pub(super) fn settle(
        self,
        outcome: Outcome,
        answer: &[u8],
        now: Duration,
        meter: &Meter,
    ) -> (Vec<Charge>, Option<Bytes>) {
        let (due, body) = match &self.job {
            Job::Items(items) => {
                let is_transactional = items.is_transactional();
                let due = items.works.iter().flat_map(|work| work.due(outcome, is_transactional));
                (due.collect(), None)
            }
            Job::Page(page) => page_due(page, outcome, answer),
            Job::TableChange | Job::Free => (Vec::new(), None),
        };
        meter.settle(now, self.at, &self.charges, &due);
        let body = match self.left {
            Some(left) if outcome == Outcome::Done => left.add_to(answer),
            _ => body,
        };
        (due, body)
    }
}

impl Left {
    /// The answer to the part that was admitted, with this one as unprocessed.
    fn add_to(self, answer: &[u8]) -> Option<Bytes> {
        let mut unprocessed = JsonMembers::of(answer)
            .and_then(|members| members.get(self.member))
            .unwrap_or(json!({}));
        merge_unprocessed(&mut unprocessed, self.unprocessed);
        with_member(answer, self.member, &unprocessed)
    }
}

/// What a page cost, and its answer without what only the endpoint has asked for.
fn page_due(page: &PageWork, outcome: Outcome, answer: &[u8]) -> (Vec<Charge>, Option<Bytes>) {
    let members = match outcome {
        Outcome::Done => JsonMembers::of(answer),
        Outcome::Unknown => None,
        Outcome::ConditionFailed | Outcome::Invalid => return (Vec::new(), None),
    };
    let Some(mut members) = members else { return (vec![page.least.clone()], None) };
    let units = consumed(&members).unwrap_or(page.least.units);
    let mut due = page.least.clone();
    due.units = units;
    let due = vec![due];
    if page.is_capacity_wanted {
        return (due, None);
    }
    members.remove("ConsumedCapacity");
    (due, members.to_body())
}
