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
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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
    let asked = std::env::var("DYNASHARD_LOG").ok().and_then(|text| text.parse().ok());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(logs.clone())
        // A stderr that is closed cannot take the error either: the attempt would panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .compact();
    tracing_subscriber::registry().with(asked.unwrap_or_else(usual_logs)).with(lines).init();
}

/// What is logged unless `DYNASHARD_LOG` says otherwise.
fn usual_logs() -> Targets {
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets([("aws_config", LevelFilter::ERROR), ("dynoxide", LevelFilter::ERROR)])
        .with_targets([("dynashard", LevelFilter::INFO)])
}
