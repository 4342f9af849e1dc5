//! Tables.

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

/// Which keys are to be reported (DynamoDB API: `ContributorInsightsMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsightsMode {
    AccessedAndThrottledKeys,
    ThrottledKeys,
}

impl InsightsMode {
    pub(crate) const ALL: [Self; 2] = [Self::AccessedAndThrottledKeys, Self::ThrottledKeys];

    /// The mode of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::AccessedAndThrottledKeys => "ACCESSED_AND_THROTTLED_KEYS",
            Self::ThrottledKeys => "THROTTLED_KEYS",
        }
    }
}
