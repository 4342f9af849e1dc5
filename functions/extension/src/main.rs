//! The DynamoDB endpoint as a Lambda extension: a layer puts it beside any function, whose SDK finds it by
//! `AWS_ENDPOINT_URL_DYNAMODB`.
//!
//! It is told by the environment of the function what `dynashard serve` is told by flags (`DYNASHARD_TABLES`, …). Lambda starts the
//! function once its extensions have registered, and this one registers when it is ready. If it cannot serve, the environment does
//! not start, since a function that reaches no table fails more quietly.

mod runtime;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::env;
use std::ffi::OsString;
use std::hash::BuildHasher;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Command, FromArgMatches};
use dynashard_lambda::{LogKeys, subscriber};
use dynashard_serve::{Endpoint, Failure, ServeArgs, VARIABLES};
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;

use crate::runtime::{Event, Runtime};

/// Lambda gives an environment ten seconds to start.
const START: Duration = Duration::from_secs(8);

/// What is left of the time to end, in which the process itself ends.
const MARGIN: Duration = Duration::from_millis(200);

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    // Keys are to be told apart within an environment, and guessed by nobody.
    let random = || RandomState::new().hash_one(0_u8);
    let keys = LogKeys::Digest(format!("{:016x}{:016x}", random(), random()));
    let level = env::var("DYNASHARD_LOG").ok().and_then(|level| level.parse().ok());
    let log = subscriber(&keys, level.unwrap_or(LevelFilter::WARN), std::io::stdout);
    // Nothing else of this process sets one.
    let _ = tracing::subscriber::set_global_default(log);
    let server = env::var("AWS_LAMBDA_RUNTIME_API").unwrap_or_default();
    let program = env::args_os().next().unwrap_or_default();
    match run(&server, &program.to_string_lossy(), |name| env::var(name).ok()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tracing::error!(error = %why, "the endpoint does not serve");
            ExitCode::FAILURE
        }
    }
}

/// Serves until Lambda says that the environment ends.
///
/// `server` is the address of the API that Lambda has for extensions, and `program` the path of this one.
async fn run(
    server: &str,
    program: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    if server.is_empty() {
        return Err("AWS_LAMBDA_RUNTIME_API is not set: this program runs in a Lambda layer, and `dynashard serve` everywhere else".into());
    }
    let started = started(variable).await;
    let runtime = Runtime::register(server, program).await?;
    let endpoint = match started {
        Ok(endpoint) => endpoint,
        Err(why) => {
            if let Err(unsaid) = runtime.fail(&why.to_string()).await {
                tracing::error!(error = %unsaid, "Lambda was not told that the start has failed");
            }
            return Err(why);
        }
    };
    loop {
        // To ask for the first event is to say that the start is over.
        let Event::Shutdown { deadline_ms } = runtime.next().await? else { continue };
        #[expect(
            clippy::disallowed_methods,
            reason = "the deadline is by the clock of the machine"
        )]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let left = Duration::from_millis(deadline_ms).saturating_sub(now + MARGIN);
        if timeout(left, endpoint.stop()).await.is_err() {
            tracing::warn!("the environment ended before all that was asked had been answered");
        }
        return Ok(());
    }
}

async fn started(variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint, Failure> {
    let told = |name: &str| variable(name).filter(|value| !value.is_empty());
    // Without it every write would pass around the guard, and nobody would notice.
    told("DYNASHARD_TABLES").ok_or("DYNASHARD_TABLES names no table: set it, as in orders")?;
    let words = VARIABLES
        .into_iter()
        .filter_map(|(flag, name)| Some(OsString::from(format!("{flag}={}", told(name)?))));
    let command = ServeArgs::augment_args(Command::new("extension").no_binary_name(true));
    let args = ServeArgs::from_arg_matches(&command.try_get_matches_from(words)?)?;
    let say = |text: &str| tracing::warn!("{text}");
    let ready = timeout(START, async {
        let endpoint = Endpoint::open(&args, say).await?;
        endpoint.until_ready(say).await;
        Ok(endpoint)
    });
    ready.await.unwrap_or_else(|_| {
        Err("it is not ready within 8 seconds: see the lines before, and the role, the network and the names of the tables".into())
    })
}
