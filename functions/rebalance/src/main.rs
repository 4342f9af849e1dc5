//! `RebalanceFunction`: carries changes of shard counts to their end.
//!
//! The metadata table's stream starts it for a collection, and a schedule sweeps up what the stream
//! did not bring.

mod handler;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use dynashard_core::Rebalancer;
use handler::RebalanceHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    dynashard_lambda::start(async |config| {
        let (metrics, tracer) = (config.metrics(), config.tracer());
        let directory = config.connect(&tracer).await;
        let handler = RebalanceHandler::new(Rebalancer::new(directory), metrics.clone());
        dynashard_lambda::run_events(handler, metrics, tracer).await
    })
    .await
}
