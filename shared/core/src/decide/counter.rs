//! Which cell of a counter takes an add, what it borrows, and how many cells there are to be.

/// The most cells of a counter. Whoever reads it reads all of them, and a transaction that doubles them has at most 100 parts.
const MAX_CELLS: u16 = 128;

/// How long the count of cells rests after it has grown, in seconds: whoever is throttled learns of the new ones meanwhile.
const REST_SECS: u64 = 2;

/// How an add gets the room that its cell lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Borrow {
    /// The cell has it by now.
    Enough,
    /// So much of it comes from this cell.
    From(u16, i128),
    /// All cells together have too little.
    TooLittle,
}

/// The cell for an add, given a uniformly random `draw`.
pub(crate) fn choose(cells: u16, draw: u64) -> u16 {
    let cell = (u128::from(draw) * u128::from(cells)) >> 64;
    u16::try_from(cell).unwrap_or_default()
}

/// What `cell` borrows that needs so much room, where the cells have these.
///
/// It takes from the one that has most, so that the two have as much as each other: so the next adds need not borrow. It takes more
/// where it needs more.
pub(crate) fn borrow(rooms: &[i128], cell: u16, needs: i128) -> Borrow {
    let own = rooms.get(usize::from(cell)).copied().unwrap_or_default();
    if own >= needs {
        return Borrow::Enough;
    }
    let others = (0..).zip(rooms).filter(|(other, _)| *other != cell);
    let richest = others.max_by_key(|(_, room)| **room);
    match richest {
        Some((from, room)) if rooms.iter().sum::<i128>() >= needs => {
            let half = (room - own + 1) / 2;
            Borrow::From(from, half.max(needs - own).min(*room))
        }
        _ => Borrow::TooLittle,
    }
}

/// How many cells there are to be of a counter that a partition throttles. `None` where it rests, or has the most.
pub(crate) fn grown(cells: u16, grown_at_secs: u64, now_secs: u64) -> Option<u16> {
    let is_rested = now_secs >= grown_at_secs.saturating_add(REST_SECS);
    (is_rested && cells < MAX_CELLS).then(|| cells.saturating_mul(2).min(MAX_CELLS))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_cell_is_chosen_as_often_as_another() {
        assert_eq!((choose(1, 0), choose(1, u64::MAX)), (0, 0));
        let draws = (0..300).map(|n| choose(3, u64::MAX / 300 * n + 1_000)).collect::<Vec<_>>();
        for cell in 0..3 {
            assert_eq!(draws.iter().filter(|drawn| **drawn == cell).count(), 100, "cell {cell}");
        }
    }

    #[test]
    fn a_cell_borrows_half_of_the_difference_or_what_it_lacks() {
        assert_eq!(borrow(&[10, 0], 1, 1), Borrow::From(0, 5));
        assert_eq!(borrow(&[10, 0], 1, 8), Borrow::From(0, 8));
        assert_eq!(borrow(&[5, 2, 4], 1, 10), Borrow::From(0, 5), "and then from the next");
        assert_eq!(borrow(&[5, 2, 4], 1, 12), Borrow::TooLittle);
        assert_eq!(borrow(&[0, 3], 1, 3), Borrow::Enough);
        assert_eq!(borrow(&[3], 0, 4), Borrow::TooLittle);
    }

    #[test]
    fn cells_double_when_they_have_rested_up_to_the_most() {
        assert_eq!(grown(1, 0, 1_000), Some(2));
        assert_eq!(grown(2, 999, 1_000), None);
        assert_eq!(grown(96, 998, 1_000), Some(128));
        assert_eq!(grown(128, 0, 1_000), None);
    }

    proptest! {
        /// An add is refused where all cells have too little, and otherwise gets what it needs in as many steps as there are cells.
        #[test]
        fn whatever_the_whole_covers_is_covered(
            rooms in prop::collection::vec(0_i128..50, 1..9), cell in 0_u16..8, needs in 0_i128..200,
        ) {
            let cell = cell % u16::try_from(rooms.len()).expect("few");
            let mut after = rooms.clone();
            let mut steps = 0;
            let is_covered = loop {
                match borrow(&after, cell, needs) {
                    Borrow::Enough => break true,
                    Borrow::TooLittle => break false,
                    Borrow::From(other, amount) => {
                        prop_assert!(other != cell && amount > 0);
                        after[usize::from(other)] -= amount;
                        after[usize::from(cell)] += amount;
                    }
                }
                steps += 1;
                prop_assert!(steps < rooms.len() && after.iter().all(|room| *room >= 0));
            };
            prop_assert_eq!(is_covered, rooms.iter().sum::<i128>() >= needs);
        }
    }
}
