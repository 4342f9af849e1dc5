//! The requests for pages that DynamoDB has taken.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;
use xxhash_rust::xxh64::xxh64;

use crate::document::Members;

/// The shapes of queries that DynamoDB has taken, so that it need not be asked again whether it does.
///
/// Two queries have one shape if they differ only in where a page begins and in how many items it has: a paginator asks DynamoDB
/// once.
pub(crate) struct Shapes(Mutex<LruCache<Shape, ()>>);

/// A hash of what makes a query valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape(u64);

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1_024).expect("not zero");

impl Shape {
    /// The shape of a request for a page whose limit is a valid one, and whose start, if it has one, lies in its range.
    pub(crate) fn of(operation: &str, body: &Members) -> Self {
        let varies = |name: &String| name == "ExclusiveStartKey" || name == "Limit";
        let rest = body.iter().filter(|(name, _)| !varies(name));
        let rest = rest.map(|(name, value)| (name.clone(), value.clone()));
        let rest = format!("{operation} {}", Value::Object(rest.collect()));
        Self(xxh64(rest.as_bytes(), 0))
    }
}

impl Shapes {
    /// Whether DynamoDB has taken a query of this shape, as far as that is remembered.
    pub(crate) fn has(&self, shape: Shape) -> bool {
        self.0.lock().get(&shape).is_some()
    }

    /// Remembers that DynamoDB has taken a query of this shape.
    pub(crate) fn add(&self, shape: Shape) {
        self.0.lock().put(shape, ());
    }
}

impl Default for Shapes {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}
