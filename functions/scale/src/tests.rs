//! The scale function over tables in memory, from the event to the answer.

mod alarms;
mod bad_input;
mod capacity;
mod contract;
mod golden;
mod grants;
mod hostile;
mod logs;

use std::time::Duration;

use dynashard_core::ports::Clock;
use dynashard_core::{CapacityPolicy, CapacityScaling, CapacityUnits, Deadline, Scaler, Settings};
use dynashard_lambda::Event;
use dynashard_lambda::metrics::Metrics;
use dynashard_testkit::{MemoryCapacity, MemoryHeat, Output, block_on};
use serde_json::{Value, json};

use crate::capacity::Capacity;
use crate::handler::ScaleHandler;
use crate::requests::Requests;
use dynashard_eventkit::World;

/// The main table of the events.
const MAIN_TABLE: &str = "dynashard-MainTable-1PH9Q3ZV0XK2S";

fn handler(world: &World) -> Requests {
    Requests::new(Scaler::new(world.directory()), world.admission.clone())
}

/// All counters of what a function printed together, by name.
fn counted(output: &Output) -> Value {
    let mut counted = json!({});
    for line in output.text().lines() {
        let line = serde_json::from_str::<Value>(line).expect("a line of JSON");
        let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array();
        for metric in metrics.expect("metrics") {
            let name = metric["Name"].as_str().expect("a name");
            let times = counted[name].as_u64().unwrap_or(0);
            counted[name] = json!(times + line[name].as_u64().expect("a count"));
        }
    }
    counted
}

/// The function raises the capacity up to this.
const CAPACITY: CapacityPolicy = CapacityPolicy {
    scaling: CapacityScaling::Function,
    most: CapacityUnits { reads: 300, writes: 400 },
};

type Events = ScaleHandler<MemoryHeat, MemoryCapacity>;

fn events(world: &World, output: Output) -> Events {
    let mode = world.directory().settings().scaling.mode;
    let metrics = Metrics::to("scale".to_owned(), output);
    let (table, policy) = (world.capacity.clone(), CAPACITY);
    let capacity = Capacity { table, policy, mode, metrics: metrics.clone() };
    ScaleHandler::new(handler(world), world.heat.clone(), capacity, MAIN_TABLE.to_owned(), metrics)
}

/// What Lambda is told of an event, and what is counted.
fn handle(world: &World, event: &str) -> (Result<Value, String>, Value) {
    let output = Output::default();
    let events = events(world, output.clone());
    let deadline = Deadline::after(events.now(), Duration::from_secs(50));
    let outcome = block_on(events.handle(Event::parse(event), "request-1", deadline));
    let outcome = outcome.map(|outcome| serde_json::to_value(outcome).expect("JSON"));
    (outcome.map_err(|error| error.to_string()), counted(&output))
}

/// What Lambda is told as the files under `expected` have it.
fn outcome(world: &World, event: &str) -> Value {
    let mut outcome = handle(world, event).0.expect("an outcome");
    let Some(status) = outcome.get("statusCode").cloned() else { return outcome };
    let body = outcome["body"].as_str().expect("a body");
    let body = serde_json::from_str::<Value>(body).expect("a body in JSON");
    json!({ "statusCode": status, "headers": outcome["headers"].take(), "body": body })
}

/// A world in which these physical keys were throttled half a minute ago, and the alarm is raised.
fn hot(keys: &[&str]) -> World {
    let world = World::new(Settings::default());
    heat(&world, keys);
    world
}

fn heat(world: &World, keys: &[&str]) {
    // Long enough for leases on what a test sets up to have ended.
    world.clock.advance(Duration::from_mins(2));
    let throttled_secs = world.clock.now().epoch_secs() - 30;
    for key in keys {
        // 400 a second, of a report by the minute.
        world.heat.throttle(key, throttled_secs, 24_000.0);
    }
    world.heat.raise();
}
