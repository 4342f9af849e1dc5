//! `ScaleFunction`: PUT /collection, POST /collection/scale, and the alarms on throttles.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod capacity;
mod events;
mod handler;
mod report;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use capacity::CapacityEvents;
use dynashard_core::Scaler;
use events::ScaleEvents;
use handler::ScaleHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The future of the connections is large; it should not be copied about on the stack.
    Box::pin(dynashard_lambda::start_with_alarms(async |config| {
        let (main_table, metrics) = (config.main_table.clone(), config.metrics());
        let policy = (config.capacity, config.settings.scaling.mode);
        let (alarms, admission) = (config.capacity_alarms.clone(), config.admission.clone());
        let (heat, directory) = config.connect_to_heat().await?;
        let table = (heat.table_capacity(alarms), directory.clock().clone());
        let requests = ScaleHandler::new(Scaler::new(directory), admission);
        let events = ScaleEvents::new(requests, heat, main_table.clone(), metrics.clone());
        let events = CapacityEvents::new(events, table, main_table, metrics, policy);
        dynashard_lambda::run_events(events).await
    }))
    .await
}
