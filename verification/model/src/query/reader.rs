//! The query: pages of every shard, from one watermark to the next.
//!
//! A round reads a page of each shard from the same start, emits what all of them cover, and begins the next round
//! where that ends. While a reshard runs the destinations are read before the sources: what a source still has then,
//! nothing had replaced when the destination was read, and what has moved since has left a marker. One source, the
//! pilot, is read before them to say how far the round goes. It is read once more behind them, unless each item that
//! it has to move was at its destination.

use super::state::{Cell, ITEMS, Page, Reader, Shard, SortKey, State};
use super::{Layout, QueryModel, SourceIs};
use crate::mutation::Mutation;
use crate::schedule::Phase;

impl QueryModel {
    /// The query reads its next page, and ends the round if it was the last.
    pub(super) fn read_page(&self, state: &mut State) {
        if !state.reader.lease_runs {
            state.reader.revision = state.read_directory();
            state.reader.lease_runs = true;
        }
        if state.reader.replaced.is_none() {
            let replaced = SortKey::all().filter(|key| state.item(*key).is_live_twice());
            state.reader.replaced = Some(replaced.collect());
        }
        let layout = self.layout(state.reader.revision);
        let shards = self.shards(layout);
        let shard = shards[state.reader.pages.len()];
        let found = self.page(state, shard);
        if self.is_behind(layout, &found.cells) {
            state.reader.lose_lease();
            return;
        }
        let page = Self::judge(layout, shard, &found);
        state.reader.pages.push(page);
        let read = state.reader.pages.len();
        let is_pilot_enough = layout.phase != Phase::Stable && self.is_pilot_enough(&state.reader);
        if read == shards.len() || is_pilot_enough {
            self.end_round(layout, &mut state.reader);
        }
    }

    /// Whether the destination has each item that the pilot has to move, as far as both have come.
    fn is_pilot_enough(&self, reader: &Reader) -> bool {
        let [pilot, destination] = &reader.pages[..] else { return false };
        let until = self.covered_until(reader);
        let unsure =
            |key: &SortKey| Self::moves(*key) && *key < until && !destination.live.contains(key);
        self.source_is == SourceIs::Pilot
            && (self.has(Mutation::QueryTrustsPilot) || !pilot.live.iter().any(unsure))
    }

    /// The query asks for an item by a transaction, which is refused while another one is half visible.
    pub(super) fn resolve(state: &mut State) {
        let key = state.reader.unresolved.remove(0);
        let item = state.item(key);
        if item.first.is_live() || item.second.is_live() {
            state.reader.returned.push(key);
            state.reader.returned.sort_unstable();
        }
    }

    /// The shards in the order in which they are read.
    fn shards(&self, layout: Layout) -> Vec<Shard> {
        match layout.phase {
            Phase::Stable if layout.new == Shard::First => vec![Shard::First],
            Phase::Stable => vec![Shard::First, Shard::Second],
            _ if self.source_is == SourceIs::Pilot => vec![layout.old, layout.new, layout.old],
            _ if self.has(Mutation::QuerySourcesFirst) => vec![layout.old, layout.new],
            _ => vec![layout.new, layout.old],
        }
    }

    /// `Query` of one shard: `limit` entries are evaluated, markers included.
    fn page(&self, state: &State, shard: Shard) -> Found {
        let mut found = Found { cells: Vec::new(), covers_until: SortKey(ITEMS) };
        for key in SortKey::all().skip(usize::from(state.reader.from.0)) {
            let cell = state.item(key).cell(shard);
            if cell == Cell::Absent {
                continue;
            }
            found.cells.push((key, cell));
            if found.cells.len() == self.limit {
                found.covers_until = SortKey(key.0 + 1);
                break;
            }
        }
        found
    }

    fn is_behind(&self, layout: Layout, cells: &[(SortKey, Cell)]) -> bool {
        let ahead = |cell: Cell| cell.generation().is_some_and(|found| found > layout.generation);
        !self.has(Mutation::QueryIgnoresGeneration) && cells.iter().any(|&(_, cell)| ahead(cell))
    }

    /// What of a page is returned, and what its markers say. A stable collection's items count at home only.
    fn judge(layout: Layout, shard: Shard, found: &Found) -> Page {
        let counts = |key| layout.phase != Phase::Stable || Self::home(key, layout.new) == shard;
        let live = found.cells.iter().filter(|(key, cell)| cell.is_live() && counts(*key));
        let of_this_reshard = Cell::Marker(layout.generation);
        let markers = found
            .cells
            .iter()
            .filter(|(_, cell)| layout.phase != Phase::Stable && *cell == of_this_reshard);
        Page {
            shard,
            live: live.map(|(key, _)| *key).collect(),
            markers: markers.map(|(key, _)| *key).collect(),
            covers_until: found.covers_until,
        }
    }

    fn covered_until(&self, reader: &Reader) -> SortKey {
        let covers = reader.pages.iter().map(|page| page.covers_until);
        if self.has(Mutation::QueryTakesLargestWatermark) { covers.max() } else { covers.min() }
            .expect("a round has a page of each shard")
    }

    fn end_round(&self, layout: Layout, reader: &mut Reader) {
        let until = self.covered_until(reader);
        // What the pilot had at first is not asked for any more.
        if reader.pages.len() > 2 {
            reader.pages.remove(0);
        }
        let covered = |keys: fn(&Page) -> &Vec<SortKey>| {
            let all = reader.pages.iter().flat_map(keys).copied();
            all.filter(|key| *key < until).collect::<Vec<_>>()
        };
        let mut items = covered(|page| &page.live);
        let mut unresolved = covered(|page| &page.markers);
        items.sort_unstable();
        if !self.has(Mutation::QueryKeepsDuplicates) {
            items.dedup();
        }
        unresolved.retain(|key| !items.contains(key) && !self.has(Mutation::QuerySkipsMarkers));
        let at_destination = |key: &SortKey| {
            let destinations = reader.pages.iter().filter(|page| page.shard == layout.new);
            destinations.into_iter().any(|page| page.live.contains(key))
        };
        let replaced = |key: &SortKey| reader.replaced.iter().flatten().any(|gone| gone == key);
        reader.returned_replaced |= items.iter().any(|key| replaced(key) && !at_destination(key));
        reader.unresolved = unresolved;
        reader.returned.extend(items);
        reader.from = until;
        reader.pages.clear();
    }
}

struct Found {
    cells: Vec<(SortKey, Cell)>,
    covers_until: SortKey,
}
