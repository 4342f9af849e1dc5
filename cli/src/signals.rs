//! The signals that end a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM.
pub(crate) struct Ends {
    interrupt: Signal,
    terminate: Signal,
}

impl Ends {
    /// Watches for both from now on; neither ends the process by itself any more.
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Returns when one of them has come.
    pub(crate) async fn signalled(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
