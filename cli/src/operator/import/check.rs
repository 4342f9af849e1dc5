//! The first pass over the files: nothing is written before each row was looked at.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dynashard_core::{Code, NewItem};
use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use xxhash_rust::xxh64::Xxh64;

use super::ROWS_REFUSED;
use super::files::INPUT_FAILED;
use super::input::Input;
use super::refused::{Refusals, RowPlace};
use super::row::Keys;
use crate::operator::Failure;

/// What the first pass has found.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// All rows, the refused ones included.
    pub(super) rows: u64,
    /// The rows that may be written.
    pub(super) accepted: u64,
    /// Of the rows whose key an earlier row has, their numbers from 0.
    pub(super) repeated: BTreeSet<u64>,
    /// A hash of what is in each file.
    pub(super) digests: Vec<u64>,
}

/// What goes on in a pass, for whoever waits for it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) rows: AtomicU64,
    /// Whether the pass is to end early.
    pub(super) is_cancelled: AtomicBool,
}

impl Watch {
    pub(super) fn goes_on(&self) -> bool {
        !self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Looks at each row, and finds the keys that occur twice: that takes 16 bytes of memory a row. `examine`
/// is shown each partition key, again and again. The seed makes the hashes unforeseeable.
pub(super) fn check(
    input: &Input,
    keys: &Keys,
    numbers: &BTreeSet<String>,
    seed: u64,
    refusals: &mut Refusals,
    watch: &Watch,
    mut examine: impl FnMut(&PartitionKey),
) -> Result<Checked, Failure> {
    let mut checked = Checked::default();
    let mut hashes = Hashes::default();
    let mut rows = input.rows(keys, numbers);
    while watch.goes_on()
        && let Some(row) = rows.next()?
    {
        match row.item {
            Ok(item) => {
                examine(&item.key().partition);
                hashes.0.push((hash(item.key(), seed), checked.rows));
                checked.accepted += 1;
            }
            Err(failure) => refusals.add(place(input, row.file, row.line), None, &failure),
        }
        checked.rows += 1;
        watch.rows.store(checked.rows, Ordering::Relaxed);
    }
    checked.digests = rows.digests().to_vec();
    let (suspects, lists_all) = hashes.suspects(MOST_SUSPECTS);
    if watch.goes_on() && !suspects.is_empty() {
        checked.repeated = repeated(input, keys, numbers, &suspects, refusals, watch)?;
        checked.accepted -= u64::try_from(checked.repeated.len()).unwrap_or(0);
    }
    if watch.goes_on() && !lists_all {
        let detail = format!(
            "at least {} rows cannot be taken: the keys of more than {MOST_SUSPECTS} rows occur twice, and \
             no more are looked for. Do --pk and --sk name the fields of the key?",
            refusals.count()
        );
        return Err(Failure { code: ROWS_REFUSED, detail });
    }
    Ok(checked)
}

/// Looks at the suspected rows once more: equal hashes do not prove equal keys. The first row with a key
/// stays, and the later ones are refused.
fn repeated(
    input: &Input,
    keys: &Keys,
    numbers: &BTreeSet<String>,
    suspects: &BTreeSet<u64>,
    refusals: &mut Refusals,
    watch: &Watch,
) -> Result<BTreeSet<u64>, Failure> {
    let mut first = HashMap::<ItemKey, (usize, u64)>::new();
    let mut repeated = BTreeSet::new();
    let mut rows = input.rows(keys, numbers);
    let mut number = 0;
    while watch.goes_on()
        && let Some(row) = rows.next()?
    {
        if suspects.contains(&number)
            && let Ok(item) = row.item
        {
            match first.get(item.key()) {
                None => {
                    first.insert(item.key().clone(), (row.file, row.line));
                }
                Some((file, line)) => {
                    let of = match input.files.get(*file) {
                        Some(other) if *file != row.file => format!(" of {}", other.name),
                        _ => String::new(),
                    };
                    let detail = format!("the key is that of line {line}{of}");
                    let failure = Failure { code: Code::DuplicateKey.as_str(), detail };
                    refusals.add(place(input, row.file, row.line), Some(item.key()), &failure);
                    repeated.insert(number);
                }
            }
        }
        number += 1;
    }
    Ok(repeated)
}

fn place(input: &Input, file: usize, line: u64) -> RowPlace<'_> {
    RowPlace { file: input.files.get(file).map(|file| file.name.as_str()), line: Some(line) }
}

/// The hash of each key, and the number of its row.
#[derive(Debug, Default)]
struct Hashes(Vec<(u64, u64)>);

/// So many rows are looked at once more, with their keys in memory.
const MOST_SUSPECTS: usize = 100_000;

impl Hashes {
    /// The rows whose hash another row has, and whether these are all: of many more than `most` some are
    /// left out.
    fn suspects(mut self, most: usize) -> (BTreeSet<u64>, bool) {
        self.0.sort_unstable();
        let mut pairs = self.0.windows(2).filter_map(|pair| match pair {
            [one, other] if one.0 == other.0 => Some([one.1, other.1]),
            _ => None,
        });
        let mut suspects = BTreeSet::new();
        while suspects.len() < most
            && let Some(pair) = pairs.next()
        {
            suspects.extend(pair);
        }
        (suspects, pairs.next().is_none())
    }
}

fn hash(key: &ItemKey, seed: u64) -> u64 {
    let mut hash = Xxh64::new(seed);
    hash.update(key.partition.as_str().as_bytes());
    // No UTF-8 holds it.
    hash.update(&[0xff]);
    match &key.sort {
        SortKey::String(text) => hash.update(text.as_bytes()),
        SortKey::Number(number) => hash.update(number.to_string().as_bytes()),
    }
    hash.digest()
}

/// The rows of the second pass: those that the first has accepted, each with its number, until `take` does
/// not want any more.
pub(super) fn accepted(
    input: &Input,
    keys: &Keys,
    numbers: &BTreeSet<String>,
    checked: &Checked,
    mut take: impl FnMut(u64, RowPlace<'_>, NewItem) -> bool,
) -> Result<(), Failure> {
    let mut rows = input.rows(keys, numbers);
    let mut number = 0;
    while let Some(row) = rows.next()? {
        if let Ok(item) = row.item
            && !checked.repeated.contains(&number)
            && !take(number, place(input, row.file, row.line), item)
        {
            return Ok(());
        }
        number += 1;
    }
    if rows.digests() == checked.digests {
        return Ok(());
    }
    let detail = "the input has changed since it was checked; import what it is now by itself";
    Err(Failure { code: INPUT_FAILED, detail: detail.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input of which each row has the same key filled the memory.
    #[test]
    fn regression_rows_with_one_key_filled_the_memory() {
        let of = |rows: u64, most| Hashes((0..rows).map(|row| (7, row)).collect()).suspects(most);
        assert_eq!(of(4, 4), (BTreeSet::from([0, 1, 2, 3]), true));
        let (suspects, are_all) = of(1_000, 4);
        assert_eq!((suspects.len(), are_all), (4, false));
        let (suspects, are_all) = Hashes(vec![(1, 0), (2, 1), (3, 2)]).suspects(4);
        assert!(suspects.is_empty() && are_all);
    }
}
