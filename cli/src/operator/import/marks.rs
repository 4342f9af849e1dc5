//! Which rows are certainly written, and which may have been.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::counts::{Counts, Done};

/// How far an import has come, as its state file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Progress {
    /// Of files.
    Rows(RowProgress),
    /// Of a table, each of its segments.
    Segments(Vec<SegmentProgress>),
}

/// How far files are written. Rows have numbers from 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct RowProgress {
    /// No row from this one on was sent.
    read_to: u64,
    /// The rows before that were not sent.
    waiting: Ranges,
    /// The rows before that may have been written. All others are.
    in_doubt: Ranges,
}

/// How far a segment of a table is written. Keys are DynamoDB JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct SegmentProgress {
    /// Everything up to this key is written.
    pub(super) after: Option<String>,
    pub(super) in_doubt: DoubtTo,
    /// All of it is written.
    pub(super) is_complete: bool,
}

/// How far the rows behind `after` may have been written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DoubtTo {
    /// None of them was sent.
    #[default]
    Nothing,
    /// Up to this key.
    Key(String),
    /// To the end of the segment.
    End,
}

/// Ascending ranges of numbers, as pairs: how many lie between it and the one before, and how many it has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Ranges(Vec<u64>);

impl Ranges {
    fn of(numbers: impl Iterator<Item = u64>) -> Self {
        let mut pairs = Vec::new();
        // What follows the last range.
        let mut end = 0;
        for number in numbers {
            match pairs.last_mut() {
                Some(length) if number == end => *length += 1,
                _ => pairs.extend([number - end, 1]),
            }
            end = number + 1;
        }
        Self(pairs)
    }

    /// The end of each range by its beginning.
    fn by_begin(&self) -> BTreeMap<u64, u64> {
        let mut end = 0_u64;
        let ranges = self.0.chunks_exact(2).filter_map(|pair| match pair {
            [gap, length] => {
                let begin = end.saturating_add(*gap);
                end = begin.saturating_add(*length);
                Some((begin, end))
            }
            _ => None,
        });
        ranges.collect()
    }
}

/// What is known of a row when an import goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Written,
    InDoubt,
    NotSent,
}

/// What an earlier run has left to do.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    read_to: u64,
    waiting: BTreeMap<u64, u64>,
    in_doubt: BTreeMap<u64, u64>,
}

impl Before {
    pub(super) fn of(progress: &RowProgress) -> Self {
        let RowProgress { read_to, waiting, in_doubt } = progress;
        Self { read_to: *read_to, waiting: waiting.by_begin(), in_doubt: in_doubt.by_begin() }
    }

    pub(super) fn standing(&self, number: u64) -> Standing {
        let lies_in = |ranges: &BTreeMap<u64, u64>| {
            ranges.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
        };
        if number >= self.read_to || lies_in(&self.waiting) {
            Standing::NotSent
        } else if lies_in(&self.in_doubt) {
            Standing::InDoubt
        } else {
            Standing::Written
        }
    }
}

/// What is to be noted down of the rows that are read and not certainly written.
#[derive(Debug)]
pub(super) enum Marks {
    Rows(RowMarks),
    Pages(PageMarks),
}

/// Of the rows of files.
#[derive(Debug, Default)]
pub(super) struct RowMarks {
    read_to: u64,
    /// Whether each row may have been sent.
    pending: BTreeMap<u64, bool>,
    counts: Counts,
}

/// Of the pages of a table.
#[derive(Debug, Default)]
pub(super) struct PageMarks {
    segments: Vec<SegmentMarks>,
    /// The segment of each page by the number of its first row.
    pages: BTreeMap<u64, usize>,
    /// Of the pages that are not read again: whatever else was counted would be counted twice.
    counts: Counts,
}

#[derive(Debug, Default)]
struct SegmentMarks {
    progress: SegmentProgress,
    pages: VecDeque<Page>,
}

/// A page whose rows are not all certainly written.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) segment: usize,
    /// The number of its first row. No two pages have the same, also if one has no rows.
    pub(super) first: u64,
    /// How many of its rows are not certainly written.
    pub(super) left: u64,
    /// The key behind which the next page begins.
    pub(super) end: Option<String>,
    /// Whether a row of it may have been sent.
    pub(super) is_sent: bool,
    /// Whether nothing behind it was in doubt before.
    pub(super) ends_doubt: bool,
    /// What became of its rows so far.
    pub(super) counts: Counts,
}

impl Marks {
    /// A row was read.
    pub(super) fn read(&mut self, number: u64, in_doubt: bool) {
        match self {
            Self::Rows(marks) => {
                marks.read_to = marks.read_to.max(number + 1);
                marks.pending.insert(number, in_doubt);
            }
            Self::Pages(_) if in_doubt => self.sent(number),
            Self::Pages(_) => {}
        }
    }

    /// A row may be sent from now on.
    pub(super) fn sent(&mut self, number: u64) {
        match self {
            Self::Rows(marks) => {
                marks.pending.insert(number, true);
            }
            Self::Pages(marks) => {
                if let Some(page) = marks.page(number) {
                    page.is_sent = true;
                }
            }
        }
    }

    /// Nothing is left to do for a row: mostly it is certainly written.
    pub(super) fn done(&mut self, number: u64, done: Done) {
        match self {
            Self::Rows(marks) => {
                marks.pending.remove(&number);
                marks.counts.add(done);
            }
            Self::Pages(marks) => {
                if let Some(page) = marks.page(number) {
                    page.left -= 1;
                    page.counts.add(done);
                    let segment = page.segment;
                    marks.settle(segment);
                }
            }
        }
    }

    /// What became of the rows that no later run looks at again.
    pub(super) fn counts(&self) -> Counts {
        match self {
            Self::Rows(marks) => marks.counts,
            Self::Pages(marks) => marks.counts,
        }
    }

    /// What a state file is to hold.
    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Rows(marks) => {
                let of = |sent: bool| {
                    let rows = marks.pending.iter().filter(move |(_, is_sent)| **is_sent == sent);
                    Ranges::of(rows.map(|(number, _)| *number))
                };
                let (waiting, in_doubt) = (of(false), of(true));
                Progress::Rows(RowProgress { read_to: marks.read_to, waiting, in_doubt })
            }
            Self::Pages(marks) => {
                Progress::Segments(marks.segments.iter().map(SegmentMarks::progress).collect())
            }
        }
    }
}

impl RowMarks {
    /// Of an import that goes on: what was read before and not yet now is still to be done.
    pub(super) fn from(before: &Before, counts: Counts) -> Self {
        let open = |ranges: &BTreeMap<u64, u64>, sent: bool| {
            let numbers = ranges.iter().flat_map(|(begin, end)| *begin..*end);
            numbers.map(|number| (number, sent)).collect::<Vec<_>>()
        };
        let pending = open(&before.waiting, false).into_iter().chain(open(&before.in_doubt, true));
        Self { read_to: before.read_to, pending: pending.collect(), counts }
    }
}

impl PageMarks {
    pub(super) fn from(before: &[SegmentProgress], counts: Counts) -> Self {
        let segment = |progress: &SegmentProgress| SegmentMarks {
            progress: progress.clone(),
            pages: VecDeque::new(),
        };
        Self { segments: before.iter().map(segment).collect(), pages: BTreeMap::new(), counts }
    }

    /// A page was read. Its rows follow.
    pub(super) fn read(&mut self, page: Page) {
        let segment = page.segment;
        self.pages.insert(page.first, segment);
        if let Some(marks) = self.segments.get_mut(segment) {
            if page.ends_doubt {
                marks.progress.in_doubt = DoubtTo::Nothing;
            }
            marks.pages.push_back(page);
        }
        self.settle(segment);
    }

    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let (first, segment) = self.pages.range(..=number).next_back()?;
        let pages = &mut self.segments.get_mut(*segment)?.pages;
        pages.iter_mut().find(|page| page.first == *first)
    }

    /// Takes note of the pages at the front of which all rows are written.
    fn settle(&mut self, segment: usize) {
        let Some(marks) = self.segments.get_mut(segment) else { return };
        while let Some(page) = marks.pages.pop_front_if(|page| page.left == 0) {
            self.pages.remove(&page.first);
            self.counts = self.counts.plus(page.counts);
            let progress = &mut marks.progress;
            progress.is_complete = page.end.is_none();
            progress.after = page.end;
        }
    }
}

impl SegmentMarks {
    fn progress(&self) -> SegmentProgress {
        let last = self.pages.iter().rev().find(|page| page.is_sent);
        let in_doubt = match (last.map(|page| &page.end), &self.progress.in_doubt) {
            // What an earlier run has sent lies behind all that was read again.
            (_, before @ (DoubtTo::Key(_) | DoubtTo::End)) => before.clone(),
            (Some(Some(key)), DoubtTo::Nothing) => DoubtTo::Key(key.clone()),
            (Some(None), DoubtTo::Nothing) => DoubtTo::End,
            (None, DoubtTo::Nothing) => DoubtTo::Nothing,
        };
        SegmentProgress { in_doubt, ..self.progress.clone() }
    }
}

#[cfg(test)]
mod tests;
