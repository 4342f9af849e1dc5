//! The world of a use case.

use std::sync::Arc;

use crate::ports::indexes::IndexStore;
use crate::ports::items::ItemStore;
use crate::ports::records::RecordStore;
use crate::ports::time::{Clock, Entropy};

/// All that a use case needs from outside. Clones share it.
#[derive(Clone)]
pub struct World {
    /// The main table.
    pub items: Arc<dyn ItemStore>,
    /// The indexes of the main table, for who asks for them.
    pub indexes: Option<Arc<dyn IndexStore>>,
    /// The metadata table.
    pub records: Arc<dyn RecordStore>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
}

impl World {
    /// A world of these parts.
    pub fn new(
        items: impl ItemStore + 'static,
        records: impl RecordStore + 'static,
        clock: impl Clock + 'static,
        entropy: impl Entropy + 'static,
    ) -> Self {
        Self {
            items: Arc::new(items),
            indexes: None,
            records: Arc::new(records),
            clock: Arc::new(clock),
            entropy: Arc::new(entropy),
        }
    }

    /// This world, with the indexes of its main table.
    #[must_use]
    pub fn with_indexes(self, indexes: impl IndexStore + 'static) -> Self {
        Self { indexes: Some(Arc::new(indexes)), ..self }
    }
}
