//! Files that commands leave behind.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file beside the old one, and renames it: whoever reads finds one of the two, whole, also
/// after a loss of power.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new_path = with_suffix(path, ".new");
    let mut new = File::create(&new_path)?;
    new.write_all(content)?;
    new.sync_all()?;
    fs::rename(&new_path, path)?;
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// The path with this behind its last name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
