//! Faults that stores have, with what a client may be told of each.

use dynashard_core::ports::StoreError;
use dynashard_testkit::Fault;

use crate::SECRET;

/// Makes the error of a store from what it would write to the log.
pub type MakeError = fn(String) -> StoreError;

/// What no client can help, and its code.
pub const STACK_FAULTS: [(&str, MakeError); 3] = [
    ("corrupt_data", StoreError::Corrupt),
    ("internal", StoreError::Misconfigured),
    ("request_rejected", StoreError::Rejected),
];

/// Makes a fault. A fault is used up by the request that suffers it.
pub type MakeFault = fn() -> Fault;

/// The ways in which the fate of a write stays unknown.
pub const UNKNOWN_OUTCOMES: [(&str, MakeFault); 3] = [
    ("answered with an error", || {
        Fault::ExecuteThen(StoreError::OutcomeUnknown(SECRET.to_owned()))
    }),
    ("lost", || Fault::Lose),
    ("carried out and not answered", || Fault::ExecuteUnanswered),
];

/// A table that cannot be reached.
pub fn unreachable_table() -> Fault {
    Fault::Refuse(StoreError::Unavailable(SECRET.to_owned()))
}
