//! Where log lines go.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Writes logs to stderr. While something else has the terminal they can be held back. Clones share
/// what is held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logs {
    held: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Logs {
    /// Keeps what is logged from now on.
    pub(crate) fn hold(&self) {
        self.held().get_or_insert_default();
    }

    /// Writes what was kept, and from now on everything at once.
    pub(crate) fn release(&self) {
        if let Some(lines) = self.held().take() {
            // Where stderr is gone nobody can be told so.
            let _ = io::stderr().write_all(&lines);
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        // Bytes stay valid whoever panicked while adding some.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Logs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut *self.held() {
            Some(lines) => lines.write(line),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Logs {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_while_the_logs_are_held_is_kept_in_order() {
        let logs = Logs::default();
        logs.hold();
        for line in ["one\n", "two\n"] {
            logs.make_writer().write_all(line.as_bytes()).expect("kept");
        }
        assert_eq!(logs.held().as_deref(), Some(&b"one\ntwo\n"[..]));
        logs.release();
        assert_eq!(*logs.held(), None);
    }
}
