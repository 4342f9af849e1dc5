//! `dynashard console`: serves a page that shows the collections of a stack. `dynashard local` and `dynashard demo`
//! serve it of their own.

mod found;
mod of_stack;

use std::io;
use std::net::Ipv4Addr;

use dynashard_aws::OsEntropy;
use dynashard_console::{Console, Options, Trouble};
use serde_json::json;
use tokio::net::TcpListener;

pub(crate) use found::Found;
pub(crate) use of_stack::console_of_stack;

use crate::operator::{ConsoleConnectArgs, Failure};
use crate::signals::TerminationSignals;

/// The port of the console, unless another program listens on it.
const USUAL_PORT: u16 = 9_003;

#[derive(Debug, clap::Args)]
pub(crate) struct ConsoleArgs {
    /// Port of the page; 0 takes a free one. The default is 9003, or a free port if 9003 is taken.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    connect: ConsoleConnectArgs,
}

/// What the page may do, and consume.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct LookArgs {
    /// Let the page change shard counts, after a confirmation. Without this the console only reads.
    #[arg(long)]
    allow_changes: bool,
    /// Read units a second that the console consumes at most for collections to which something happens, or which
    /// somebody looks at. At rest it consumes less than one.
    #[arg(long, value_name = "UNITS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    read_units: u32,
}

impl LookArgs {
    pub(crate) fn options(self) -> Options {
        Options { allows_changes: self.allow_changes, read_units: f64::from(self.read_units) }
    }
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
When the page can be opened, the command prints one line of JSON on stdout with its address. It is on 127.0.0.1 and
answers browsers on this machine. While the tables cannot be reached the page says why, and the command tries again.
Ctrl-C or SIGTERM ends it.

Exit status: 0 after Ctrl-C or SIGTERM; 1 if the page cannot be served, and a line on stderr says why.

Examples:
  dynashard console --stack-name dynashard
  dynashard console --stack-name dynashard --profile operator --allow-changes
  dynashard console --endpoint-url http://127.0.0.1:8000 --cloudwatch-url http://127.0.0.1:9002 --main-table MainTable";

pub(crate) async fn run(args: ConsoleArgs) -> Result<(), crate::Failure> {
    let mut signals = TerminationSignals::watch()?;
    let ConsoleArgs { port, look, connect } = args;
    let listener = bind(port).await?;
    let connect = std::sync::Arc::new(connect);
    let console = Console::serve(listener, look.options(), &OsEntropy, move || {
        let connect = std::sync::Arc::clone(&connect);
        async move {
            let found = Box::pin(connect.tables(look.allow_changes)).await;
            found.map_err(|Failure { code, detail }| Trouble::new(code, detail))
        }
    })?;
    let served = signals.received_after(&json!({ "console": console.url() })).await;
    console.stop().await;
    Ok(served?)
}

/// Binds the port on 127.0.0.1; without one the usual port, or a free one if another program listens on that.
pub(crate) async fn bind(port: Option<u16>) -> io::Result<TcpListener> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(USUAL_PORT))).await;
    match bound {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && port.is_none() => {
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
        }
        Err(error) => {
            let port = port.unwrap_or(USUAL_PORT);
            let why =
                format!("the console cannot listen on port {port}: {error}; choose another one");
            Err(io::Error::new(error.kind(), why))
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_is_named_and_the_usual_one_gives_way() {
        let taken = bind(Some(0)).await.expect("a free port");
        let port = taken.local_addr().expect("an address").port();
        let refused = bind(Some(port)).await.expect_err("it is taken").to_string();
        assert!(refused.contains(&port.to_string()), "{refused}");
        let (one, other) = (bind(None).await.expect("a port"), bind(None).await.expect("a port"));
        assert_ne!(one.local_addr().ok(), other.local_addr().ok());
    }
}
