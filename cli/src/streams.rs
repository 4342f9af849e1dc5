//! Stdout and stderr, as all commands write to them.

use std::io::{self, Write};

use serde::Serialize;
use thiserror::Error;

/// Writes a line to stderr. Unlike `eprintln!` it does not panic where nobody can be told anything.
macro_rules! note {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr().lock(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

/// Stdout does not take what is to be printed.
#[derive(Debug, Error)]
#[error("{}: {}", Self::CODE, self.detail())]
pub(crate) struct Unwritten(pub(crate) io::Error);

impl Unwritten {
    /// The stable code of the failure.
    pub(crate) const CODE: &'static str = "output_failed";

    /// Whether the reader has closed stdout: it has what it wants.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }

    /// What happened, without the code.
    pub(crate) fn detail(&self) -> String {
        format!("stdout cannot be written to: {}", self.0)
    }
}

/// Tells whoever started the command that it can serve, and where: a line of JSON.
pub(crate) fn print_ready(endpoints: &impl Serialize) -> Result<(), Unwritten> {
    #[derive(Serialize)]
    struct Ready<'a, E> {
        ready: bool,
        #[serde(flatten)]
        endpoints: &'a E,
    }
    let line = serde_json::to_string(&Ready { ready: true, endpoints }).map_err(io::Error::from);
    print(&line.map_err(Unwritten)?)
}

/// Writes a line to stdout, and out of this process.
pub(crate) fn print(line: &str) -> Result<(), Unwritten> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(Unwritten)
}
