//! The write function over tables in memory, from the event to the answer.

mod bad_input;
mod contract;
mod golden;
mod grants;
mod in_body;

use dynashard_core::Writer;
use dynashard_testkit::{ManualClock, SeededEntropy};

use crate::handler::WriteHandler;
use dynashard_eventkit::{Store, World};

fn handler(world: &World) -> WriteHandler<Store, Store, ManualClock, SeededEntropy> {
    WriteHandler::new(Writer::new(world.directory()), world.admission.clone())
}
