//! The use cases over memory stores, with faults, on a manual clock.

mod batch;
mod cursors;
mod directory;
mod growth;
mod heat;
mod model;
mod query;
mod reader;
mod reshard;
mod scaler;
mod verify;
mod world;
mod writer;
