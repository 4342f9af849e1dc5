//! `ScaleFunction`: PUT /collection, POST /collection/scale.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod handler;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use dynashard_core::Scaler;
use handler::ScaleHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    dynashard_lambda::start(async |config| {
        let (_, directory) = config.connect().await;
        dynashard_lambda::run(ScaleHandler::new(Scaler::new(directory))).await
    })
    .await
}
