//! The files of an import: which they are, what they hold, and their rows in order.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use dynashard_core::NewItem;
use parking_lot::Mutex;
use xxhash_rust::xxh64::Xxh64;

use super::csv::{self, Inference, Records};
use super::files::{Format, INPUT_FAILED, InputFile, bad, entries, failed, format_of};
use super::gzip::Members;
use super::json::{self, Lines};
use super::manifest;
use super::refused::RowPlace;
use super::row::{Keys, Refused};
use crate::operator::Failure;

/// The files of an import, in the order in which they are read.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) format: Format,
    pub(super) files: Vec<InputFile>,
    /// How many items it holds, where the summary of an export says so.
    pub(super) items: Option<u64>,
    /// What lies in the directory and is not of the form that was chosen.
    pub(super) left_out: Vec<String>,
    /// Whether it is the copy of a table, whose rows stand nowhere.
    pub(super) is_copy: bool,
}

/// A row of a file.
pub(super) struct InputRow {
    /// Its line, counted through all files.
    pub(super) number: u64,
    /// The item, or why it cannot be taken.
    pub(super) item: Result<NewItem, Refused>,
}

impl Input {
    /// Finds the files. Nothing of them is read yet but the manifest of an export.
    pub(super) fn find(path: &Path, format: Option<Format>) -> Result<Self, Failure> {
        let metadata = fs::metadata(path).map_err(|e| failed(path, &e))?;
        if !metadata.is_dir() {
            if !metadata.is_file() {
                let why = "is a pipe or a device, and an input is read twice: write it to a file, and import that";
                return Err(bad(path, why));
            }
            let unknown = "has a name that does not tell its form; choose one with --format";
            let format = format.or_else(|| format_of(path)).ok_or_else(|| bad(path, unknown))?;
            let (name, path) = (path.display().to_string(), path.to_owned());
            let file = InputFile { name, path, items: None, format: Some(format) };
            return Ok(Self::of(format, vec![file]));
        }
        if format.map_or_else(|| manifest::is_export(path), |it| it == Format::DynamodbExport) {
            let (files, items) = manifest::find(path)?;
            return Ok(Self { items, ..Self::of(Format::DynamodbExport, files) });
        }
        let entries = entries(path)?;
        let formats = entries.iter().filter_map(|entry| entry.format).collect::<BTreeSet<_>>();
        let wanted = match (format, formats.first()) {
            (Some(format), _) if formats.contains(&format) => format,
            (None, Some(format)) if formats.len() == 1 => *format,
            (None, Some(_)) => {
                let why = "holds files of several forms; choose one with --format";
                return Err(bad(path, why));
            }
            _ => {
                let why =
                    "holds no file that ends in .jsonl, .ndjson, .json or .csv, or these and .gz";
                return Err(bad(path, why));
            }
        };
        let is_wanted = |entry: &InputFile| entry.format == Some(wanted);
        let (files, others) = entries.into_iter().partition::<Vec<_>, _>(is_wanted);
        let left_out = others.into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        if format.is_none() && !left_out.is_empty() {
            let why = format!(
                "also holds what cannot be imported with the rest: {}; --format NAME imports the files of \
                 one form and leaves out all else",
                left_out.join(", ")
            );
            return Err(bad(path, &why));
        }
        Ok(Self { left_out, ..Self::of(wanted, files) })
    }

    fn of(format: Format, files: Vec<InputFile>) -> Self {
        Self { format, files, items: None, left_out: Vec::new(), is_copy: false }
    }

    /// All rows in order.
    pub(super) fn rows<'a>(&'a self, keys: &'a Keys, numbers: &'a BTreeSet<String>) -> Rows<'a> {
        Rows {
            input: self,
            keys,
            numbers,
            open: None,
            of_file: 0,
            of_all: 0,
            lines: 0,
            begins: Vec::new(),
            digests: Vec::new(),
        }
    }

    /// Where the row of a number stands, if so many lines lie before each file.
    pub(super) fn place(&self, begins: &[u64], number: u64) -> RowPlace<'_> {
        let at = begins.partition_point(|begin| *begin < number).saturating_sub(1);
        match (self.files.get(at), begins.get(at)) {
            (Some(file), Some(begin)) if !self.is_copy => {
                RowPlace { file: Some(&file.name), line: Some(number - begin) }
            }
            _ => RowPlace::default(),
        }
    }

    /// The records of each file, if these are CSV.
    fn records(&self) -> impl Iterator<Item = Result<(&Path, FileRecords), Failure>> {
        let files = self.files.iter().filter(|_| self.format == Format::Csv);
        files.map(|InputFile { path, .. }| {
            let records = open(path).and_then(|(input, _)| Records::new(input));
            records.map(|records| (path.as_path(), records)).map_err(|e| failed(path, &e))
        })
    }

    /// Columns by their names, which some file has to have.
    pub(super) fn named_columns(
        &self,
        names: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut left = names.clone();
        for file in self.records() {
            let (_, records) = file?;
            left.retain(|name| !records.columns().contains(name));
        }
        let Some(name) = left.first() else { return Ok(names) };
        let detail = format!("--number-columns names {name:?}, which is not a column");
        Err(Failure { code: INPUT_FAILED, detail })
    }

    /// The columns of numbers, as all values together tell them. Empty unless the input is CSV.
    pub(super) fn infer_numbers(
        &self,
        goes_on: impl Fn() -> bool,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut inference = Inference::default();
        for file in self.records() {
            let (path, mut records) = file?;
            while let Some((_, fields)) = records.next().map_err(|e| failed(path, &e))?
                && goes_on()
            {
                if let Ok(fields) = fields {
                    inference.see(&fields);
                }
            }
        }
        Ok(inference.numbers())
    }

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

/// The rows of an input, file after file.
pub(super) struct Rows<'a> {
    input: &'a Input,
    keys: &'a Keys,
    numbers: &'a BTreeSet<String>,
    open: Option<(Reading, Tally)>,
    /// How many rows the present file and all files have had.
    of_file: u64,
    of_all: u64,
    /// How many lines were read, of all files.
    lines: u64,
    /// How many lines lie before each file that was begun.
    pub(super) begins: Vec<u64>,
    /// The hash of each file that was read to its end.
    pub(super) digests: Vec<u64>,
}

type FileRecords = Records<Box<dyn BufRead>>;

enum Reading {
    Json(Lines<Box<dyn BufRead>>),
    Csv(FileRecords),
}

impl Rows<'_> {
    /// The next row, or why the input cannot be read further; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<InputRow>, Failure> {
        while let Some(file) = self.input.files.get(self.digests.len()) {
            let (reading, tally) = match &mut self.open {
                Some(open) => open,
                none => {
                    self.begins.push(self.lines);
                    none.insert(self.input.start(file, self.keys)?)
                }
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
                    let (numbers, keys) = (self.numbers, self.keys);
                    let attributes =
                        |fields: csv::Fields<'_>| csv::attributes_of(&fields, numbers, keys);
                    record.map(|(line, fields)| (line, fields.and_then(attributes)))
                }
            };
            if let Some((line, attributes)) = row {
                self.of_file += 1;
                self.lines = self.begins.last().copied().unwrap_or_default() + line;
                let attributes = attributes.map_err(Refused::from);
                let item = attributes.and_then(|attributes| self.keys.item(attributes));
                return Ok(Some(InputRow { number: self.lines, item }));
            }
            if let Some(items) = file.items.filter(|items| *items != self.of_file) {
                let why = format!("holds {} items, and its manifest says {items}", self.of_file);
                return Err(bad(&file.path, &why));
            }
            self.digests.push(tally.digest());
            self.of_all += std::mem::take(&mut self.of_file);
            self.open = None;
        }
        let (found, summary) = (self.of_all, manifest::SUMMARY);
        let Some(items) = self.input.items.filter(|items| *items != found) else { return Ok(None) };
        let detail = format!(
            "the data files hold {found} items, and {summary} says {items}: was everything downloaded?"
        );
        Err(Failure { code: INPUT_FAILED, detail })
    }
}

/// What is read of a file, hashed.
#[derive(Clone, Default)]
pub(in crate::operator) struct Tally(Arc<Mutex<Xxh64>>);

impl Tally {
    fn digest(&self) -> u64 {
        self.0.lock().digest()
    }
}

struct Hashing<R>(R, Tally);

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.0.lock().update(&buffer[..read]);
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
    let mut text: Box<dyn BufRead> = Box::new(BufReader::with_capacity(BUFFER_BYTES, file));
    if text.fill_buf()?.starts_with(GZIP) {
        text = Box::new(BufReader::with_capacity(BUFFER_BYTES, Members::new(text)));
    }
    if text.fill_buf()?.starts_with(MARK) {
        text.consume(MARK.len());
    }
    Ok((text, tally))
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
        let mut numbered = Vec::new();
        while let Some(row) = rows.next().expect("it reads") {
            let item = row.item.expect("an item");
            numbered.push((row.number, format!("{:?} {:?}", item.key(), item.attributes())));
        }
        assert_eq!(rows.digests.len(), input.files.len());
        let found = numbered.into_iter().map(|(number, item)| {
            let RowPlace { file, line } = input.place(&rows.begins, number);
            let file = input.files.iter().position(|other| Some(&*other.name) == file);
            (file.expect("a file"), line.expect("a line"), item)
        });
        found.collect()
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
        write(".DS_Store", "hidden");
        write("._b.jsonl", "hidden");
        write("_SUCCESS", "");
        let input = Input::find(directory.path(), None).expect("files");
        let places = rows(&input).into_iter().map(|(file, line, _)| (file, line));
        assert_eq!(places.collect::<Vec<_>>(), [(0, 1), (0, 3), (1, 1)]);
        write("c.csv", "pk,sk\na,4\n");
        let mixed = Input::find(directory.path(), None).expect_err("two forms");
        assert!(mixed.detail.contains("--format"), "{mixed}");
        let chosen = Input::find(directory.path(), Some(Format::Csv)).expect("files");
        assert_eq!(rows(&chosen).len(), 1);
        assert_eq!(chosen.left_out, ["a.ndjson", "b.jsonl"]);
    }

    /// A directory of which one file was read passed for a whole one.
    #[test]
    fn regression_what_a_directory_holds_beside_its_files_was_passed_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str| fs::write(path(name), "{\"pk\":\"a\",\"sk\":\"1\"}\n");
        write("a.jsonl").expect("it writes");
        for name in ["day=02", "more.jsonl.d", "c.jsonl"] {
            fs::create_dir(path(name)).expect("a directory");
        }
        write("day=02/b.jsonl").expect("it writes");
        write("notes.txt").expect("it writes");
        std::os::unix::fs::symlink(path("nothing"), path("link.jsonl")).expect("a link");
        let refused = Input::find(directory.path(), None).expect_err("refused");
        let all = "c.jsonl/, day=02/, link.jsonl, more.jsonl.d/, notes.txt;";
        assert!(refused.detail.contains(all), "{refused}");
        let chosen = Input::find(directory.path(), Some(Format::JsonLines)).expect("files");
        assert_eq!((rows(&chosen).len(), chosen.left_out.len()), (1, 5));
    }

    /// It waited for a writer, and the second reading for ever.
    #[test]
    fn regression_what_can_be_read_once_was_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rows.jsonl");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
        for input in [path.as_path(), Path::new("/dev/null")] {
            let refused = Input::find(input, Some(Format::JsonLines)).expect_err("refused");
            assert!(refused.detail.contains("is read twice"), "{refused}");
        }
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
