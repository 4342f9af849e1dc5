//! The write function over tables in memory, from the event to the answer.

mod bad_input;
mod contract;
mod golden;
mod grants;
mod in_body;

use dynashard_core::Writer;

use crate::handler::WriteHandler;
use dynashard_eventkit::World;

fn handler(world: &World) -> WriteHandler {
    WriteHandler::new(Writer::new(world.directory()), world.admission.clone())
}
