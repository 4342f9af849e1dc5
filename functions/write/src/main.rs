//! `WriteFunction`: PUT, PATCH and DELETE /item, POST /item/put, /item/patch, /item/delete and /batch-write.

mod handler;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use handler::WriteHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The future of the connections is large; it should not be copied about on the stack.
    Box::pin(dynashard_lambda::start(async |config| {
        let metrics = config.metrics();
        let admission = config.admission.clone();
        let writer = config.connect_writer().await;
        let handler = WriteHandler::new(writer, admission);
        Box::pin(dynashard_lambda::serve_requests(handler, metrics)).await
    }))
    .await
}
