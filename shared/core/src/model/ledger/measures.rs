//! What was measured in one span: operations that arrived, units that were granted, refusals.

/// What was seen of a collection's traffic. Operations count once, however often they were tried, and
/// not when a client sends again what was refused.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measures {
    /// Reports that these figures come from. Never scaled.
    pub reports: f64,
    /// Environments for which these reports stand.
    pub environments: f64,
    /// Puts, patches and deletes that arrived.
    pub writes: f64,
    /// The write units that they ask for.
    pub write_units: f64,
    /// The write units that DynamoDB granted.
    pub written_units: f64,
    /// Gets that arrived, of single items and in batches.
    pub gets: f64,
    /// The read units that they ask for.
    pub get_units: f64,
    /// Pages of queries that arrived.
    pub queries: f64,
    /// The read units that they ask for.
    pub query_units: f64,
    /// The read units that DynamoDB granted.
    pub read_units: f64,
    /// The units of environments that can tell their hottest sort key from others.
    pub ranked_units: f64,
    /// The write units of operations that were answered as throttled, each time that they were.
    pub refused_units: f64,
    /// Of an hour: the write units of the busiest minute in it that a look has seen. Its mean hides that.
    pub busiest_write_units: f64,
    /// The read units of the one that was busiest by them.
    pub busiest_read_units: f64,
}

impl Measures {
    /// All of them, each with the letter under which it is stored. Must be kept stable.
    pub fn fields(&self) -> [(char, f64); 14] {
        [
            ('r', self.reports),
            ('e', self.environments),
            ('o', self.writes),
            ('w', self.write_units),
            ('p', self.written_units),
            ('i', self.gets),
            ('g', self.get_units),
            ('y', self.queries),
            ('q', self.query_units),
            ('s', self.read_units),
            ('k', self.ranked_units),
            ('x', self.refused_units),
            ('b', self.busiest_write_units),
            ('c', self.busiest_read_units),
        ]
    }

    /// The one of this letter.
    pub fn field_mut(&mut self, letter: char) -> Option<&mut f64> {
        Some(match letter {
            'r' => &mut self.reports,
            'e' => &mut self.environments,
            'o' => &mut self.writes,
            'w' => &mut self.write_units,
            'p' => &mut self.written_units,
            'i' => &mut self.gets,
            'g' => &mut self.get_units,
            'y' => &mut self.queries,
            'q' => &mut self.query_units,
            's' => &mut self.read_units,
            'k' => &mut self.ranked_units,
            'x' => &mut self.refused_units,
            'b' => &mut self.busiest_write_units,
            'c' => &mut self.busiest_read_units,
            _ => return None,
        })
    }

    /// Adds what others saw.
    pub fn add(&mut self, other: &Self) {
        for (letter, value) in other.fields() {
            if let Some(field) = self.field_mut(letter) {
                *field += value;
            }
        }
    }

    /// What the ledger of the load keeps of it: the item of that has many buckets, and each figure is paid for.
    #[must_use]
    pub(crate) fn of_load(&self) -> Self {
        let Self { writes, write_units, get_units, queries, query_units, .. } = *self;
        Self { writes, write_units, get_units, queries, query_units, ..Self::default() }
    }

    /// The measures as if so many had seen them.
    #[must_use]
    pub(crate) fn times(&self, weight: f64) -> Self {
        let mut scaled = *self;
        for (letter, value) in self.fields() {
            if let Some(field) = scaled.field_mut(letter) {
                *field = value * weight;
            }
        }
        scaled
    }

    /// Whether nothing arrived and nothing was granted.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields().iter().all(|(_, value)| *value == 0.0)
    }
}
