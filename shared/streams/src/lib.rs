//! Records of a sharded table's stream as records of logical keys: markers and what only moves items are left out,
//! suffixes of keys and the system's attributes are taken off.
//!
//! ```
//! use dynashard_streams::{RecordError, Table};
//! use serde_json::Value;
//!
//! fn handle(mut event: Value) -> Result<(), RecordError> {
//!     let table = Table::default(); // the key `pk`, the separator `#~`
//!     for record in event["Records"].as_array_mut().into_iter().flatten() {
//!         if let Some(change) = table.logical(record.take())? {
//!             println!("{} {}", change.record["eventName"], change.record["dynamodb"]["Keys"]);
//!         }
//!     }
//!     Ok(())
//! }
//! # handle(serde_json::json!({ "Records": [] })).unwrap();
//! ```
//!
//! One record does not tell whether an item was put at its new home or moved there, so a move repeats its item
//! ([`LogicalRecord::may_repeat`]). The records of one key are in order at each of its homes, and not across a move
//! ([`Position::is_overtaken_by`]). `python/dynashard_streams.py` is the twin of this file, and `tests/records.json`
//! holds both to one behaviour.

use dynashard_keys::{PhysicalPartitionKey, RESERVED_PREFIX, Separator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The table whose stream it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The stack's `PartitionKeyName`.
    pub partition_key_name: String,
    /// The stack's `Separator`.
    pub separator: Separator,
}

impl Default for Table {
    /// The stack's own defaults: `pk` and `#~`.
    fn default() -> Self {
        Self { partition_key_name: "pk".to_owned(), separator: Separator::default() }
    }
}

impl Table {
    /// What a record of the stream tells of its logical key, or nothing where clients have changed nothing. It takes a
    /// record as Lambda's event has it, and as DynamoDB sends it to Kinesis. Records of keys that no shard can have come
    /// back as they are.
    pub fn logical(&self, mut record: Value) -> Result<Option<LogicalRecord>, RecordError> {
        let event = record.get("eventName").and_then(Value::as_str).unwrap_or_default();
        let (has_old, has_new) = match event {
            "INSERT" => (false, true),
            "MODIFY" => (true, true),
            "REMOVE" => (true, false),
            _ => return Err(malformed("eventName")),
        };
        let change = record.get_mut("dynamodb").and_then(Value::as_object_mut);
        let change = change.ok_or_else(|| malformed("dynamodb"))?;
        let (old, new) = (take_image(change, "OldImage"), take_image(change, "NewImage"));
        let shows_both = change.get("StreamViewType").is_none_or(|view| view == BOTH_IMAGES);
        if !shows_both || (old.is_some(), new.is_some()) != (has_old, has_new) {
            return Err(RecordError::ImageMissing);
        }
        let physical =
            change.get("Keys").and_then(|keys| keys.get(&self.partition_key_name)?.get("S"));
        let physical =
            physical.and_then(Value::as_str).ok_or_else(|| malformed(&self.partition_key_name))?;
        let physical = physical.to_owned();
        if physical.starts_with(RESERVED_PREFIX) {
            return Ok(None);
        }
        let Ok((logical, _)) = PhysicalPartitionKey::parse(&physical, self.separator) else {
            put_image(change, "OldImage", old);
            put_image(change, "NewImage", new);
            let position = Position { partition_key: physical, generation: 0 };
            return Ok(Some(LogicalRecord { record, position, version: None, may_repeat: false }));
        };
        let is_removed = new.as_ref().map_or(Ok(true), is_marker_of_delete)?;
        let live = |image: &Image| !image.contains_key(FORWARDED);
        let (mut old, mut new) = (old.filter(live), new.filter(live));
        let (event, telling) = match (&old, &new) {
            (None, Some(new)) => ("INSERT", new),
            (Some(_), Some(new)) => ("MODIFY", new),
            (Some(old), None) if is_removed => ("REMOVE", old),
            // A marker came, went, or took the place of an item that lives at its new home.
            (_, None) => return Ok(None),
        };
        let generation = number(telling, GENERATION)?;
        let version = Some(number(telling, VERSION)?).filter(|version| *version > 0);
        let may_repeat = event == "INSERT" && generation > 0;
        // Every write draws a version, so this is a move of an item that another program has written.
        if may_repeat && version.is_none() {
            return Ok(None);
        }
        let before = old.as_ref().and_then(|old| old.get(VERSION));
        let is_drawn = version.is_some() && before != telling.get(VERSION);
        let logical = json!({ "S": logical.as_str() });
        for image in [&mut old, &mut new].into_iter().flatten() {
            image.retain(|name, _| !name.starts_with(RESERVED_PREFIX));
            image.insert(self.partition_key_name.clone(), logical.clone());
        }
        // Whoever has written what was there already has drawn a version, by which a move that repeats it is known.
        if old == new && !is_drawn {
            return Ok(None);
        }
        put_image(change, "OldImage", old);
        put_image(change, "NewImage", new);
        if let Some(key) =
            change.get_mut("Keys").and_then(|keys| keys.get_mut(&self.partition_key_name))
        {
            *key = logical;
        }
        record["eventName"] = event.into();
        let position = Position { partition_key: physical, generation };
        Ok(Some(LogicalRecord { record, position, version, may_repeat }))
    }
}

/// What clients have done to one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogicalRecord {
    /// The record in the shape in which it came: `eventName`, keys and images are those of the logical key, and everything
    /// else is as it was.
    pub record: Value,
    /// Where it stands among the records of its key.
    pub position: Position,
    /// The version of what was written, or of what was removed: no two writes of a key have one in common, and a repeat has
    /// that of its write. Nothing where another program has written the item.
    pub version: Option<u64>,
    /// An `INSERT` that may be a move, which repeats what was told before, or a put in the place of an item at the old home.
    pub may_repeat: bool,
}

/// Where a record stands among those of its logical key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The partition key in the table: the records of one are in order.
    pub partition_key: String,
    /// The generation of the item: records of a later one count, wherever they came from.
    pub generation: u64,
}

impl Position {
    /// Whether a record here is to be skipped by who keeps, for each logical key, the position of the last record that was
    /// not skipped, of removals for as long as a stream keeps records (a day), too. Who skips so has in the end what the table
    /// has.
    pub fn is_overtaken_by(&self, kept: &Self) -> bool {
        self.partition_key != kept.partition_key && self.generation < kept.generation
    }
}

/// Why a record cannot be told of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Without both images a marker cannot be told from an item.
    #[error("a record lacks an image: turn on a stream with StreamViewType NEW_AND_OLD_IMAGES")]
    ImageMissing,
    /// It lacks what every record of the table has.
    #[error(
        "a record has no valid {what}: check that it comes from the stream of this table, and the name of the partition key"
    )]
    Malformed {
        /// What is missing or of another type.
        what: String,
    },
}

impl RecordError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ImageMissing => "image_missing",
            Self::Malformed { .. } => "malformed_record",
        }
    }
}

type Image = Map<String, Value>;

/// The view of a stream that shows what items were and are.
const BOTH_IMAGES: &str = "NEW_AND_OLD_IMAGES";

/// The attributes of items in `docs/DATA_MODEL.md`.
const GENERATION: &str = "_ds_g";
const VERSION: &str = "_ds_v";
const FORWARDED: &str = "_ds_fwd";

fn take_image(change: &mut Image, name: &str) -> Option<Image> {
    match change.remove(name) {
        Some(Value::Object(image)) => Some(image),
        _ => None,
    }
}

fn put_image(change: &mut Image, name: &str, image: Option<Image>) {
    if let Some(image) = image {
        change.insert(name.to_owned(), Value::Object(image));
    }
}

/// Whether it stands in place of an item that was deleted where it lay, since it could not be moved.
fn is_marker_of_delete(image: &Image) -> Result<bool, RecordError> {
    Ok(image.contains_key(FORWARDED) && number(image, VERSION)? > 0)
}

/// An unsigned number of the system's, which counts as 0 where it is left out.
fn number(image: &Image, name: &str) -> Result<u64, RecordError> {
    let Some(value) = image.get(name) else { return Ok(0) };
    let text = value.get("N").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| malformed(name))
}

fn malformed(what: &str) -> RecordError {
    RecordError::Malformed { what: what.to_owned() }
}
