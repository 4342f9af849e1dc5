//! The tables of `dynashard console`: those of the other commands, and what CloudWatch counts of them.

use dynashard_aws_operator::{ReadMeter, is_on_this_machine};
use dynashard_console::{Prices, Tables, UsagePace};
use dynashard_core::Scaler;
use dynashard_core::ports::UsageSource;

use super::Failure;
use super::connect::ConnectArgs;
use crate::console::only_looking;

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
    pub(crate) async fn tables(
        &self,
        allows_changes: bool,
        prices: Option<Prices>,
    ) -> Result<Tables, Failure> {
        let (watched, asked) = (ReadMeter::default(), ReadMeter::default());
        let mut connection = self.connect.connect().await?;
        let mut scaler = None;
        if allows_changes {
            let pinned = Box::pin(connection.until_pinned()).await?.metered(&asked);
            scaler = Some(Scaler::new(pinned.writing_directory()));
            connection = pinned.into_inner();
        }
        let watching = connection.metered(&watched);
        let connection = connection.metered(&asked);
        let settings = connection.settings();
        let measured = connection.measured();
        // Whatever is elsewhere may be CloudWatch by another name, which is paid for.
        let is_local = self.cloudwatch_url.as_deref().is_some_and(is_of_this_machine);
        let pace = if is_local { UsagePace::LOCAL } else { UsagePace::AWS };
        let pace = UsagePace { moves_are_known: measured.rebalance_function.is_some(), ..pace };
        // A server that stands in for DynamoDB need not stand in for CloudWatch.
        let is_asked = self.cloudwatch_url.is_some() || !self.connect.caller().is_elsewhere();
        let usage = is_asked.then(|| {
            let source = connection.operator().usage(self.cloudwatch_url.as_deref(), measured);
            (Box::new(source) as Box<dyn UsageSource>, pace)
        });
        let name = connection.stack_name().unwrap_or_else(|| connection.main_table());
        Ok(Tables {
            place: format!("{name}, {}", connection.operator().place()),
            scaling: settings.scaling.mode,
            reader: connection.reader_with(only_looking(settings.clone())),
            watcher: watching.reader_with(only_looking(settings.clone())),
            scaler,
            usage,
            watched_rcu: Box::new(move || watched.consumed_rcu()),
            asked_rcu: Box::new(move || asked.consumed_rcu()),
            prices,
        })
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
