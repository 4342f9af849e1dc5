//! `dynashard console` for a stack that is deployed.

use std::collections::BTreeMap;
use std::io;

use dynashard_aws::OsEntropy;
use dynashard_aws_operator::{MeasuredTables, Operator};
use dynashard_console::{Console, Options, Trouble, UsagePace};
use dynashard_core::{Replica, Settings};
use dynashard_local::Stack;
use tokio::net::TcpListener;

use super::found::Found;
use crate::operator::settings_of;

/// Serves the console of a stack on this machine.
pub(crate) fn console_of_stack(
    listener: TcpListener,
    stack: &Stack,
    options: Options,
) -> io::Result<Console> {
    let (endpoints, parameters) = (stack.endpoints(), stack.parameters());
    let (dynamodb, cloudwatch) = (endpoints.dynamodb.clone(), endpoints.cloudwatch.clone());
    let settings = settings_of(parameters);
    let existing = parameters.get("ExistingMainTable").filter(|name| !name.is_empty());
    let tables = MeasuredTables {
        main: existing.cloned().unwrap_or_else(|| "MainTable".to_owned()),
        main_indexes: indexes_of(parameters, settings.as_ref().ok()),
        metadata: "MetadataTable".to_owned(),
        rebalance_function: Some("RebalanceFunction".to_owned()),
    };
    Console::serve(listener, options, &OsEntropy, move || {
        let (dynamodb, cloudwatch) = (dynamodb.clone(), cloudwatch.clone());
        let (settings, tables) = (settings.clone(), tables.clone());
        async move {
            let settings = settings.map_err(|why| {
                Trouble::new("connection_failed", format!("{why}; is it dynashard's template?"))
            })?;
            let found = Found {
                place: format!("local stack at {dynamodb}"),
                operator: Operator::on_this_machine(&dynamodb).await,
                tables,
                settings,
                // All settings are those of the stack, so they may be pinned here.
                pins: options.allows_changes.then_some(true),
                usage: Some((Some(cloudwatch), UsagePace::LOCAL)),
            };
            Ok(found.tables())
        }
    })
}

/// The indexes that the stack makes. A request of the console's own would be counted among those of the application.
fn indexes_of(parameters: &BTreeMap<String, String>, settings: Option<&Settings>) -> Vec<String> {
    let replicas = Replica::first(settings.map_or(0, |settings| settings.read_replicas));
    let named = ["FirstIndexName", "SecondIndexName"];
    let named = named.iter().filter_map(|name| parameters.get(*name));
    let named = named.filter(|name| !name.is_empty()).cloned();
    replicas.map(|replica| replica.to_string()).chain(named).collect()
}
