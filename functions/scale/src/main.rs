//! `ScaleFunction`: PUT /collection, POST /collection/scale, and the alarms on throttles.

mod capacity;
mod handler;
mod outcome;
mod partitions;
mod report;
mod requests;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use capacity::Capacity;
use dynashard_core::Scaler;
use dynashard_lambda::Invocation;
use handler::ScaleHandler;
use requests::Requests;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The future of the connections is large; it should not be copied about on the stack.
    Box::pin(dynashard_lambda::start_with_alarms(async |config| {
        let (main_table, metrics) = (config.main_table.clone(), config.metrics());
        let (policy, mode) = (config.capacity, config.settings.scaling.mode);
        let (alarms, admission) = (config.capacity_alarms.clone(), config.admission.clone());
        let (heat, directory) = config.connect_to_heat().await?;
        let capacity =
            Capacity { table: heat.table_capacity(alarms), policy, mode, metrics: metrics.clone() };
        let requests = Requests::new(Scaler::new(directory), admission);
        let handler = ScaleHandler::new(requests, heat, capacity, main_table, metrics);
        dynashard_lambda::serve(async move |event, invocation: Invocation| {
            let deadline = invocation.deadline(handler.now());
            Box::pin(handler.handle(event, &invocation.request_id, deadline)).await
        })
        .await
    }))
    .await
}
