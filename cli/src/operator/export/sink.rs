//! Where an export is written to.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::operator::files::{behind_links, is_special, with_suffix};
use crate::operator::{Failure, UNREAD};

/// A file under a name that says that it is incomplete, or what is written to as it is: stdout, a pipe, a device.
pub(in crate::operator) struct Sink {
    output: Output,
    /// The file, and the name that it gets at the end.
    names: Option<(PathBuf, PathBuf)>,
}

enum Output {
    Plain(BufWriter<Box<dyn Write>>),
    Gzip(Box<GzEncoder<BufWriter<Box<dyn Write>>>>),
}

impl Sink {
    /// Begins a file, compressed with gzip if the level of that is given.
    pub(in crate::operator) fn create(
        path: &Path,
        gzip: Option<Compression>,
    ) -> Result<Self, Failure> {
        let place = Place::of(path).map_err(|e| failed(path, &e))?;
        let (output, names): (Box<dyn Write>, _) = match place {
            Place::Stdout => (Box::new(io::stdout()), None),
            Place::Special => {
                let file = File::options().write(true).open(path).map_err(|e| failed(path, &e))?;
                (Box::new(file), None)
            }
            Place::File(file) => {
                let partial = with_suffix(&file, PARTIAL);
                let output = locked(&partial, path)?;
                (Box::new(output), Some((partial, file)))
            }
        };
        let output = BufWriter::new(output);
        let output = match gzip {
            Some(level) => Output::Gzip(Box::new(GzEncoder::new(output, level))),
            None => Output::Plain(output),
        };
        Ok(Self { output, names })
    }

    /// Writes out what is held back, and gives a complete file its name.
    pub(in crate::operator) fn finish(self, is_complete: bool) -> io::Result<()> {
        let mut output = match self.output {
            Output::Plain(output) => output,
            Output::Gzip(output) => output.finish()?,
        };
        output.flush()?;
        // It is open until it has its name, so that nobody else takes it.
        match &self.names {
            Some((partial, path)) if is_complete => {
                // Windows flushes nothing that was opened for reading.
                File::options().append(true).open(partial)?.sync_all()?;
                fs::rename(partial, path)
            }
            _ => Ok(()),
        }
    }
}

/// An empty file of this name, which nobody else writes to.
fn locked(partial: &Path, path: &Path) -> Result<File, Failure> {
    let opened = File::options().create(true).write(true).truncate(false).open(partial);
    let file = opened.map_err(|e| failed(path, &e))?;
    let is_ours = match file.try_lock() {
        // Its name is gone where the other one has just ended.
        Ok(()) => partial.exists(),
        Err(TryLockError::WouldBlock) => false,
        // Some file systems have no locks.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => true,
        Err(TryLockError::Error(error)) => return Err(failed(path, &error)),
    };
    if !is_ours {
        let partial = partial.display();
        let detail = format!(
            "another command writes to {partial} at present: wait for its end, or choose another name"
        );
        return Err(Failure { code: OUTPUT_FAILED, detail });
    }
    file.set_len(0).map_err(|e| failed(path, &e))?;
    Ok(file)
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.output {
            Output::Plain(output) => output.write(bytes),
            Output::Gzip(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Plain(output) => output.flush(),
            Output::Gzip(output) => output.flush(),
        }
    }
}

/// What messages call an incomplete output.
pub(super) fn name(path: &Path) -> String {
    match Place::of(path) {
        Ok(Place::Stdout) => "stdout".to_owned(),
        Ok(Place::File(file)) => with_suffix(&file, PARTIAL).display().to_string(),
        Ok(Place::Special) | Err(_) => path.display().to_string(),
    }
}

/// The code of an output that does not take what is written.
pub(super) const OUTPUT_FAILED: &str = "output_failed";

pub(super) fn failed(path: &Path, error: &io::Error) -> Failure {
    // Whoever reads stdout may have what it wants. Of another pipe nobody knows that.
    let is_unread = error.kind() == io::ErrorKind::BrokenPipe && is_stdout(path);
    let code = if is_unread { UNREAD } else { OUTPUT_FAILED };
    Failure { code, detail: format!("{} cannot be written: {error}", name(path)) }
}

/// Whether an output of this name is stdout.
pub(super) fn is_stdout(path: &Path) -> bool {
    matches!(Place::of(path), Ok(Place::Stdout))
}

/// What the name of an output leads to.
enum Place {
    Stdout,
    /// It is there, and takes what is written to it: a pipe, a device.
    Special,
    /// A plain file, or none yet: behind all links.
    File(PathBuf),
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        if STDOUT.iter().any(|name| path == Path::new(name)) {
            return Ok(Self::Stdout);
        }
        let file = behind_links(path)?;
        if file.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(if is_special(&file) { Self::Special } else { Self::File(file) })
    }
}

/// The names of stdout. To open one that is redirected to a file would begin that file anew.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// What the name of a file ends in while it is incomplete.
const PARTIAL: &str = ".partial";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::thread;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn write(path: &Path) {
        let mut sink = Sink::create(path, None).expect("it opens");
        sink.write_all(b"items").expect("it writes");
        sink.finish(true).expect("it ends");
    }

    /// An encrypting program had ended at a full disk, and the export into its pipe ended as one that is complete.
    #[test]
    fn regression_a_pipe_that_nobody_reads_any_more_passed_for_a_complete_export() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(failed(Path::new("-"), &broken).code, UNREAD, "`head` has its lines");
        assert_eq!(failed(Path::new("pipe"), &broken).code, OUTPUT_FAILED);
    }

    /// Two exports to one file wrote into each other, and the first called it complete.
    #[test]
    fn regression_two_exports_wrote_to_one_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("all.json");
        let first = Sink::create(&path, None).expect("it opens");
        let second = Sink::create(&path, None).err().expect("it is refused");
        assert!(second.detail.contains("another command writes"), "{}", second.detail);
        first.finish(true).expect("it ends");
        write(&path);
        assert_eq!(fs::read(&path).expect("a file"), b"items");
    }

    /// A pipe became a plain file while its reader waited, and a link was replaced.
    #[test]
    fn regression_an_output_that_is_no_plain_file_was_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let pipe = path("pipe");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).expect("it reads")
        });
        write(&pipe);
        assert_eq!(reader.join().expect("read"), b"items");

        fs::create_dir(path("there")).expect("a directory");
        fs::write(path("there/old"), "old").expect("it writes");
        for target in ["there/old", "there/new"] {
            let link = path("link");
            symlink(target, &link).expect("a link");
            assert!(name(&link).ends_with(&format!("{target}.partial")), "{}", name(&link));
            write(&link);
            assert_eq!(fs::read(path(target)).expect("a file"), b"items");
            assert!(link.is_symlink());
            fs::remove_file(link).expect("it goes");
        }
        write(Path::new("/dev/null"));
        assert!(Sink::create(directory.path(), None).is_err());
    }
}
