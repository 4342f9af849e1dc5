//! What comes of throttles of a managed table, as the endpoint counts and logs it.

use std::sync::Arc;

use dynashard_core::{Decision, Error, Outcome, Telemetry};
use dynashard_keys::PartitionKey;

use crate::metrics::Metrics;

/// Counts and logs what is decided about the collections of one table. No line names a key: `dynashard decisions` does.
pub(crate) struct TableTelemetry {
    table: String,
    metrics: Arc<Metrics>,
}

impl TableTelemetry {
    pub(crate) fn new(table: &str, metrics: &Arc<Metrics>) -> Self {
        Self { table: table.to_owned(), metrics: Arc::clone(metrics) }
    }
}

impl Telemetry for TableTelemetry {
    fn decided(&self, decision: &Decision, outcome: Outcome) {
        self.metrics.count_decision(&self.table, decision, outcome);
        let (table, outcome, reason) = (&self.table, outcome.as_str(), decision.to_string());
        let (diagnosis, action) = (decision.code(), decision.action.as_str());
        tracing::info!(
            table,
            diagnosis,
            action,
            outcome,
            reason,
            "decided on the shards of a collection"
        );
    }

    fn failed(&self, _: &PartitionKey, error: &Error) {
        let (table, code) = (&self.table, error.code().as_str());
        self.metrics.count_failure(table, code);
        tracing::error!(
            table,
            code,
            detail = without_keys(error.message()),
            "reporting or deciding on a collection's load failed"
        );
    }

    fn ledger_damaged(&self, _: &PartitionKey, figures: usize) {
        let table = &self.table;
        tracing::warn!(
            table,
            figures,
            "a ledger holds figures that nobody has written so, or that are from the future: growth ignores them, and the \
             collection does not shrink until the item is deleted"
        );
    }
}

/// The beginning of a sentence, up to what it quotes: keys stand in quotation marks.
fn without_keys(message: &str) -> &str {
    message.split('"').next().unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_nothing_that_is_quoted() {
        let message = r#"the metadata item of "EWR" is damaged: "a\"b""#;
        assert_eq!(without_keys(message), "the metadata item of");
        assert_eq!(without_keys("AccessDeniedException: no"), "AccessDeniedException: no");
    }
}
