//! What is to be done about a series: a pure function of the time, the tables and the policy. A rotation does the first step and
//! plans anew, so one that was ended anywhere is like one that has not begun.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_aws_operator::{BucketExport, LIKE_TAG, SeriesTable};
use dynashard_keys::TimeTables;
use serde::Serialize;

use crate::operator::Failure;

/// What is wanted of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// How many tables keep their capacity, from the present one back; at least 1.
    pub(super) hot: u32,
    pub(super) cooling: Cooling,
    /// How many tables are kept, from the one before the present one back; all, if it is left out.
    pub(super) delete_after: Option<u32>,
    pub(super) archive: Archive,
}

impl Policy {
    /// The newest table that is not hot, by its number.
    pub(super) fn cooled(&self, now: i64) -> i64 {
        now - i64::from(self.hot)
    }

    /// The number below which tables are past their time.
    pub(super) fn past(&self, now: i64) -> i64 {
        self.delete_after.map_or(i64::MIN, |kept| now - i64::from(kept))
    }
}

/// What becomes of tables that are not hot any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cooling {
    pub(super) is_on_demand: bool,
    pub(super) is_infrequent: bool,
    /// The most read and write units a second.
    pub(super) units: Option<(u64, u64)>,
}

/// Where a table goes before it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Archive {
    Nowhere,
    Folder,
    /// To S3, for which DynamoDB has to be able to restore the table.
    Bucket,
}

/// A table of the series, and what has to be asked beside its description.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Member {
    pub(super) table: SeriesTable,
    /// The attribute by which its items expire.
    pub(super) expires_by: Option<String>,
    /// Whether it can be restored to any second of the last weeks; `None` if the server does not say.
    pub(super) is_recoverable: Option<bool>,
    /// Whether it is the main table of a stack.
    pub(super) is_owned: bool,
    /// Its export, if it is to have one and has.
    pub(super) export: Option<BucketExport>,
    /// Whether a step was refused, so that nothing more is tried now.
    pub(super) has_failed: bool,
}

/// The numbers of periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// The present one.
    pub(super) now: i64,
    /// The one up to which there have to be tables.
    pub(super) ahead: i64,
}

/// One change of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum Step {
    Create {
        table: String,
        like: String,
    },
    Expire {
        table: String,
        attribute: String,
    },
    MakeRecoverable {
        table: String,
    },
    /// It has all that the one has which it was made like.
    Untag {
        table: String,
        like: String,
    },
    Lower {
        table: String,
        read_units: u64,
        write_units: u64,
    },
    PutOnDemand {
        table: String,
    },
    MakeInfrequent {
        table: String,
    },
    Export {
        table: String,
    },
    Delete {
        table: String,
    },
}

/// A table about which nothing more can be done now, or ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Left {
    pub(super) table: String,
    pub(super) why: String,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// In this order.
    pub(super) steps: Vec<Step>,
    /// DynamoDB is at a change of these, and more is to be done when it is through.
    pub(super) waiting: Vec<Left>,
    /// These are past their time, and stay.
    pub(super) kept: Vec<Left>,
}

/// What becomes of a table that is past its time.
enum End {
    Goes,
    /// And those that are newer wait for it.
    Waits,
    Stays,
}

/// A rotation that is late by more periods has been forgotten, or its clock is wrong.
const MOST_MISSED: i64 = 12;

impl Plan {
    /// Plans for these tables, by the numbers of their periods; at least one.
    pub(super) fn of(
        tables: &TimeTables,
        members: &BTreeMap<i64, Member>,
        times: Times,
        policy: &Policy,
    ) -> Result<Self, Failure> {
        let mut plan = Self::default();
        plan.make(tables, members, times)?;
        for member in members.values() {
            plan.complete(member, members);
        }
        let models = members.values().filter_map(|member| member.table.like.as_ref());
        let models = models.collect::<BTreeSet<_>>();
        let (cooled, past) = (policy.cooled(times.now), policy.past(times.now));
        for (_, member) in members.iter().filter(|(number, _)| (past..=cooled).contains(number)) {
            plan.cool(member, policy.cooling);
        }
        let (mut stays, mut is_next) = (None, true);
        for (_, member) in members.range(..past.min(times.now)) {
            is_next &= !models.contains(&member.table.name);
            match plan.end(member, policy, stays.as_deref(), is_next) {
                End::Goes => {}
                End::Waits => is_next = false,
                End::Stays => {
                    plan.cool(member, policy.cooling);
                    stays.get_or_insert_with(|| member.table.name.clone());
                }
            }
        }
        Ok(plan)
    }

    /// Has tables made up to the period that is ahead, all like the last one that was there before.
    fn make(
        &mut self,
        tables: &TimeTables,
        members: &BTreeMap<i64, Member>,
        times: Times,
    ) -> Result<(), Failure> {
        let (newest, last) = members.last_key_value().expect("a series has a table");
        if times.now - newest > MOST_MISSED {
            let why = format!(
                "no table is newer than {}, {} periods ago: make the present one, and those before it, by hand, if the time is right",
                last.table.name,
                times.now - newest
            );
            return Err(Failure { code: "series_behind", detail: why });
        }
        if *newest >= times.ahead {
            return Ok(());
        }
        let is_whole = |member: &&Member| {
            let SeriesTable { state, series, like, .. } = &member.table;
            state.is_active && series.is_some() && like.is_none()
        };
        let mut before = members.range(..=times.now).map(|(_, member)| member);
        let model = before.rfind(is_whole).or_else(|| members.values().find(is_whole));
        let Some(model) = model else {
            let why = "the next one is made like it, and it is not whole yet".to_owned();
            self.waiting.push(Left { table: last.table.name.clone(), why });
            return Ok(());
        };
        for number in newest + 1..=times.ahead {
            let table =
                tables.numbered(number).map_err(|e| Failure::bad_argument(e.to_string()))?;
            let like = model.table.name.clone();
            self.steps.push(Step::Create { table: table.clone(), like });
            self.steps.extend(completion(&table, model, None));
        }
        Ok(())
    }

    /// Gives a new table what it could not be made with.
    fn complete(&mut self, member: &Member, members: &BTreeMap<i64, Member>) {
        let Some(like) = &member.table.like else { return };
        let mut members = members.values();
        let steps = match members.find(|model| model.table.name == *like) {
            Some(model) => completion(&member.table.name, model, Some(member)),
            None => vec![Step::Untag { table: member.table.name.clone(), like: like.clone() }],
        };
        self.when_active(member, steps.into_iter());
    }

    /// Lowers what a table costs.
    fn cool(&mut self, member: &Member, cooling: Cooling) {
        if member.is_owned {
            return;
        }
        let SeriesTable { name, state, .. } = &member.table;
        let table = || name.clone();
        let on_demand = (cooling.is_on_demand && state.provisioned.is_some())
            .then(|| Step::PutOnDemand { table: table() });
        let lower = cooling.units.filter(|units| state.is_provisioned_above(*units));
        let lower = lower.map(|(read_units, write_units)| Step::Lower {
            table: table(),
            read_units,
            write_units,
        });
        let infrequent = (cooling.is_infrequent && state.class != "STANDARD_INFREQUENT_ACCESS")
            .then(|| Step::MakeInfrequent { table: table() });
        self.when_active(member, on_demand.into_iter().chain(lower).chain(infrequent));
    }

    /// Exports a table that is past its time, and deletes it if it is the next to go. The oldest goes first, so that no gap comes
    /// to be, and what is newer than one that `stays` stays, too.
    fn end(&mut self, member: &Member, policy: &Policy, stays: Option<&str>, is_next: bool) -> End {
        let SeriesTable { name, state, .. } = &member.table;
        let table = || name.clone();
        let why = match stays {
            _ if member.is_owned => "it is the main table of a stack".to_owned(),
            _ if state.is_protected => "its deletion protection is on".to_owned(),
            Some(older) => format!("{older} stays, which is older"),
            None => {
                let is_archived = policy.archive == Archive::Nowhere
                    || matches!(member.export, Some(BucketExport::Complete(_)));
                if member.export == Some(BucketExport::Running) {
                    let why = "it is being exported".to_owned();
                    self.waiting.push(Left { table: table(), why });
                    return End::Waits;
                }
                let is_to_recover = policy.archive == Archive::Bucket
                    && !is_archived
                    && member.is_recoverable == Some(false);
                // It is scanned, which takes for ever with a few units.
                let is_to_serve = policy.archive != Archive::Nowhere && state.provisioned.is_some();
                let steps = [
                    is_to_serve.then(|| Step::PutOnDemand { table: table() }),
                    is_to_recover.then(|| Step::MakeRecoverable { table: table() }),
                    (!is_archived).then(|| Step::Export { table: table() }),
                    is_next.then(|| Step::Delete { table: table() }),
                ];
                let is_active = self.when_active(member, steps.into_iter().flatten());
                return if is_active && is_next { End::Goes } else { End::Waits };
            }
        };
        self.kept.push(Left { table: table(), why });
        End::Stays
    }

    /// Takes these steps, or notes that DynamoDB has to be waited for. Returns whether it has not.
    fn when_active(&mut self, member: &Member, steps: impl Iterator<Item = Step>) -> bool {
        if member.has_failed {
            return false;
        }
        let status = &member.table.state.status;
        let mut steps = steps.peekable();
        let is_active = status == "ACTIVE";
        if is_active {
            self.steps.extend(steps);
        } else if steps.peek().is_some() {
            let (table, why) = (member.table.name.clone(), format!("it is {status}"));
            self.waiting.push(Left { table, why });
        }
        is_active
    }
}

impl Step {
    /// The table that it changes.
    pub(super) fn table(&self) -> &str {
        match self {
            Self::Create { table, .. }
            | Self::Expire { table, .. }
            | Self::MakeRecoverable { table }
            | Self::Untag { table, .. }
            | Self::Lower { table, .. }
            | Self::PutOnDemand { table }
            | Self::MakeInfrequent { table }
            | Self::Export { table }
            | Self::Delete { table } => table,
        }
    }

    /// What it does, for people.
    pub(super) fn says(&self) -> String {
        match self {
            Self::Create { table, like } => format!("{table}: make it like {like}"),
            Self::Expire { table, attribute } => {
                format!("{table}: let items expire by {attribute}")
            }
            Self::MakeRecoverable { table } => format!("{table}: turn point-in-time recovery on"),
            Self::Untag { table, like } => {
                format!("{table}: it has all that {like} has, so take the tag {LIKE_TAG} off it")
            }
            Self::Lower { table, read_units, write_units } => {
                format!("{table}: lower it to {read_units} read and {write_units} write units")
            }
            Self::PutOnDemand { table } => format!("{table}: put it on demand"),
            Self::MakeInfrequent { table } => format!("{table}: move it to infrequent access"),
            Self::Export { table } => format!("{table}: export it"),
            Self::Delete { table } => format!("{table}: delete it"),
        }
    }
}

/// What a table has yet to get that is made like this one; all, if it is not there yet.
fn completion(table: &str, model: &Member, made: Option<&Member>) -> Vec<Step> {
    let name = || table.to_owned();
    let expires_by = made.and_then(|made| made.expires_by.as_ref());
    let attribute = model.expires_by.clone().filter(|_| expires_by.is_none());
    let is_recoverable = made.map_or(Some(false), |made| made.is_recoverable);
    let is_to_recover = model.is_recoverable == Some(true) && is_recoverable == Some(false);
    let steps = [
        attribute.map(|attribute| Step::Expire { table: name(), attribute }),
        is_to_recover.then(|| Step::MakeRecoverable { table: name() }),
        Some(Step::Untag { table: name(), like: model.table.name.clone() }),
    ];
    steps.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
