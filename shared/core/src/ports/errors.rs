//! What can go wrong with a request.

use crate::model::item::StoredItem;
use crate::model::throttle::Throttle;

/// What can go wrong with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreError {
    /// The condition did not hold, and nothing was written. What was there comes with it.
    ConditionFailed {
        /// What was there; `None` for nothing, and for metadata items.
        existing: Option<Box<StoredItem>>,
    },
    /// A limit was hit, and nothing was written.
    Throttled(Throttle),
    /// A transaction on the same item was running, and nothing was written.
    Conflict,
    /// The lease had run out when the request was about to be sent, so it was not.
    LeaseExpired,
    /// DynamoDB refused the request as wrong, and nothing was written.
    Rejected(String),
    /// It could not be answered, and it certainly wrote nothing: a read, or never sent.
    Unavailable(String),
    /// It may have been, or may yet be, carried out.
    OutcomeUnknown(String),
    /// What was read breaks a rule of the data model; it says which field of what.
    Corrupt(String),
    /// A missing table or permission: the stack is set up wrongly.
    Misconfigured(String),
}
