//! Changes of pinned settings.

use std::time::Duration;

use crate::model::directory_item::DirectoryItem;
use crate::model::error::{Code, Error};
use crate::model::lease::Deadline;
use crate::model::pinned::{ChangeableSetting, Pinned};
use crate::ports::{Change, Dated, ReadRecords};
use crate::usecases::context::Context;
use crate::usecases::records::{Records, Revision};

/// For how many times T' the longer of two values is waited for after only the shorter one is accepted:
/// whoever has the longer one may stand on the directory for one, and on metadata of which it took a
/// lease at its end for another.
const TERMS: u32 = 2;

/// A change of a pinned setting that an operator has asked for (protocol: "Pinned settings").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsChange {
    /// What changes.
    pub setting: ChangeableSetting,
    /// The value that it is to have.
    pub value: Duration,
}

/// The settings that are pinned in the directory item.
#[derive(Clone, Copy)]
pub struct PinnedSettings<'a> {
    context: &'a Context,
}

impl<'a> PinnedSettings<'a> {
    pub(super) fn of(context: &'a Context) -> Self {
        Self { context }
    }

    /// What is pinned now, whether this directory's own settings differ or not.
    ///
    /// Settings of a format that this software does not know are an error.
    pub async fn read(self, deadline: Deadline) -> Result<Option<Pinned>, Error> {
        let read = || self.context.record_store().get::<DirectoryItem>(&());
        let why = "the directory could not be read in time";
        let Dated { value, .. } = self.context.attempts(deadline).make(read, why).await?;
        let pinned = value.and_then(|item| item.pinned);
        pinned.map(|pinned| pinned.check_format().map(|()| pinned)).transpose()
    }

    /// The first step: functions may be set to the new value as well. From now on all waits go by the
    /// longer of the two.
    pub async fn announce(
        self,
        change: SettingsChange,
        deadline: Deadline,
    ) -> Result<Pinned, Error> {
        let SettingsChange { setting, value } = change;
        let accept = |pinned: &Pinned| {
            let time = pinned.time(setting);
            if let Some(next) = time.next.filter(|next| ![*next, time.accepted].contains(&value)) {
                let (name, from, to) =
                    (setting.parameter(), time.accepted.as_secs(), next.as_secs());
                let why = format!(
                    "{name} is being changed from {from} to {to}: complete that first, or cancel it with {name}={from}"
                );
                return Err(Error::new(Code::SettingsMismatch, why));
            }
            // Taking back is ended like any other change: the new value may be in use.
            let is_on_the_way = time.next.is_some();
            Ok(if is_on_the_way {
                pinned.clone()
            } else {
                pinned.with(setting, time.accepting(value))
            })
        };
        self.change(accept, deadline).await
    }

    /// The second and the third step, when all functions are set to the new value: only that is accepted,
    /// and when nobody can be acting under a longer one, nothing waits for that any more. It takes twice T',
    /// and may be begun again if it was interrupted.
    pub async fn complete(
        self,
        change: SettingsChange,
        deadline: Deadline,
    ) -> Result<Pinned, Error> {
        let SettingsChange { setting, value } = change;
        let accept_only = |pinned: &Pinned| {
            let time = pinned.time(setting);
            if !time.accepts(value) {
                let why = format!(
                    "{} is pinned to {}; no change to {} was started: start it first",
                    setting.parameter(),
                    time.accepted.as_secs(),
                    value.as_secs(),
                );
                return Err(Error::new(Code::SettingsMismatch, why));
            }
            Ok(pinned.with(setting, time.accepting_only(value)))
        };
        loop {
            let left = self.change(accept_only, deadline).await?;
            if left.time(setting).longest == value {
                return Ok(left);
            }
            let wait = left.waits().leases_end * TERMS;
            if wait > deadline.remaining(self.context.clock().now()) {
                let why = format!(
                    "the change needs {} more seconds: run the same command again",
                    wait.as_secs()
                );
                return Err(Error::new(Code::DeadlineExceeded, why));
            }
            self.context.clock().sleep(wait).await;
            let come_to_rest = |pinned: &Pinned| {
                let time = pinned.time(setting);
                if time.accepted != value || time.next.is_some() {
                    let name = setting.parameter();
                    let why = format!("{name} was changed by somebody else meanwhile");
                    return Err(Error::new(Code::SettingsMismatch, why));
                }
                // It may have been changed there and back, so it has to be waited for anew.
                let is_as_left = pinned.revision == left.revision;
                let next = if is_as_left { time.at_rest() } else { time };
                Ok(pinned.with(setting, next))
            };
            let rested = self.change(come_to_rest, deadline).await?;
            if rested.time(setting).longest == value {
                return Ok(rested);
            }
        }
    }

    /// Changes what is pinned, if it changes, whether this stack's own settings differ or not.
    async fn change(
        self,
        change: impl Fn(&Pinned) -> Result<Pinned, Error>,
        deadline: Deadline,
    ) -> Result<Pinned, Error> {
        let revision = |item: Option<DirectoryItem>| {
            let item = item.unwrap_or_default();
            let pinned = item.pinned.as_ref().ok_or_else(nothing_is_pinned)?;
            pinned.check_format()?;
            let next = change(pinned)?;
            if next == *pinned {
                return Ok(Revision::Keep(next));
            }
            let next = Pinned { revision: pinned.revision + 1, ..next };
            let change = Change::of_directory(&item, item.with_pinned(next.clone()));
            Ok(Revision::commit(change, next))
        };
        // Other collections are enlisted meanwhile.
        let contended = "the directory kept changing; ask again";
        Records::of(self.context).revise(&(), revision, contended, deadline).await
    }
}

fn nothing_is_pinned() -> Error {
    let why = "no settings are pinned yet: the stack's functions do that with the first write, or within a \
               minute of their deployment";
    Error::new(Code::SettingsMismatch, why)
}
