//! `ReadFunction`: GET /item, POST /batch-get, GET and POST /query, GET /collection.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod handler;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use handler::ReadHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    dynashard_lambda::start(async |config| {
        let (metrics, admission) = (config.metrics(), config.admission.clone());
        let reader = config.connect_reader().await;
        Box::pin(dynashard_lambda::run(ReadHandler::new(reader, admission), metrics)).await
    })
    .await
}
