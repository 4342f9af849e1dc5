//! The query: window by window, each in one epoch of the metadata under which it is read.
//!
//! In an epoch at rest a window asks the shards of its count. In the one that moves it asks the destination, and then the
//! source. It ends where a page ends that has not come to the end of the epoch, and the next one begins there, under
//! whatever metadata its environment has.

use super::state::{Cell, Interval, KEYS, Page, Shard, SortKey, State};
use super::{Epoch, EpochsModel};
use crate::mutation::Mutation;
use crate::schedule::Revision;

impl EpochsModel {
    /// The query reads its next page, and ends the window if that was the last.
    pub(super) fn read_page(&self, state: &mut State, revision: Revision) {
        let acknowledged = state.acknowledged;
        let since = || acknowledged.map(|version| Some(version.is_some()));
        state.reader.since.get_or_insert_with(since);
        let epoch = self.epoch_read(revision, state.reader.covered);
        let shards = shards(epoch);
        let first = state.reader.window.take().map(|(_, page)| page);
        let page = self.page(state, shards[usize::from(first.is_some())], epoch);
        // What is ahead of the metadata has the window read again.
        let generation = Self::generation(revision);
        if page.cells.iter().any(|(_, cell)| cell.is_ahead_of(generation)) {
            return;
        }
        if first.is_none() && shards.len() == 2 {
            state.reader.window = Some((revision, page));
            return;
        }
        let pages = first.into_iter().chain([page]).collect::<Vec<_>>();
        let covered = pages.iter().map(|page| page.covered).min().expect("a window has pages");
        for key in (state.reader.covered..covered).map(|at| SortKey::behind(at, self.ascending)) {
            let mut found = Vec::new();
            for (page, shard) in pages.iter().zip(shards) {
                // What is not at home under either count does not count.
                if [epoch.old, epoch.new].iter().any(|count| key.home(*count) == *shard) {
                    found.extend(page.cells.iter().filter(|(of, _)| *of == key).map(|(_, it)| *it));
                }
            }
            let is_there = |found: &[Cell]| found.iter().any(|cell| cell.is_live());
            // A marker without its item: it has moved since its destination was read.
            if epoch.moves() && !is_there(&found) && found.contains(&Cell::Marker(generation)) {
                found = Shard::BOTH.map(|shard| state.cell(key, shard)).to_vec();
            }
            if is_there(&found) {
                state.reader.returned.push(key);
            }
        }
        let is_at_end = covered == epoch.keys.covered(self.ascending) && covered < KEYS;
        let skips = self.has(Mutation::CursorSkipsBoundary) && is_at_end && !self.ascending;
        state.reader.covered = covered + u8::from(skips);
    }

    /// The epoch of the next window.
    fn epoch_read(&self, revision: Revision, covered: u8) -> Epoch {
        let of = |key| self.epoch(revision, key);
        let key = SortKey::behind(covered, self.ascending);
        match self.mutation {
            Some(Mutation::WindowAcrossBoundary) => {
                Epoch { keys: Interval::WHOLE, ..of(self.route[0].0.first) }
            }
            Some(Mutation::QueryOfFirstEpoch) => Epoch { keys: of(key).keys, ..of(SortKey(0)) },
            Some(Mutation::QueryBoundaryOffByOne) => {
                let epoch = of(if key == SortKey::BOUNDARY { key.next() } else { key });
                Epoch { keys: epoch.keys.off_by_one(), ..epoch }
            }
            _ => of(key),
        }
    }

    /// `Query` of one shard up to the end of an epoch: `limit` entries are evaluated, markers included.
    fn page(&self, state: &State, shard: Shard, epoch: Epoch) -> Page {
        let end = epoch.keys.covered(self.ascending);
        let mut cells = Vec::new();
        for at in state.reader.covered..end {
            let key = SortKey::behind(at, self.ascending);
            let cell = state.cell(key, shard);
            if cell != Cell::Absent {
                cells.push((key, cell));
            }
            if cells.len() == self.limit {
                return Page { cells, covered: at + 1 };
            }
        }
        Page { cells, covered: end }
    }
}

/// The shards in the order in which they are read.
fn shards(epoch: Epoch) -> &'static [Shard] {
    match (epoch.old, epoch.new) {
        (1, 1) => &[Shard::First],
        // The destination comes before the source.
        (1, 2) => &[Shard::Second, Shard::First],
        _ => &Shard::BOTH,
    }
}
