//! `ScaleFunction`: PUT /collection, POST /collection/scale, and the alarm on write throttles.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod events;
mod handler;
mod report;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use dynashard_core::Scaler;
use events::ScaleEvents;
use handler::ScaleHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    dynashard_lambda::start(async |config| {
        let (main_table, metrics) = (config.main_table.clone(), config.metrics());
        let (heat, directory) = config.connect_to_heat().await?;
        let requests = ScaleHandler::new(Scaler::new(directory));
        dynashard_lambda::run_events(ScaleEvents::new(requests, heat, main_table, metrics)).await
    })
    .await
}
