//! Files that commands leave behind.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file beside the old one, and renames it: whoever reads finds one of the two, whole, also
/// after a loss of power. A pipe or a device is written to as it is.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = &behind_links(path)?;
    if is_special(path) {
        return File::options().write(true).open(path)?.write_all(content);
    }
    let new_path = with_suffix(path, ".new");
    let mut new = File::create(&new_path)?;
    new.write_all(content)?;
    new.sync_all()?;
    fs::rename(&new_path, path)?;
    keep_names(path.parent().filter(|path| !path.as_os_str().is_empty()))
}

/// Has the names in a directory outlast a loss of power.
#[cfg(unix)]
fn keep_names(directory: Option<&Path>) -> io::Result<()> {
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Windows opens no directory, and keeps names by itself.
#[cfg(windows)]
fn keep_names(_: Option<&Path>) -> io::Result<()> {
    Ok(())
}

/// The path of what a link leads to, through as many as there are, whether or not anything is there.
pub(super) fn behind_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        // Behind the link of a descriptor, /dev/fd/N, a pipe has no path.
        if !path.is_symlink() || is_special(&path) {
            return Ok(path);
        }
        path = path.parent().unwrap_or(Path::new("")).join(fs::read_link(&path)?);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

/// Whether something is there that is neither a file nor a directory: a pipe, a device.
pub(super) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// The path with this behind its last name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
