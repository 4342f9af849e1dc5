//! Where an export is written to.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::operator::Failure;

/// A file under a name that says that it is incomplete, or stdout.
pub(super) struct Sink {
    output: Output,
    /// The file, and the name that it gets at the end.
    names: Option<(PathBuf, PathBuf)>,
}

enum Output {
    Plain(BufWriter<Box<dyn Write>>),
    Gzip(Box<GzEncoder<BufWriter<Box<dyn Write>>>>),
}

/// The reader of stdout has closed it.
pub(super) const UNREAD: &str = "unread";

impl Sink {
    pub(super) fn create(path: &Path, is_gzip: bool) -> Result<Self, Failure> {
        let names = (!is_stdout(path)).then(|| (partial(path), path.to_owned()));
        let output: Box<dyn Write> = match &names {
            Some((partial, _)) => Box::new(File::create(partial).map_err(|e| failed(path, &e))?),
            None => Box::new(io::stdout()),
        };
        let output = BufWriter::new(output);
        let output = if is_gzip {
            Output::Gzip(Box::new(GzEncoder::new(output, Compression::default())))
        } else {
            Output::Plain(output)
        };
        Ok(Self { output, names })
    }

    /// Writes out what is held back, and gives a complete file its name.
    pub(super) fn finish(self, is_complete: bool) -> io::Result<()> {
        match self.output {
            Output::Plain(mut output) => output.flush()?,
            Output::Gzip(output) => output.finish()?.flush()?,
        }
        match &self.names {
            Some((partial, path)) if is_complete => {
                File::open(partial)?.sync_all()?;
                fs::rename(partial, path)
            }
            _ => Ok(()),
        }
    }
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
    if is_stdout(path) { "stdout".to_owned() } else { partial(path).display().to_string() }
}

pub(super) fn failed(path: &Path, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::BrokenPipe { UNREAD } else { "output_failed" };
    Failure { code, detail: format!("{} cannot be written: {error}", name(path)) }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}
