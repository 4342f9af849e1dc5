//! The use cases over memory stores, with faults, on a manual clock.

mod batch;
mod capacity;
mod cursors;
mod damage;
mod directory;
mod fleet;
mod fuzz;
mod growth;
mod heat;
mod held;
mod look;
mod model;
mod mover;
mod native;
mod observe;
mod query;
mod reader;
mod reshard;
mod scaler;
mod segments;
mod settings;
mod ttl;
mod unmovable;
mod verify;
mod world;
mod writer;
