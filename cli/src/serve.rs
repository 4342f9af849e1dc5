//! `dynashard serve`: an endpoint that speaks DynamoDB's own protocol.

use std::time::Duration;

use dynashard_serve::{Endpoint, ServeArgs};
use serde_json::json;

use crate::Failure;
use crate::http::Client;
use crate::signals::TerminationSignals;

pub(crate) const EXAMPLES: &str = "\
Where no flag says it, DYNASHARD_TABLES, DYNASHARD_LISTEN_PORT, DYNASHARD_UPSTREAM, DYNASHARD_GROWTH and DYNASHARD_HOLD_SECS do.

Examples:
  dynashard serve --tables orders
  dynashard serve --upstream http://127.0.0.1:8000 --tables MainTable --port 0
  dynashard serve --tables orders --auth keys --keys users.json --address 0.0.0.0
  dynashard serve --probe ready
  AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8017 python3 app.py";

/// An endpoint that takes longer is not well.
const PROBE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    args: ServeArgs,
    /// Ask the endpoint that runs on this port of this machine whether it is live or ready, and exit with 0 if it is: for the
    /// probes of containers.
    #[arg(long, value_name = "WHAT", value_enum)]
    probe: Option<Probe>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Probe {
    Live,
    Ready,
}

/// Serves until SIGINT or SIGTERM.
pub(crate) async fn run(command: ServeCommand) -> Result<(), Failure> {
    let ServeCommand { args, probe } = command;
    if let Some(probe) = probe {
        let path = match probe {
            Probe::Live => "/_dynashard/live",
            Probe::Ready => "/_dynashard/ready",
        };
        let url =
            args.local_url().ok_or("--probe asks a port: name the one that the endpoint has")?;
        let asked = tokio::time::timeout(PROBE, async { Client::new(&url).get(path).await });
        return Ok(asked.await.map_err(|_| format!("{url}{path} does not answer"))??);
    }
    let mut signals = TerminationSignals::watch()
        .map_err(|error| format!("signals cannot be waited for: {error}"))?;
    let endpoint = tokio::select! {
        biased;
        () = signals.received() => return Ok(()),
        endpoint = Endpoint::open(&args, say) => endpoint?,
    };
    let is_ready = tokio::select! {
        biased;
        () = signals.received() => false,
        () = endpoint.until_ready(say) => true,
    };
    let ready = json!({ "endpoint": endpoint.url() });
    let served = if is_ready { signals.received_after(&ready).await } else { Ok(()) };
    endpoint.stop().await;
    Ok(served?)
}

fn say(text: &str) {
    note!("dynashard: {text}");
}
