//! What clients did and saw.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::{AttributeValue, Attributes, Code, Error, Kind, StoredItem, Version};
use dynashard_keys::{ItemKey, Number};

use crate::linearizability::{Call, Content, Expect, Step, Verdict, check, lines};
use crate::network::TO_BE_PUT_RIGHT;
use crate::scenario::EXPIRES;

/// Everything that clients did and saw, and what of it was wrong at first sight.
#[derive(Debug, Default)]
pub(crate) struct History {
    items: BTreeMap<ItemKey, Vec<Call>>,
    /// The version that each write gave its item, as far as anybody has heard of it.
    versions: BTreeMap<u64, Version>,
    writes: u64,
    pub(crate) calls: u64,
    pub(crate) violations: Vec<String>,
}

/// An item holds what nobody has written, which is noted as a violation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NobodyWrote;

/// The attribute that holds the number of the write, and those of the fields.
const WRITER: &str = "writer";
pub(crate) const FIELDS: [&str; 2] = ["a", EXPIRES];

/// What an error says about the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Refused,
    NothingHappened,
    Unknown,
}

impl History {
    /// The number of a write that is about to begin.
    pub(crate) fn number_write(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    pub(crate) fn add(&mut self, item: &ItemKey, call: Call) {
        self.items.entry(item.clone()).or_default().push(call);
    }

    /// What an item was seen to hold, at some moment between these.
    pub(crate) fn saw(
        &mut self,
        key: &ItemKey,
        item: Option<&StoredItem>,
        begun: Duration,
        ended: Duration,
    ) {
        let Ok(content) = self.content(key, item) else { return };
        self.add(key, Call { begun, ended, is_certain: true, step: Step::Saw(content) });
    }

    /// What a client was shown of an item.
    pub(crate) fn content(
        &mut self,
        key: &ItemKey,
        item: Option<&StoredItem>,
    ) -> Result<Option<Content>, NobodyWrote> {
        let Some(item) = item else { return Ok(None) };
        let content = content_of(item).filter(|_| item.is_live());
        match content {
            Some(content) => self.note_version(content.writer, item.version),
            None => self.violations.push(format!("{key:?} holds what nobody wrote: {item:?}")),
        }
        content.map(Some).ok_or(NobodyWrote)
    }

    /// DynamoDB has deleted an item between these moments. If it lay hidden below another, clients see nothing of that.
    pub(crate) fn expired(
        &mut self,
        key: &ItemKey,
        item: &StoredItem,
        [begun, ended]: [Duration; 2],
    ) {
        let Some(content) = content_of(item) else { return };
        let step = Step::Delete(Expect::LeftBy(content.writer));
        self.add(key, Call { begun, ended, is_certain: false, step });
    }

    /// An item's version belongs to one write.
    /// Invariant I19.
    pub(crate) fn note_version(&mut self, writer: u64, version: Version) {
        let known = *self.versions.entry(writer).or_insert(version);
        if known != version {
            let what = format!("write {writer} has left two versions, {known:?} and {version:?}");
            self.violations.push(what);
        }
    }

    pub(crate) fn version(&self, writer: u64) -> Option<Version> {
        self.versions.get(&writer).copied()
    }

    /// The last write that this item was seen to be left by.
    pub(crate) fn last_seen(&self, key: &ItemKey) -> Option<u64> {
        self.items.get(key)?.iter().rev().find_map(|call| match call.step {
            Step::Saw(Some(content)) | Step::Put(_, content) => Some(content.writer),
            Step::Patch(_, writer, ..) | Step::Update(_, writer, ..) => Some(writer),
            _ => None,
        })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ItemKey> {
        self.items.keys()
    }

    /// Sorts an error of an operation, and takes note of one that must not occur.
    /// Invariant I6.
    pub(crate) fn meaning(&mut self, what: &str, error: &Error) -> Meaning {
        match (error.code(), error.kind()) {
            (Code::PreconditionFailed | Code::ItemNotFound, _) => Meaning::Refused,
            (Code::MetadataBehind, _) => {
                self.violations.push(format!("{what}: {error}"));
                Meaning::NothingHappened
            }
            (_, Kind::Throttled | Kind::Unavailable) => Meaning::NothingHappened,
            (Code::Internal | Code::RequestRejected | Code::UnmovableItem, _)
                if is_injected(error) =>
            {
                Meaning::NothingHappened
            }
            (_, Kind::OutcomeUnknown) => Meaning::Unknown,
            _ => {
                self.violations.push(format!("{what}: {error}"));
                Meaning::NothingHappened
            }
        }
    }

    /// Checks every item, and adds what cannot have happened to the violations.
    /// Invariants I1, I2, I3.
    pub(crate) fn check(&mut self) {
        for (key, calls) in &self.items {
            let name = format!("pk={} sk={}", key.partition, key.sort);
            match check(calls) {
                Verdict::Linearizable => {}
                Verdict::Impossible => {
                    let lines = lines(calls);
                    self.violations.push(format!("{name} is not linearizable:{lines}"));
                }
                Verdict::Undecided => {
                    self.violations.push(format!("{name} has a history too long to be checked"));
                }
            }
        }
    }
}

/// Whether the simulated server has refused a request for what an operator has to put right.
pub(crate) fn is_injected(error: &Error) -> bool {
    error.message().contains(TO_BE_PUT_RIGHT)
}

pub(crate) fn attributes(content: Content) -> Attributes {
    let number = |number: u64| AttributeValue::Number(Number::from(number));
    let fields = FIELDS.iter().zip(content.fields);
    let fields = fields.filter_map(|(name, value)| Some(((*name).to_owned(), number(value?))));
    fields.chain([(WRITER.to_owned(), number(content.writer))]).collect()
}

/// A patch of one field.
pub(crate) fn patch(writer: u64, field: usize, value: Option<u64>) -> Attributes {
    let number = |number: u64| AttributeValue::Number(Number::from(number));
    let value = value.map_or(AttributeValue::Null, number);
    Attributes::from([(WRITER.to_owned(), number(writer)), (FIELDS[field].to_owned(), value)])
}

pub(crate) fn content_of(item: &StoredItem) -> Option<Content> {
    let number = |name: &str| match item.attributes.get(name) {
        Some(AttributeValue::Number(number)) => number.to_string().parse().ok(),
        _ => None,
    };
    let known = |name: &String| name == WRITER || FIELDS.contains(&name.as_str());
    let is_whole = item.attributes.keys().all(known);
    let writer = number(WRITER).filter(|_| is_whole)?;
    Some(Content { writer, fields: FIELDS.map(number) })
}
