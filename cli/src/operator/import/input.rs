//! The files of an import: which they are, what they hold, and their rows in order.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dynashard_core::NewItem;
use flate2::bufread::MultiGzDecoder;
use xxhash_rust::xxh64::Xxh64;

use super::csv::{self, Inference, Records};
use super::files::{Format, INPUT_FAILED, InputFile, bad, failed, format_of};
use super::json::{self, Lines};
use super::manifest;
use super::row::Keys;
use crate::operator::Failure;

/// The files of an import, in the order in which they are read.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) format: Format,
    pub(super) files: Vec<InputFile>,
}

/// A row of a file.
pub(super) struct InputRow {
    /// The index of its file.
    pub(super) file: usize,
    /// Its line, from 1.
    pub(super) line: u64,
    /// The item, or why it cannot be taken.
    pub(super) item: Result<NewItem, Failure>,
}

impl Input {
    /// Finds the files. Nothing of them is read yet but the manifest of an export.
    pub(super) fn find(path: &Path, format: Option<Format>) -> Result<Self, Failure> {
        let metadata = fs::metadata(path).map_err(|e| failed(path, &e))?;
        if !metadata.is_dir() {
            let name = path.display().to_string();
            let format = format.or_else(|| format_of(path)).ok_or_else(|| unknown(path))?;
            let file =
                InputFile { name, path: path.to_owned(), bytes: metadata.len(), items: None };
            return Ok(Self { format, files: vec![file] });
        }
        let is_export = manifest::is_export(path);
        if format == Some(Format::DynamodbExport) || (format.is_none() && is_export) {
            let files = manifest::files(path)?;
            return Ok(Self { format: Format::DynamodbExport, files });
        }
        let entries = fs::read_dir(path).map_err(|e| failed(path, &e))?;
        let mut files = Vec::new();
        let mut formats = BTreeSet::new();
        for entry in entries {
            let entry = entry.map_err(|e| failed(path, &e))?;
            let found = format_of(&entry.path());
            if let Some(found) = found.filter(|found| format.is_none_or(|wanted| wanted == *found))
            {
                let bytes = entry.metadata().map_err(|e| failed(&entry.path(), &e))?.len();
                let name = entry.file_name().to_string_lossy().into_owned();
                files.push(InputFile { name, path: entry.path(), bytes, items: None });
                formats.insert(found);
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let first = files.first().and_then(|file| format_of(&file.path));
        match format.or(first) {
            Some(format) if formats.len() == 1 => Ok(Self { format, files }),
            Some(_) if formats.len() > 1 => {
                let why = "holds files of several forms; choose one with --format";
                Err(bad(path, why))
            }
            _ => Err(bad(
                path,
                "holds no file that ends in .jsonl, .ndjson, .json or .csv, or these and .gz",
            )),
        }
    }

    /// All rows in order.
    pub(super) fn rows<'a>(&'a self, keys: &'a Keys, numbers: &'a BTreeSet<String>) -> Rows<'a> {
        Rows { input: self, keys, numbers, file: 0, open: None, digests: Vec::new(), of_file: 0 }
    }

    /// Refuses the names of columns that no file has.
    pub(super) fn check_columns(&self, names: &BTreeSet<String>) -> Result<(), Failure> {
        let mut left = names.clone();
        for file in &self.files {
            let columns = match self.format {
                Format::Csv => {
                    let (input, _) = open(&file.path).map_err(|e| failed(&file.path, &e))?;
                    let records = Records::new(input).map_err(|e| failed(&file.path, &e))?;
                    records.columns().to_vec()
                }
                Format::JsonLines | Format::DynamodbExport => Vec::new(),
            };
            left.retain(|name| !columns.contains(name));
        }
        match left.first() {
            Some(name) => {
                let detail = format!("--number-columns names {name:?}, which is not a column");
                Err(Failure { code: INPUT_FAILED, detail })
            }
            None => Ok(()),
        }
    }

    /// The columns of numbers, as all values together tell them. Empty unless the input is CSV.
    pub(super) fn infer_numbers(
        &self,
        goes_on: impl Fn() -> bool,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut inference = Inference::default();
        if self.format != Format::Csv {
            return Ok(inference.numbers());
        }
        for file in &self.files {
            let (input, _) = open(&file.path).map_err(|e| failed(&file.path, &e))?;
            let mut records = Records::new(input).map_err(|e| failed(&file.path, &e))?;
            while let Some((_, fields)) = records.next().map_err(|e| failed(&file.path, &e))?
                && goes_on()
            {
                if let Ok(fields) = fields {
                    inference.see(&fields);
                }
            }
        }
        Ok(inference.numbers())
    }
}

/// The rows of an input, file after file.
pub(super) struct Rows<'a> {
    input: &'a Input,
    keys: &'a Keys,
    numbers: &'a BTreeSet<String>,
    file: usize,
    open: Option<(Reading, Tally)>,
    /// How many rows the present file has had.
    of_file: u64,
    digests: Vec<u64>,
}

enum Reading {
    Json(Lines<Box<dyn BufRead>>),
    Csv(Records<Box<dyn BufRead>>),
}

impl Rows<'_> {
    /// The hash of each file that was read to its end.
    pub(super) fn digests(&self) -> &[u64] {
        &self.digests
    }

    /// The next row, or why the input cannot be read further; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<InputRow>, Failure> {
        while let Some(file) = self.input.files.get(self.file) {
            let (reading, tally) = match &mut self.open {
                Some(open) => open,
                none => none.insert(self.input.start(file, self.keys)?),
            };
            let is_export = self.input.format == Format::DynamodbExport;
            let row = match reading {
                Reading::Json(lines) => {
                    let line = lines.next().map_err(|e| failed(&file.path, &e))?;
                    line.map(|(line, text)| {
                        (line, text.and_then(|text| json::attributes_of(text, is_export)))
                    })
                }
                Reading::Csv(records) => {
                    let record = records.next().map_err(|e| failed(&file.path, &e))?;
                    record.map(|(line, fields)| {
                        let attributes = |fields: csv::Fields<'_>| {
                            csv::attributes_of(&fields, self.numbers, self.keys)
                        };
                        (line, fields.and_then(attributes))
                    })
                }
            };
            if let Some((line, attributes)) = row {
                self.of_file += 1;
                let item = attributes.and_then(|attributes| self.keys.item(attributes));
                return Ok(Some(InputRow { file: self.file, line, item }));
            }
            if let Some(items) = file.items.filter(|items| *items != self.of_file) {
                let why = format!("holds {} items, and its manifest says {items}", self.of_file);
                return Err(bad(&file.path, &why));
            }
            self.digests.push(tally.digest());
            self.open = None;
            self.of_file = 0;
            self.file += 1;
        }
        Ok(None)
    }
}

impl Input {
    fn start(&self, file: &InputFile, keys: &Keys) -> Result<(Reading, Tally), Failure> {
        let (input, tally) = open(&file.path).map_err(|e| failed(&file.path, &e))?;
        if self.format != Format::Csv {
            return Ok((Reading::Json(Lines::new(input)), tally));
        }
        let records = Records::new(input).map_err(|e| failed(&file.path, &e))?;
        for key in [&keys.partition, &keys.sort] {
            if !records.columns().contains(key) {
                let columns = records.columns().join(", ");
                let why = format!(
                    "lacks the column {key:?} of the key (--pk and --sk name others); it has {columns}"
                );
                return Err(bad(&file.path, &why));
            }
        }
        Ok((Reading::Csv(records), tally))
    }
}

/// What is read of a file, hashed.
#[derive(Clone, Default)]
pub(in crate::operator) struct Tally(Arc<Mutex<Xxh64>>);

impl Tally {
    fn digest(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).digest()
    }
}

struct Hashing<R>(R, Tally);

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.0.lock().unwrap_or_else(PoisonError::into_inner).update(&buffer[..read]);
        Ok(read)
    }
}

/// The text of a file, which may be compressed with gzip and may begin with a byte order mark.
pub(in crate::operator) fn open(path: &Path) -> io::Result<(Box<dyn BufRead>, Tally)> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    const MARK: &[u8] = &[0xef, 0xbb, 0xbf];
    const BUFFER_BYTES: usize = 64 * 1_024;
    let tally = Tally::default();
    let file = Hashing(File::open(path)?, tally.clone());
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    let is_gzip = file.fill_buf()?.starts_with(GZIP);
    let mut text: Box<dyn BufRead> = if is_gzip {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    };
    if text.fill_buf()?.starts_with(MARK) {
        text.consume(MARK.len());
    }
    Ok((text, tally))
}

fn unknown(path: &Path) -> Failure {
    bad(path, "has a name that does not tell its form; choose one with --format")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use dynashard_core::TableSchema;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn rows(input: &Input) -> Vec<(usize, u64, String)> {
        let schema = TableSchema::default();
        let keys = Keys { partition: "pk".to_owned(), sort: "sk".to_owned(), schema };
        let numbers = input.infer_numbers(|| true).expect("it reads");
        let mut rows = input.rows(&keys, &numbers);
        let mut found = Vec::new();
        while let Some(row) = rows.next().expect("it reads") {
            let item = row.item.expect("an item");
            found.push((row.file, row.line, format!("{:?} {:?}", item.key(), item.attributes())));
        }
        assert_eq!(rows.digests().len(), input.files.len());
        found
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("it writes");
        encoder.finish().expect("it ends")
    }

    #[test]
    fn gzip_shows_in_the_data_and_a_byte_order_mark_is_passed_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let text =
            b"\xef\xbb\xbf{\"pk\":\"a\",\"sk\":\"1\",\"n\":1}\n{\"pk\":\"a\",\"sk\":\"2\"}\n";
        // Two members one after the other are one file (RFC 1952, 2.2).
        let halves = [gzip(&text[..20]), gzip(&text[20..])].concat();
        let found = [text.to_vec(), gzip(text), halves].map(|bytes| {
            let path = directory.path().join("rows.jsonl");
            fs::write(&path, bytes).expect("it writes");
            rows(&Input::find(&path, None).expect("files"))
        });
        assert_eq!(found[0].len(), 2);
        assert!(found.iter().all(|rows| *rows == found[0]));
        let csv = directory.path().join("rows.CSV.gz");
        fs::write(&csv, "\u{feff}pk,sk,n\na,1,1\na,2,\n").expect("it writes");
        assert_eq!(rows(&Input::find(&csv, None).expect("files")).len(), 2);
    }

    #[test]
    fn a_directory_has_files_of_one_form_in_the_order_of_their_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).expect("it writes");
        };
        write("b.jsonl", "{\"pk\":\"a\",\"sk\":\"3\"}\n");
        write("a.ndjson", "{\"pk\":\"a\",\"sk\":\"1\"}\n\n{\"pk\":\"a\",\"sk\":\"2\"}\n");
        write("README", "not of the input");
        let input = Input::find(directory.path(), None).expect("files");
        let places = rows(&input).into_iter().map(|(file, line, _)| (file, line));
        assert_eq!(places.collect::<Vec<_>>(), [(0, 1), (0, 3), (1, 1)]);
        write("c.csv", "pk,sk\na,4\n");
        let mixed = Input::find(directory.path(), None).expect_err("two forms");
        assert!(mixed.detail.contains("--format"), "{mixed}");
        let chosen = Input::find(directory.path(), Some(Format::Csv)).expect("files");
        assert_eq!(rows(&chosen).len(), 1);
    }

    #[test]
    fn a_file_that_is_cut_off_is_not_taken_for_a_whole_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rows.jsonl.gz");
        let whole = gzip(b"{\"pk\":\"a\",\"sk\":\"1\"}\n");
        fs::write(&path, &whole[..whole.len() - 4]).expect("it writes");
        let schema = TableSchema::default();
        let keys = Keys { partition: "pk".to_owned(), sort: "sk".to_owned(), schema };
        let (input, numbers) = (Input::find(&path, None).expect("a file"), BTreeSet::new());
        let mut rows = input.rows(&keys, &numbers);
        let ended = loop {
            match rows.next() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(failure) => break Some(failure.code),
            }
        };
        assert_eq!(ended, Some(INPUT_FAILED));
    }
}
