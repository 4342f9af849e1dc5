//! Tables.

use super::with_names::with_names;

/// A table of the template.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The logical id, which is also the table's name.
    pub(crate) name: String,
    /// The body of the `CreateTable` request that makes it.
    pub(crate) create_request: serde_json::Value,
    /// Which keys Contributor Insights report; `None` where they are not enabled.
    pub(crate) insights: Option<InsightsMode>,
}

impl Table {
    /// Whether its changes can be read as a stream.
    pub(crate) fn has_stream(&self) -> bool {
        self.create_request.get("StreamSpecification").is_some()
    }
}

with_names! {
    /// Which keys are to be reported (DynamoDB API: `ContributorInsightsMode`).
    pub(crate) enum InsightsMode {
        AccessedAndThrottledKeys = "ACCESSED_AND_THROTTLED_KEYS",
        ThrottledKeys = "THROTTLED_KEYS",
    }
}
