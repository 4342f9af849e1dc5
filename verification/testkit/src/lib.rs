//! What the tests of dynashard stand on.
//!
//! - [`MemoryStore`] holds both tables in memory and behaves as DynamoDB does, [`Faulty`] makes any
//!   store fail as DynamoDB can, [`ManualClock`] and [`SeededEntropy`] are time and chance.
//! - [`MemoryHeat`] counts throttles and holds an alarm, as CloudWatch does, and [`MemoryCapacity`] is
//!   the capacity of a table with its metrics.
//! - [`fuzz`] runs a test on many inputs that [`Random`] damages.
//! - [`Output`] keeps what is printed.
//! - [`block_on`] runs a use case over them. Nothing in it ever waits, so a test takes no real
//!   time, and a future that hangs fails its test at once.
//! - [`contract`] is what every store must do, as tests over the ports.

mod capacity;
mod clock;
pub mod contract;
mod entropy;
mod executor;
mod faults;
mod fuzz;
mod heat;
mod indexes;
mod memory;
mod output;
mod records;

pub use capacity::MemoryCapacity;
pub use clock::ManualClock;
pub use contract::{beginning, ending, enlist, enlisting};
pub use entropy::SeededEntropy;
pub use executor::block_on;
pub use faults::{Fault, Faulty, Operation};
pub use fuzz::{Random, fuzz};
pub use heat::MemoryHeat;
pub use memory::{MemoryStore, Requests, hashes_beside, page};
pub use output::Output;
pub use records::Records;
