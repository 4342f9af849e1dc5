//! `ReadFunction`: GET and HEAD /item, POST /item/get and /batch-get, GET and POST /query, GET /collection.

mod handler;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use handler::ReadHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    dynashard_lambda::start(async |config| {
        let metrics = config.metrics();
        let admission = config.admission.clone();
        // The SDK's futures are large.
        let reader = Box::pin(config.connect_reader()).await;
        let handler = ReadHandler::new(reader, admission);
        Box::pin(dynashard_lambda::serve_requests(handler, metrics)).await
    })
    .await
}
