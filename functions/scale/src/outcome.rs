//! What Lambda is told of an event.

use dynashard_api::response::Response;
use serde::Serialize;

use crate::capacity::CapacityView;
use crate::report::HeatView;

/// The outcome that Lambda returns. After an alarm, only a person who sends one by hand reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    /// The answer to a request.
    Answered(Response),
    /// What was found throttled, and what was done about it.
    Acted(HeatView),
    /// What was decided about the capacity.
    Decided(CapacityView),
    /// Nothing was done, and why.
    Idle {
        /// A sentence without its full stop.
        nothing_done: String,
    },
    /// A schedule that found an alarm on the capacity raised.
    Swept {
        /// What was done about partitions.
        partitions: Box<Outcome>,
        /// What was decided about the capacity.
        capacity: CapacityView,
    },
}

impl Outcome {
    pub(crate) fn idle(why: impl Into<String>) -> Self {
        Self::Idle { nothing_done: why.into() }
    }
}
