use std::collections::BTreeMap;
use std::io;

use dynashard_aws::OsEntropy;
use dynashard_aws_operator::{MeasuredTables, Operator, ReadMeter};
use dynashard_console::{Console, Options, Tables, Trouble, UsagePace};
use dynashard_core::{Reader, Scaler};
use dynashard_local::Stack;
use tokio::net::TcpListener;

use super::stores::{only_looking, prices};
use crate::operator::settings_of;

/// Serves the console of a stack on this machine.
pub(crate) fn console_of_stack(
    listener: TcpListener,
    stack: &Stack,
    options: Options,
) -> io::Result<Console> {
    let place = Place {
        dynamodb: stack.endpoints().dynamodb.clone(),
        cloudwatch: stack.endpoints().cloudwatch.clone(),
        parameters: stack.parameters().clone(),
    };
    let place = std::sync::Arc::new(place);
    Console::serve(listener, options, &OsEntropy, move || {
        let place = std::sync::Arc::clone(&place);
        async move { place.tables(options.allows_changes).await }
    })
}

struct Place {
    dynamodb: String,
    cloudwatch: String,
    parameters: BTreeMap<String, String>,
}

impl Place {
    async fn tables(&self, allows_changes: bool) -> Result<Tables, Trouble> {
        let settings = settings_of(&self.parameters).map_err(|why| {
            Trouble::new("connection_failed", format!("{why}; is it dynashard's template?"))
        })?;
        let existing = self.parameters.get("ExistingMainTable").filter(|name| !name.is_empty());
        let main = existing.cloned().unwrap_or_else(|| "MainTable".to_owned());
        let metadata = "MetadataTable".to_owned();
        let (watched, asked) = (ReadMeter::default(), ReadMeter::default());
        let operator = Operator::on_this_machine(&self.dynamodb).await;
        let watching = operator.metered(&watched);
        let operator = operator.metered(&asked);
        let reader = |operator: &Operator| {
            Reader::new(operator.directory(&main, &metadata, only_looking(settings.clone())))
        };
        // All settings are those of the stack, so they may be pinned here.
        let scaler = allows_changes
            .then(|| Scaler::new(operator.directory(&main, &metadata, settings.clone()).pinning()));
        let measured = MeasuredTables {
            main: main.clone(),
            metadata: metadata.clone(),
            rebalance_function: Some("RebalanceFunction".to_owned()),
        };
        Ok(Tables {
            place: format!("local stack at {}", self.dynamodb),
            scaling: settings.scaling.mode,
            reader: reader(&operator),
            watcher: reader(&watching),
            scaler,
            usage: Some((
                Box::new(operator.usage(Some(&self.cloudwatch), measured)),
                UsagePace::LOCAL,
            )),
            watched_rcu: Box::new(move || watched.consumed_rcu()),
            asked_rcu: Box::new(move || asked.consumed_rcu()),
            prices: prices(),
        })
    }
}
