//! The read function over tables in memory, from the event to the answer.

mod bad_input;
mod contract;
mod fields;
mod fuzz;
mod golden;

use dynashard_core::Reader;
use dynashard_testkit::{ManualClock, SeededEntropy};

use crate::handler::ReadHandler;
use dynashard_eventkit::{Store, World};

fn handler(world: &World) -> ReadHandler<Store, Store, ManualClock, SeededEntropy> {
    ReadHandler::new(Reader::new(world.store.clone(), world.directory()))
}
