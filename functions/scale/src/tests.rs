//! The scale function over tables in memory, from the event to the answer.

mod bad_input;
mod contract;
mod golden;
#[path = "../../../events/harness.rs"]
#[allow(dead_code, reason = "the functions share the harness, and none needs all of it")]
mod harness;
mod hostile;

use dynashard_core::Scaler;
use dynashard_testing::{ManualClock, SeededEntropy};

use crate::handler::ScaleHandler;
use harness::{Store, World};

fn handler(world: &World) -> ScaleHandler<Store, ManualClock, SeededEntropy> {
    ScaleHandler::new(Scaler::new(world.directory()))
}
