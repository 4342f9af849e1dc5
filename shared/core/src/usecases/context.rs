//! What every use case stands on: the world and the settings.

use std::sync::Arc;

use crate::model::lease::{Deadline, Moment};
use crate::model::settings::Settings;
use crate::ports::{Clock, Entropy, ItemStore, RecordStore, World};
use crate::usecases::retry::Attempts;

/// The world of a stack, with its settings. Clones share it.
#[derive(Clone)]
pub struct Context {
    world: World,
    settings: Arc<Settings>,
}

impl Context {
    /// This world under these settings.
    pub fn new(world: World, settings: Settings) -> Self {
        Self { world, settings: Arc::new(settings) }
    }

    /// The settings of the stack.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.world.clock
    }

    /// The time, for the deadlines of requests.
    pub fn now(&self) -> Moment {
        self.clock().now()
    }

    /// Chance.
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.world.entropy
    }

    /// The main table.
    pub(crate) fn items(&self) -> &dyn ItemStore {
        &*self.world.items
    }

    /// The metadata table.
    pub(crate) fn record_store(&self) -> &dyn RecordStore {
        &*self.world.records
    }

    /// A series of attempts until `deadline`.
    pub(crate) fn attempts(&self, deadline: Deadline) -> Attempts<'_> {
        Attempts::new(self.clock(), self.entropy(), deadline)
    }
}
