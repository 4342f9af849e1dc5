//! The `dynashard` command.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]

mod args;
mod clock;
mod demo;
mod http;
mod local;
mod logs;
mod operator;
mod project;
mod signals;

use std::io::IsTerminal;
use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;
use logs::Logs;
use tracing_subscriber::EnvFilter;

/// What ends a command early; one line for people.
type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let logs = Logs::default();
    start_logging(&logs);
    let result = match args.command {
        Command::Local(options) => local::run(options).await,
        Command::Demo(options) => demo::run(options, &logs).await,
        Command::Verify(options) => return Box::pin(operator::verify(options)).await,
        Command::Query(options) => return Box::pin(operator::query(options)).await,
        Command::Scale(options) => return Box::pin(operator::scale(options)).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("dynashard: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Logs go to stderr: stdout carries what the command was asked for.
fn start_logging(logs: &Logs) {
    let filter = EnvFilter::try_from_env("DYNASHARD_LOG").unwrap_or_else(|_| {
        EnvFilter::new("warn,aws_config=error,dynashard=info,dynashard_local=info,dynoxide=error")
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(logs.clone())
        // Who has closed stderr is not to be told so there: that would panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .compact()
        .init();
}
