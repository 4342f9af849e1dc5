//! Where tables go before they are deleted: to a folder, as `export` writes them, or to S3, as DynamoDB does. Each table has a
//! proof of its own there: which table it was, and what it held.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use dynashard_aws_operator::{
    Bucket, BucketExport, BucketExports, Operator, SeriesTable, SeriesTables,
};
use dynashard_core::TableSchema;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh64::xxh64;

use crate::operator::Failure;
use crate::operator::export::form::{Columns, Format, Lines};
use crate::operator::export::sink::Sink;
use crate::operator::files;
use crate::operator::patience::patiently;
use crate::operator::scan::{ReadRate, TableScan, all_segments};

/// Where the tables go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// A table is scanned in so many parts at once, each with a page of 1 MB in memory.
const SEGMENTS: u32 = 8;

/// What items there are, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) items: u64,
    /// The sum of the hashes of their lines.
    digest: u64,
}

/// The proof of an export to a folder, which is written when its file is whole.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    table: String,
    /// What tells the table from another one of its name.
    identity: String,
    #[serde(flatten)]
    content: Content,
}

impl Destination {
    /// Reads `s3://BUCKET/PREFIX`, or the name of a folder.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || Err("it must be a folder, or s3://BUCKET/PREFIX".to_owned());
        let Some(place) = text.strip_prefix("s3://") else {
            let is_address = text.contains("://") || text.to_ascii_lowercase().starts_with("s3:");
            return if is_address { wrong() } else { Ok(Self::Folder(PathBuf::from(text))) };
        };
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        if name.is_empty() {
            return wrong();
        }
        let prefix = prefix.trim_end_matches('/').to_owned();
        Ok(Self::Bucket(Bucket { name: name.to_owned(), prefix }))
    }

    /// How far the export of a table is, as its proof says. Only one from after the end of its period, in epoch seconds, counts.
    pub(super) async fn state(
        &self,
        operator: &Operator,
        table: &SeriesTable,
        ended: i64,
    ) -> Result<BucketExports, Failure> {
        match self {
            Self::Folder(folder) => {
                let manifest = manifest(folder, table)?;
                let last = manifest.map(|manifest| BucketExport::Complete(manifest.content.items));
                Ok(BucketExports { last, ..BucketExports::default() })
            }
            Self::Bucket(bucket) => {
                let tables = SeriesTables::of(operator);
                patiently(async || tables.exports(&table.state, bucket, ended).await).await
            }
        }
    }

    /// Exports a table, or has DynamoDB begin to.
    pub(super) async fn export(
        &self,
        operator: &Operator,
        table: &SeriesTable,
        ended: i64,
    ) -> Result<(), Failure> {
        match self {
            Self::Folder(folder) => to_folder(operator, folder, table).await,
            Self::Bucket(bucket) => {
                let exports = self.state(operator, table, ended).await?.all;
                let seed = u64::try_from(exports).unwrap_or(u64::MAX);
                let token = xxh64(table.state.identity.as_bytes(), seed);
                let token = format!("dynashard-{token:016x}");
                let tables = SeriesTables::of(operator);
                patiently(async || tables.begin_export(&table.state, bucket, &token).await).await
            }
        }
    }

    /// Whether the export of a table has what the table has now, by a scan. In a folder each item is compared; of an export to S3
    /// DynamoDB tells how many there are. The scan is eventually consistent, for half the read units: what it misses was written
    /// in the second before, and a write in the second behind it would be missed by any scan.
    pub(super) async fn is_whole(
        &self,
        operator: &Operator,
        table: &SeriesTable,
        ended: i64,
    ) -> Result<bool, Failure> {
        let exported = match self {
            Self::Folder(folder) => {
                let Some(manifest) = manifest(folder, table)? else { return Ok(false) };
                let path = data(folder, &table.name);
                let found = read_back(&path).map_err(|error| failed(&path, &error))?;
                if found != Some(manifest.content) {
                    return Ok(false);
                }
                manifest.content
            }
            Self::Bucket(_) => match self.state(operator, table, ended).await?.last {
                Some(BucketExport::Complete(items)) => Content { items, digest: 0 },
                _ => return Ok(false),
            },
        };
        let (present, _) = copied(operator, &table.name, io::sink(), false).await?;
        Ok(match self {
            Self::Folder(_) => exported == present,
            Self::Bucket(_) => exported.items == present.items,
        })
    }
}

/// The name of a table's file.
fn data(folder: &Path, table: &str) -> PathBuf {
    folder.join(format!("{table}.json.gz"))
}

/// The name of its proof.
fn proof(folder: &Path, table: &str) -> PathBuf {
    folder.join(format!("{table}.manifest.json"))
}

/// The proof that this very table was exported, if there is one.
fn manifest(folder: &Path, table: &SeriesTable) -> Result<Option<Manifest>, Failure> {
    let path = proof(folder, &table.name);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| failed(&path, &error))?,
    };
    // One of another table of that name, or a damaged one, proves nothing.
    let manifest = serde_json::from_slice::<Manifest>(&text).ok();
    Ok(manifest.filter(|manifest| manifest.identity == table.state.identity))
}

/// Refuses to write over what may be all that is left of another table of that name, as one of another region has it.
fn check_free(folder: &Path, table: &SeriesTable) -> Result<(), Failure> {
    let path = proof(folder, &table.name);
    let is_taken = fs::exists(&path).map_err(|error| failed(&path, &error))?;
    if is_taken && manifest(folder, table)?.is_none() {
        let path = path.display();
        let detail =
            format!("{path} is of another table of that name: export to a folder of its own");
        return Err(Failure { code: "output_failed", detail });
    }
    Ok(())
}

async fn to_folder(operator: &Operator, folder: &Path, table: &SeriesTable) -> Result<(), Failure> {
    check_free(folder, table)?;
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let path = data(folder, &table.name);
    let sink = Sink::create(&path, Some(Compression::default()))?;
    let (content, sink) = copied(operator, &table.name, sink, true).await?;
    sink.finish(true).map_err(|error| failed(&path, &error))?;
    let identity = table.state.identity.clone();
    let manifest = Manifest { table: table.name.clone(), identity, content };
    let path = proof(folder, &table.name);
    let written = serde_json::to_vec(&manifest).map_err(io::Error::from);
    written.and_then(|text| files::replace(&path, &text)).map_err(|error| failed(&path, &error))
}

/// Copies all items of a table by a scan, in any order, and says what they were.
async fn copied<W: Write>(
    operator: &Operator,
    table: &str,
    sink: W,
    is_strong: bool,
) -> Result<(Content, W), Failure> {
    let unwritten = |error: io::Error| failed(Path::new(table), &error);
    let tally = Tally { sink, line: Vec::new(), content: Content::default() };
    let schema = TableSchema::default();
    let lines = Lines::begin(Format::DynamodbJson, Columns::default(), &schema, tally);
    let mut lines = lines.map_err(unwritten)?;
    let scan = TableScan::new(operator, table, ReadRate::new(None));
    let mut pages = scan.pages(all_segments(SEGMENTS).collect(), is_strong);
    while let Some((_, page)) = pages.try_next().await? {
        // A table that was a main table once may have counters: their cells are as much of it as other items.
        let mut all = page.items.iter().chain(&page.cells);
        all.try_for_each(|item| lines.write(item)).map_err(unwritten)?;
    }
    let tally = lines.finish().map_err(unwritten)?;
    Ok((tally.content, tally.sink))
}

/// What a file holds; `None` if it is missing or damaged.
fn read_back(path: &Path) -> io::Result<Option<Content>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => BufReader::new(file?),
    };
    let mut tally = Tally { sink: io::sink(), line: Vec::new(), content: Content::default() };
    match io::copy(&mut MultiGzDecoder::new(file), &mut tally) {
        Ok(_) => Ok(Some(tally.content).filter(|_| tally.line.is_empty())),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof
    )
}

/// Counts and hashes the lines that go through it.
struct Tally<W> {
    sink: W,
    line: Vec<u8>,
    content: Content,
}

impl<W: Write> Write for Tally<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        for part in bytes[..written].split_inclusive(|byte| *byte == b'\n') {
            self.line.extend(part);
            if part.ends_with(b"\n") {
                self.content.items += 1;
                self.content.digest = self.content.digest.wrapping_add(xxh64(&self.line, 0));
                self.line.clear();
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure {
        code: "output_failed",
        detail: format!("the export at {} cannot be used: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::series::tests::table;

    #[test]
    fn a_place_is_a_folder_or_in_s3() {
        let bucket = |name: &str, prefix: &str| {
            Ok(Destination::Bucket(Bucket { name: name.to_owned(), prefix: prefix.to_owned() }))
        };
        assert_eq!(Destination::parse("s3://archive"), bucket("archive", ""));
        assert_eq!(Destination::parse("s3://archive/a/b/"), bucket("archive", "a/b"));
        assert_eq!(Destination::parse("s3/x"), Ok(Destination::Folder(PathBuf::from("s3/x"))));
        assert!(Destination::parse("s3://").is_err());
    }

    #[test]
    fn regression_a_mistyped_place_in_s3_became_a_folder() {
        for wrong in ["s3:/archive/events", "S3://archive", "s3:archive", "https://archive/events"]
        {
            assert!(Destination::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_whole_file_of_this_very_table_proves_an_export() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = directory.path();
        let path = folder.join("t.json.gz");
        assert_eq!(read_back(&path).expect("it reads"), None, "it is missing");
        let mut sink = Sink::create(&path, Some(Compression::default())).expect("it opens");
        sink.write_all(b"one\ntwo\n").expect("it writes");
        sink.finish(true).expect("it ends");
        let whole = read_back(&path).expect("it reads").expect("it is whole");
        assert_eq!(whole.items, 2);
        let bytes = fs::read(&path).expect("a file");
        fs::write(&path, &bytes[..bytes.len() - 9]).expect("it writes");
        assert_eq!(read_back(&path).expect("it reads"), None, "its end is missing");

        let mut exported = table("events-2026-10");
        exported.state.identity = "id-1 100".to_owned();
        let text = r#"{"table":"events-2026-10","identity":"id-1 100","items":2,"digest":7}"#;
        fs::write(folder.join("events-2026-10.manifest.json"), text).expect("it writes");
        assert!(manifest(folder, &exported).expect("it reads").is_some());
        exported.state.identity = "id-2 200".to_owned();
        assert!(manifest(folder, &exported).expect("it reads").is_none(), "made anew");
        let refused = check_free(folder, &exported).map_err(|failure| failure.code);
        assert_eq!(refused, Err("output_failed"), "its proof would be written over");
    }
}
