use std::io::{self, Write};

use dynashard_local::{Endpoints, Stack, StartError};
use serde::Serialize;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::LocalArgs;
use crate::project::{ProjectError, stack_options};

#[derive(Debug, Error)]
pub(crate) enum LocalError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("signals cannot be waited for: {0}")]
    Signals(io::Error),
    #[error("the ready line cannot be written to stdout: {0}")]
    Stdout(io::Error),
}

/// `dynashard local`: serves until SIGINT or SIGTERM.
pub(crate) async fn run(args: LocalArgs) -> Result<(), crate::Failure> {
    Ok(serve(args).await?)
}

async fn serve(args: LocalArgs) -> Result<(), LocalError> {
    // Watched from the start, so that a signal during the start ends the stack cleanly too.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(LocalError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(LocalError::Signals)?;

    let mut options = stack_options(&args.project)?;
    options.port = args.port;
    options.dynamodb_port = args.dynamodb_port;
    options.lambda_port = args.lambda_port;
    options.data_dir = args.data_dir;
    options.max_environments = usize::from(args.max_environments);

    let stack = tokio::select! {
        stack = Stack::start(options) => stack?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let announced = announce(stack.endpoints());
    if announced.is_ok() {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    stack.shutdown().await;
    announced.map_err(LocalError::Stdout)
}

/// The one line that whoever started the stack waits for.
fn announce(endpoints: &Endpoints) -> io::Result<()> {
    #[derive(Serialize)]
    struct Ready<'a> {
        ready: bool,
        #[serde(flatten)]
        endpoints: &'a Endpoints,
    }
    let line = serde_json::to_string(&Ready { ready: true, endpoints })?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
