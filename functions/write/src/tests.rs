//! The write function over tables in memory, from the event to the answer.

mod bad_input;
mod contract;
mod golden;
#[path = "../../../events/harness.rs"]
#[allow(dead_code, reason = "the functions share the harness, and none needs all of it")]
mod harness;
mod hostile;

use dynashard_core::Writer;
use dynashard_testkit::{ManualClock, SeededEntropy};

use crate::handler::WriteHandler;
use harness::{Store, World};

fn handler(world: &World) -> WriteHandler<Store, Store, ManualClock, SeededEntropy> {
    WriteHandler::new(Writer::new(world.store.clone(), world.directory()))
}
