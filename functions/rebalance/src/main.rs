//! `RebalanceFunction`: carries changes of shard counts to their end.
//!
//! The metadata table's stream starts it for a collection, and a schedule sweeps up what the stream
//! did not bring.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

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
        let (items, directory) = config.connect().await;
        let handler = RebalanceHandler::new(Rebalancer::new(items, directory), metrics);
        dynashard_lambda::serve(async move |event, invocation: Invocation| {
            handler.handle(event, invocation.deadline(handler.now())).await
        })
        .await
    })
    .await
}
