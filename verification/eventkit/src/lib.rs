//! What the tests of the functions share, from the event to the answer.
//!
//! - [`World`] is both tables in memory, and the time. Handlers over one world share its tables.
//! - [`Call`] is a request as API Gateway would send it, and [`Answer`] what Lambda passes on.
//! - [`assert_refused`] sends [`Wrong`] requests, and sees that they cost no write.
//! - [`assert_golden`] compares the answer to every event of a function in `events/` with the file
//!   of the same name in `events/expected/`.
//! - [`assert_granted_keys_alone_are_served`] asks every route for keys of other callers.
//! - [`logged`] is what a function logs meanwhile.
//! - [`assert_damaged_events_are_answered`] damages these events at random.

#![expect(clippy::missing_panics_doc, reason = "a panic is how a test says what is wrong")]

mod answer;
mod call;
mod faults;
mod golden;
mod grants;
mod hostile;
mod logs;
mod world;
mod wrong;

pub use answer::{Answer, MAX_LAMBDA_PAYLOAD_BYTES, SECRET};
pub use call::Call;
pub use faults::{MakeError, MakeFault, STACK_FAULTS, UNKNOWN_OUTCOMES, unreachable_table};
pub use golden::{Given, assert_golden, event, event_files};
pub use grants::assert_granted_keys_alone_are_served;
pub use hostile::{assert_damaged_events_are_answered, damaged_events};
pub use logs::{digests, logged};
pub use world::{FLIGHT, OLD_ETAG, OLD_VERSION, Snapshot, Store, World};
pub use wrong::{Wrong, assert_malformed_events_are_refused, assert_refused};
