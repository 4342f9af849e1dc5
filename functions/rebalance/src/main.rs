//! `RebalanceFunction`: carries changes of shard counts to their end.
//!
//! The metadata table's stream starts it for a collection, and a schedule sweeps up what the stream
//! did not bring.

mod handler;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use dynashard_core::Rebalancer;
use dynashard_lambda::Invocation;
use handler::RebalanceHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    dynashard_lambda::start(async |config| {
        let metrics = config.metrics();
        let directory = config.connect().await;
        let handler = RebalanceHandler::new(Rebalancer::new(directory), metrics);
        dynashard_lambda::serve(async move |event, invocation: Invocation| {
            handler.handle(event, invocation.deadline(handler.now())).await
        })
        .await
    })
    .await
}
