//! How many collections the callers of one grant may have listed.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// What lets a caller touch collections, and how many of them the caller may have enlisted: a collection that the
/// directory lists stays there for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    digest: String,
    most: NonZeroU32,
}

impl Grant {
    /// The grant of this digest, under which so many collections may be enlisted. Equal digests share one count.
    pub fn new(digest: &str, most: NonZeroU32) -> Self {
        Self { digest: digest.to_owned(), most }
    }

    /// The digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How many collections may be enlisted under it.
    pub const fn most(&self) -> u32 {
        self.most.get()
    }
}

/// The collections that were enlisted under a grant, by the first half of their [`KeyHash`](crate::KeyHash)es.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted(pub BTreeSet<u64>);

impl Counted {
    /// These with one more, or `None` if that would be more than the grant allows. One that is counted already is not
    /// counted again.
    #[must_use]
    pub fn with(&self, hash: u64, grant: &Grant) -> Option<Self> {
        let mut hashes = self.0.clone();
        let has_room = u32::try_from(hashes.len()).is_ok_and(|count| count < grant.most());
        (!hashes.insert(hash) || has_room).then_some(Self(hashes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_counts_once_up_to_the_bound_of_the_grant() {
        let grant = |most| Grant::new("tenant", NonZeroU32::new(most).expect("not zero"));
        let one = Counted::default().with(7, &grant(2)).expect("the first");
        assert_eq!(one.with(7, &grant(2)), Some(one.clone()));
        let two = one.with(8, &grant(2)).expect("the second");
        assert_eq!(two.with(9, &grant(2)), None);
        assert_eq!(
            two.with(8, &grant(1)),
            Some(two.clone()),
            "it is counted, whatever is allowed now"
        );
        assert_eq!(two.with(9, &grant(3)).map(|three| three.0.len()), Some(3));
    }
}
