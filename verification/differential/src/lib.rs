//! The differential test of an endpoint that speaks DynamoDB's wire protocol in front of a managed table.
//!
//! A seed makes a program of operations ([`program`]). It goes to the plain engine and to another side, and the answers
//! must be equal to the letter, but for what a row of [`DIFFERENCES`] permits, which are what docs/COMPATIBILITY.md lists.
//!
//! - `generate` draws programs, `table` is what they work on, `side` is who answers, as `endpoint` does, and `moving` reshards
//!   what it answers from.
//! - `run` puts both answers side by side (`exchange`), and `differences` says what may differ.
//! - `minimise` makes a program that fails smaller.
//! - `mutations` are sides with a fault, which programs must find: the test of the test.

mod differences;
mod endpoint;
mod exchange;
mod generate;
mod minimise;
mod moving;
mod mutations;
mod program;
mod random;
mod run;
mod side;
mod table;

pub use differences::{DIFFERENCES, Difference, page};
pub use endpoint::Endpoint;
pub use exchange::Exchange;
pub use generate::program;
pub use minimise::minimise;
pub use mutations::{Mutation, Sketch};
pub use program::{Program, Step, Turn};
pub use run::{Count, Failure, Sides, Tally, run};
pub use side::{Answer, Engine, Setting, Side};
pub use table::{GLOBAL_INDEX, LOCAL_INDEX, PARTITIONS, SORTS, TABLE, create_request};
