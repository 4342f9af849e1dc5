//! `WriteFunction`: PUT, PATCH and DELETE /item, POST /batch-write.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod handler;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use handler::WriteHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    dynashard_lambda::start(async |config| {
        let (metrics, admission) = (config.metrics(), config.admission.clone());
        let writer = config.connect_writer().await;
        Box::pin(dynashard_lambda::run(WriteHandler::new(writer, admission), metrics)).await
    })
    .await
}
