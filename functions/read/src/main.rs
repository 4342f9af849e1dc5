//! `ReadFunction`: GET /item, POST /batch-get, GET and POST /query, GET /collection.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod handler;
#[cfg(test)]
mod tests;

use dynashard_core::Reader;
use dynashard_lambda::Config;
use handler::ReadHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    let config = Config::from_variables(|name| std::env::var(name).ok())?;
    let (items, directory) = config.connect().await;
    dynashard_lambda::run(ReadHandler::new(Reader::new(items, directory))).await
}
