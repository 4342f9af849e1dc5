//! What the controller publishes, in order: `stable`, and then `forward`, `move` and `stable` again for each reshard.

use std::fmt;

/// A version of the collection's metadata, counted from the first. Each reshard publishes three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(u8);

/// What the metadata says about a reshard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// No reshard runs: every item lies at home.
    Stable,
    /// Writes already leave the old home, and all who still believe in `stable` are waited for.
    Forward,
    /// The mover runs.
    Move,
}

/// Half of the transaction that enlists a collection. Strong reads may see either before the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// The directory, with the collection among those that have metadata.
    Directory,
    /// The metadata, in `forward`.
    Metadata,
}

/// What items and markers carry as `_ds_g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(u8);

/// When a reshard raises the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// With `forward`: the layout that a reshard leads to has the reshard's own generation.
    OncePerReshard,
    /// With `forward` and again with the `stable` that closes it.
    TwicePerReshard,
}

impl Half {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Directory, Self::Metadata];
}

impl Revision {
    /// The `stable` that everything begins with. It is also what a collection without metadata acts as.
    pub const FIRST: Self = Self(0);

    /// The `stable` that closes the given number of reshards.
    pub const fn closing(reshards: u8) -> Self {
        Self(3 * reshards)
    }

    /// The phase that this revision publishes.
    pub const fn phase(self) -> Phase {
        match self.0 % 3 {
            0 => Phase::Stable,
            1 => Phase::Forward,
            _ => Phase::Move,
        }
    }

    /// The revision that is published next.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The revision before this one, if there is any.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// How many reshards have begun, those that have closed included. It is the place in the route of the layout that
    /// a stable collection has, and of the one that a running reshard leads to.
    pub fn reshards_begun(self) -> u8 {
        self.0.div_ceil(3)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} of revision {}", self.phase(), self.0)
    }
}

impl Generation {
    /// The generation before any reshard.
    pub const FIRST: Self = Self(0);
}

impl Numbering {
    /// The generation in force under a revision.
    pub fn generation(self, revision: Revision) -> Generation {
        let begun = revision.reshards_begun();
        match self {
            Self::OncePerReshard => Generation(begun),
            Self::TwicePerReshard => Generation(begun + revision.0 / 3),
        }
    }

    /// The generation of the last `stable`: what carries it, or an older one, belongs to a reshard that has closed.
    pub fn closed(self, revision: Revision) -> Generation {
        self.generation(Revision::closing(revision.0 / 3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(numbering: Numbering) -> Vec<(Phase, u8, u8)> {
        (0..=6)
            .map(Revision)
            .map(|at| (at.phase(), numbering.generation(at).0, numbering.closed(at).0))
            .collect()
    }

    #[test]
    fn a_reshard_raises_the_generation_with_forward() {
        use Phase::{Forward, Move, Stable};
        assert_eq!(
            published(Numbering::OncePerReshard),
            [
                (Stable, 0, 0),
                (Forward, 1, 0),
                (Move, 1, 0),
                (Stable, 1, 1),
                (Forward, 2, 1),
                (Move, 2, 1),
                (Stable, 2, 2),
            ]
        );
    }

    #[test]
    fn the_other_numbering_raises_it_again_at_the_close() {
        use Phase::{Forward, Move, Stable};
        assert_eq!(
            published(Numbering::TwicePerReshard),
            [
                (Stable, 0, 0),
                (Forward, 1, 0),
                (Move, 1, 0),
                (Stable, 2, 2),
                (Forward, 3, 2),
                (Move, 3, 2),
                (Stable, 4, 4),
            ]
        );
    }
}
