//! `ScaleFunction`: PUT /collection, POST /collection/scale, and the alarms on throttles.

mod capacity;
mod events;
mod handler;
mod report;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;

use capacity::CapacityEvents;
use dynashard_core::Scaler;
use events::ScaleEvents;
use handler::ScaleHandler;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The future of the connections is large; it should not be copied about on the stack.
    Box::pin(dynashard_lambda::start_with_alarms(async |config| {
        let (main_table, metrics) = (config.main_table.clone(), config.metrics());
        let tracer = config.tracer();
        let policy = (config.capacity, config.settings.scaling.mode);
        let (alarms, admission) = (config.capacity_alarms.clone(), config.admission.clone());
        let (heat, directory) = config.connect_to_heat(&tracer).await?;
        let table = (heat.table_capacity(alarms), Arc::clone(&directory.world().clock));
        let requests = ScaleHandler::new(Scaler::new(directory), admission);
        let events = ScaleEvents::new(requests, heat, main_table.clone(), metrics.clone());
        let events = CapacityEvents::new(events, table, main_table, metrics.clone(), policy);
        dynashard_lambda::run_events(events, metrics, tracer).await
    }))
    .await
}
