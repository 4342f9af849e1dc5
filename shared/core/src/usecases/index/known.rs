//! What is known of the indexes of a table.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::index::SecondaryIndex;
use crate::model::lease::Moment;

/// What is known of the indexes of a table.
#[derive(Debug, Default)]
pub struct KnownIndexes(Mutex<Option<Described>>);

/// The indexes, and when they were described.
type Described = (Moment, Vec<Arc<SecondaryIndex>>);

/// For how long a description is taken for true. An index is made anew in minutes.
const TERM: Duration = Duration::from_mins(1);

/// For how long a reader takes it for true that the table lacks an index, or that it is not ready. The endpoint asks each time.
const TERM_OF_NONE: Duration = Duration::from_secs(5);

impl KnownIndexes {
    /// The index of this name, if the indexes were described lately; the inner `None` where there is none.
    pub fn get(&self, name: &str, now: Moment) -> Option<Option<Arc<SecondaryIndex>>> {
        let held = self.0.lock();
        let (since, indexes) = held.as_ref()?;
        let index = indexes.iter().find(|index| index.name == name);
        let is_there = index.is_some_and(|index| index.is_active);
        let term = if is_there { TERM } else { TERM_OF_NONE };
        (now.perhaps_since(*since) < term).then(|| index.cloned())
    }

    /// Whether they are to be described anew.
    pub fn are_due(&self, now: Moment) -> bool {
        let held = self.0.lock();
        held.as_ref().is_none_or(|(since, _)| now.perhaps_since(*since) >= TERM)
    }

    /// Whether one that was described is so.
    pub fn any(&self, is_so: impl Fn(&SecondaryIndex) -> bool) -> bool {
        self.0.lock().iter().flat_map(|(_, indexes)| indexes).any(|index| is_so(index))
    }

    /// Takes in the indexes that DynamoDB has described at this moment.
    pub fn learn(&self, indexes: impl IntoIterator<Item = SecondaryIndex>, now: Moment) {
        *self.0.lock() = Some((now, indexes.into_iter().map(Arc::new).collect()));
    }

    /// Has them be described anew: something has shown that they are others now.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schema::TableSchema;

    #[test]
    fn an_index_is_known_for_a_minute_and_none_for_seconds() {
        let (indexes, now) = (KnownIndexes::default(), Moment::default());
        let index = SecondaryIndex::of_table(&TableSchema::default());
        let index = SecondaryIndex { name: "there".to_owned(), ..index };
        let making =
            SecondaryIndex { name: "making".to_owned(), is_active: false, ..index.clone() };
        assert_eq!(indexes.get("there", now), None);
        indexes.learn([index, making], now);
        let at = |secs| Moment { boot: Duration::from_secs(secs), ..now };
        let is_known = |name, secs| indexes.get(name, at(secs)).map(|index| index.is_some());
        assert_eq!((is_known("there", 59), is_known("there", 60)), (Some(true), None));
        assert_eq!((is_known("making", 4), is_known("making", 5)), (Some(true), None));
        assert_eq!((is_known("another", 4), is_known("another", 5)), (Some(false), None));
        // The boot clock of an environment that Lambda has frozen may stand.
        let frozen = Moment { wall: Duration::from_mins(1), ..now };
        assert!(indexes.get("there", frozen).is_none() && indexes.are_due(frozen));
        indexes.forget();
        assert_eq!(is_known("there", 0), None);
    }
}
