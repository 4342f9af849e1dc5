//! Where log lines go. Never to stdout, which carries what the command was asked for.

use std::fs::File;
use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Writes logs to stderr from now on.
pub(crate) fn start_on_stderr() {
    start(BoxMakeWriter::new(io::stderr), io::stderr().is_terminal());
}

/// Writes logs to a file from now on.
pub(crate) fn start_in(file: File) {
    start(BoxMakeWriter::new(file), false);
}

fn start(writer: BoxMakeWriter, ansi: bool) {
    let asked = std::env::var("DYNASHARD_LOG").ok().and_then(|text| text.parse().ok());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        // A stderr that is closed cannot take the error either: the attempt would panic.
        .log_internal_errors(false)
        .with_ansi(ansi)
        .with_target(false)
        .compact();
    tracing_subscriber::registry().with(asked.unwrap_or_else(usual)).with(lines).init();
}

/// What is logged unless `DYNASHARD_LOG` says otherwise.
fn usual() -> Targets {
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets([("aws_config", LevelFilter::ERROR), ("dynoxide", LevelFilter::ERROR)])
        .with_targets([("dynashard", LevelFilter::INFO)])
}
