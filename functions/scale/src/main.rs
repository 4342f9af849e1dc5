//! `ScaleFunction`: PUT /collection, POST /collection/scale.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod handler;
#[cfg(test)]
mod tests;

use dynashard_core::Scaler;
use dynashard_lambda::Config;
use handler::ScaleHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    let config = Config::from_variables(|name| std::env::var(name).ok())?;
    let (_, directory) = config.connect().await;
    dynashard_lambda::run(ScaleHandler::new(Scaler::new(directory))).await
}
