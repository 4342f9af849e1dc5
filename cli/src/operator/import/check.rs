//! The first pass over the files: nothing is written before each row was looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dynashard_core::{Code, NewItem};
use dynashard_keys::ItemKey;

use super::ROWS_REFUSED;
use super::files::INPUT_FAILED;
use super::input::{Input, Rows};
use super::refused::{Refusals, RowPlace};
use super::row::{Keys, Refused};
use crate::operator::Failure;

/// What is imported, as the first pass has found it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) input: Input,
    pub(super) keys: Keys,
    /// The columns of numbers.
    pub(super) numbers: BTreeSet<String>,
    /// How many rows there are, the refused ones included, and how many may be written.
    pub(super) rows: u64,
    pub(super) accepted: u64,
    /// Of the rows whose key an earlier row has, their numbers.
    repeated: BTreeSet<u64>,
    /// How many lines lie before each file.
    begins: Vec<u64>,
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
    fn goes_on(&self) -> bool {
        !self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Looks at each row, and finds the keys that occur twice. The columns of numbers may have been named.
pub(super) fn check(
    input: Input,
    keys: Keys,
    columns: Option<BTreeSet<String>>,
    refusals: &mut Refusals,
    watch: &Watch,
) -> Result<Source, Failure> {
    let numbers = match columns {
        Some(columns) => input.named_columns(columns)?,
        None => input.infer_numbers(|| watch.goes_on())?,
    };
    let mut seen = Seen::default();
    let (mut count, mut accepted) = (0, 0);
    let mut rows = input.rows(&keys, &numbers);
    while watch.goes_on()
        && let Some(row) = rows.next()?
    {
        match row.item {
            Ok(item) => {
                seen.note(item.key(), row.number);
                accepted += 1;
            }
            Err(Refused { key, failure }) => {
                refusals.add(input.place(&rows.begins, row.number), key.as_ref(), &failure);
            }
        }
        count += 1;
        watch.rows.store(count, Ordering::Relaxed);
    }
    let Rows { begins, digests, .. } = rows;
    let (repeated, are_all) = seen.repeated(MOST_REPEATED);
    for (number, first) in &repeated {
        let [place, first] = [number, first].map(|number| input.place(&begins, *number));
        let of = first.file.filter(|file| Some(*file) != place.file);
        let of = of.map_or_else(String::new, |file| format!(" of {file}"));
        let detail = format!("the key is that of line {}{of}", first.line.unwrap_or_default());
        refusals.add(place, None, &Failure { code: Code::DuplicateKey.as_str(), detail });
    }
    if watch.goes_on() && !are_all {
        let detail = format!(
            "at least {} rows cannot be taken: the keys of more than {MOST_REPEATED} rows occur twice, and \
             no more are looked for. Do --pk and --sk name the fields of the key?",
            refusals.count
        );
        return Err(Failure { code: ROWS_REFUSED, detail });
    }
    accepted -= u64::try_from(repeated.len()).unwrap_or(0);
    let repeated = repeated.into_keys().collect();
    Ok(Source { input, keys, numbers, rows: count, accepted, repeated, begins, digests })
}

impl Source {
    /// Where the row of this number stands.
    pub(super) fn place(&self, number: u64) -> RowPlace<'_> {
        self.input.place(&self.begins, number)
    }

    /// The rows of the second pass: those that the first has accepted, each with its number, until `take` does
    /// not want any more.
    pub(super) fn each(&self, mut take: impl FnMut(u64, NewItem) -> bool) -> Result<(), Failure> {
        let mut rows = self.input.rows(&self.keys, &self.numbers);
        while let Some(row) = rows.next()? {
            if let Ok(item) = row.item
                && !self.repeated.contains(&row.number)
                && !take(row.number, item)
            {
                return Ok(());
            }
        }
        if rows.digests == self.digests {
            return Ok(());
        }
        let detail = "the input has changed since it was checked; import what it is now by itself";
        Err(Failure { code: INPUT_FAILED, detail: detail.to_owned() })
    }
}

/// The rows by 88 bits of a hash of their keys, whose seed nobody knows, before 40 bits of their numbers. Of 10^8 rows
/// two keys have the same hash by a chance of 10^-11.
#[derive(Debug, Default)]
struct Seen {
    rows: Vec<u128>,
    hashers: [RandomState; 2],
}

const NUMBER_BITS: u32 = 40;

/// So many rows whose keys occur twice are told of.
const MOST_REPEATED: usize = 100_000;

impl Seen {
    fn note(&mut self, key: &ItemKey, number: u64) {
        let [high, low] = self.hashers.each_ref().map(|hasher| u128::from(hasher.hash_one(key)));
        let hash = (high << 64 | low) >> NUMBER_BITS << NUMBER_BITS;
        self.rows.push(hash | u128::from(number) & ((1 << NUMBER_BITS) - 1));
    }

    /// The rows whose key an earlier row has, each with the first that has it, and whether these are all: of many more
    /// than `most` some are left out.
    fn repeated(mut self, most: usize) -> (BTreeMap<u64, u64>, bool) {
        self.rows.sort_unstable();
        let number = |row: u128| u64::try_from(row & ((1 << NUMBER_BITS) - 1)).unwrap_or_default();
        let mut repeated = BTreeMap::new();
        for group in self.rows.chunk_by(|one, other| one >> NUMBER_BITS == other >> NUMBER_BITS) {
            for row in &group[1..] {
                if repeated.len() == most {
                    return (repeated, false);
                }
                repeated.insert(number(*row), number(group[0]));
            }
        }
        (repeated, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(keys: &[&str], most: usize) -> (Vec<(u64, u64)>, bool) {
        let mut seen = Seen::default();
        for (key, number) in keys.iter().zip(1..) {
            let partition = dynashard_keys::PartitionKey::new(key).expect("a key");
            let sort = dynashard_keys::SortKey::string("1").expect("a key");
            seen.note(&ItemKey::new(partition, sort), number);
        }
        let (repeated, are_all) = seen.repeated(most);
        (repeated.into_iter().collect(), are_all)
    }

    #[test]
    fn of_rows_with_one_key_the_first_stays() {
        let found = repeated(&["a", "b", "a", "c", "b", "a"], 3);
        assert_eq!(found, (vec![(3, 1), (5, 2), (6, 1)], true));
    }

    /// An input of which each row has the same key filled the memory.
    #[test]
    fn regression_rows_with_one_key_filled_the_memory() {
        assert_eq!(repeated(&["a"; 1_000], 4).0.len(), 4);
        assert!(!repeated(&["a"; 1_000], 4).1);
    }
}
