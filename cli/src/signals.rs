//! The signals that end a command.

use std::io;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use crate::clock::Stopwatch;
use crate::streams::{self, Unwritten};

/// The exit status of a command that SIGINT ended, as shells give it.
pub(crate) const INTERRUPTED: u8 = 130;

/// For how long a command may leave a signal without notice.
const NOTICE: Duration = Duration::from_secs(2);

/// SIGINT and SIGTERM, or what Windows has for them. Neither ends the process by itself once they are watched.
pub(crate) struct TerminationSignals {
    signals: os::Signals,
    noticed: Arc<Mutex<Option<Stopwatch>>>,
}

impl TerminationSignals {
    /// Watches for both from now on.
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self { signals: os::Signals::watch()?, noticed: Arc::default() })
    }

    /// Watches for both, for a command that may end anywhere. If it takes no notice of a signal, since it waits for the other end of
    /// a pipe, the process ends without it.
    pub(crate) fn of_command() -> io::Result<Self> {
        let (watched, mut watchers) = (Self::watch()?, Self::watch()?);
        let noticed = Arc::clone(&watched.noticed);
        tokio::spawn(async move {
            loop {
                watchers.received().await;
                tokio::time::sleep(NOTICE).await;
                let noticed = *noticed.lock();
                // The command may have seen it a moment before this task.
                if noticed.is_none_or(|since| since.elapsed() > NOTICE * 2) {
                    note!("dynashard: interrupted");
                    process::exit(i32::from(INTERRUPTED));
                }
            }
        });
        Ok(watched)
    }

    /// Says that the command can serve, and where, and returns when the process has received one of them.
    pub(crate) async fn received_after(&mut self, ready: &impl Serialize) -> Result<(), Unwritten> {
        streams::print_ready(ready)?;
        self.received().await;
        Ok(())
    }

    /// Returns when the process has received one of them.
    pub(crate) async fn received(&mut self) {
        self.signals.received().await;
        *self.noticed.lock() = Some(Stopwatch::start());
    }
}

#[cfg(unix)]
mod os {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) struct Signals {
        interrupt: Signal,
        terminate: Signal,
    }

    impl Signals {
        pub(super) fn watch() -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        }

        pub(super) async fn received(&mut self) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
        }
    }
}

#[cfg(windows)]
mod os {
    use std::io;

    use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

    pub(super) struct Signals {
        interrupt: CtrlC,
        terminate: CtrlBreak,
        close: CtrlClose,
    }

    impl Signals {
        pub(super) fn watch() -> io::Result<Self> {
            Ok(Self { interrupt: ctrl_c()?, terminate: ctrl_break()?, close: ctrl_close()? })
        }

        pub(super) async fn received(&mut self) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                _ = self.close.recv() => {}
            }
        }
    }
}
