//! The keys of entries: by what they are in order, and what a client goes on behind.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dynashard_keys::{Number, SortKey, SortKeyType};
use serde_json::{Value, json};

use crate::document::Members;
use crate::table::scalar;

/// The keys of an entry, of the index's and of the table's, without the collection's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Keys {
    pub(super) place: Sequence,
    /// Those that all entries have in common.
    pub(super) common: Vec<Value>,
}

/// Which attributes the keys are, and what stands for the collection's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyNames {
    pub(super) partition: String,
    /// The collection's key.
    pub(super) collection: String,
    /// Those by which entries are in order.
    pub(super) place: Vec<String>,
    pub(super) common: Vec<String>,
}

/// Where an entry lies among the others: by the sort keys of the index, and by that of the table.
///
/// DynamoDB says in which order an index has its entries by their sort key, and nothing of those that share one. It is taken to be
/// that of the table's sort key, as in the engine that tests run against. What is in another order is refused.
pub(super) type Sequence = Vec<Scalar>;

/// A key's value, in DynamoDB's order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scalar {
    Text(String),
    Number(Number),
    Binary(Vec<u8>),
}

impl Scalar {
    pub(super) fn of(value: &Value) -> Option<Self> {
        match scalar(value)? {
            ("S", text) => Some(Self::Text(text.to_owned())),
            ("N", text) => text.trim().parse().ok().map(Self::Number),
            ("B", text) => STANDARD.decode(text).ok().map(Self::Binary),
            _ => None,
        }
    }

    /// As DynamoDB writes it.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "S": text }),
            Self::Number(number) => json!({ "N": number.to_string() }),
            Self::Binary(bytes) => json!({ "B": STANDARD.encode(bytes) }),
        }
    }

    /// The sort key of the table that this is, if it is one of this type.
    pub(super) fn sort_key(&self, of_type: SortKeyType) -> Option<SortKey> {
        match (self, of_type) {
            (Self::Text(text), SortKeyType::String) => SortKey::string(text).ok(),
            (Self::Number(number), SortKeyType::Number) => Some(SortKey::Number(number.clone())),
            _ => None,
        }
    }
}

impl KeyNames {
    /// The client's key of an entry.
    pub(super) fn key(&self, keys: Keys) -> Members {
        let place = self.place.iter().zip(keys.place.iter().map(Scalar::value));
        let common = self.common.iter().zip(keys.common);
        let all = place.chain(common).map(|(name, value)| (name.clone(), value));
        all.chain([(self.partition.clone(), json!({ "S": self.collection }))]).collect()
    }
}
