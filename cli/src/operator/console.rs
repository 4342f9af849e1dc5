//! The tables of `dynashard console`: those of the other commands, and what CloudWatch counts of them.

use dynashard_aws_operator::is_on_this_machine;
use dynashard_console::{Tables, UsagePace};

use super::Failure;
use super::connect::ConnectArgs;
use crate::console::Found;

/// Where the tables are, and who counts what they consume.
#[derive(Debug, clap::Args)]
pub(crate) struct ConsoleConnectArgs {
    /// Ask this server in place of CloudWatch, as in `http://127.0.0.1:9002`. With --endpoint-url and without this the
    /// page shows neither throttles by reason nor costs.
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    cloudwatch_url: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl ConsoleConnectArgs {
    /// The tables, as the page reads them.
    pub(crate) async fn tables(&self, allows_changes: bool) -> Result<Tables, Failure> {
        let mut connection = self.connect.connect().await?;
        let mut pins = None;
        if allows_changes {
            let pinned = Box::pin(connection.until_pinned()).await?;
            pins = Some(pinned.pins());
            connection = pinned.into_inner();
        }
        let tables = connection.measured().await;
        // Whatever is elsewhere may be CloudWatch by another name, which is paid for.
        let is_local = self.cloudwatch_url.as_deref().is_some_and(is_of_this_machine);
        let pace = if is_local { UsagePace::LOCAL } else { UsagePace::AWS };
        let pace = UsagePace { moves_are_known: tables.rebalance_function.is_some(), ..pace };
        // A server that stands in for DynamoDB need not stand in for CloudWatch.
        let is_asked = self.cloudwatch_url.is_some() || self.connect.caller.endpoint_url.is_none();
        let operator = connection.place.operator.clone();
        let name = connection.stack_name.as_deref().unwrap_or_else(|| &connection.place.main_table);
        let found = Found {
            place: format!("{name}, {}", operator.place()),
            operator,
            tables,
            settings: connection.place.settings.clone(),
            pins,
            usage: is_asked.then(|| (self.cloudwatch_url.clone(), pace)),
        };
        Ok(found.tables())
    }
}

/// Whether a URL leads to this machine.
fn is_of_this_machine(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    uri.and_then(|uri| uri.authority().map(|at| is_on_this_machine(at.as_str()))).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_cloudwatch_by_another_name_was_asked_each_two_seconds() {
        assert!(is_of_this_machine("http://127.0.0.1:9002"));
        assert!(is_of_this_machine("http://localhost:9002/"));
        assert!(!is_of_this_machine("https://monitoring.eu-central-1.amazonaws.com"));
    }
}
