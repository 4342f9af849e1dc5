//! The read function over tables in memory, from the event to the answer.

mod bad_input;
mod contract;
mod fields;
mod fuzz;
mod golden;
#[path = "../../../events/harness.rs"]
#[allow(dead_code, reason = "the functions share the harness, and none needs all of it")]
mod harness;
mod hostile;

use dynashard_core::Reader;
use dynashard_testkit::{ManualClock, SeededEntropy};

use crate::handler::ReadHandler;
use harness::{Store, World};

fn handler(world: &World) -> ReadHandler<Store, Store, ManualClock, SeededEntropy> {
    ReadHandler::new(Reader::new(world.store.clone(), world.directory()))
}
