//! The errors of the use cases: stable codes, and the kinds that tell a caller what to do next.

use std::fmt;

use dynashard_keys::{KeyError, ShardId};

use crate::model::throttle::Throttle;
use crate::model::version::Version;

/// Why an operation did not do what was asked, and what the caller can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: Code,
    message: String,
    shards: Vec<ShardId>,
    version: Option<Version>,
    throttle: Option<Box<Throttle>>,
    cause: Option<Code>,
    is_fault: bool,
}

impl Error {
    /// An error with a message for the caller. It must hold no item contents.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            shards: Vec::new(),
            version: None,
            throttle: None,
            cause: None,
            is_fault: false,
        }
    }

    /// That of a request which DynamoDB could not be sent, or has answered with a fault, and which did nothing.
    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Self { is_fault: true, ..Self::new(Code::Unavailable, message) }
    }

    /// That of a request which DynamoDB refuses because of this limit.
    pub fn throttled(throttle: Throttle) -> Self {
        let error = Self::new(Code::Throttled, throttle.to_string());
        Self { throttle: Some(Box::new(throttle)), ..error }
    }

    /// The error as that of these shards.
    #[must_use]
    pub(crate) fn of_shards(self, shards: Vec<ShardId>) -> Self {
        Self { shards, ..self }
    }

    /// The error as that of a write which gives its item this version, if it takes effect.
    #[must_use]
    pub(crate) fn of_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// The error as that of a request of which a part took effect, or may have: no failure of the rest means that nothing
    /// happened. What failed stays known to operators.
    #[must_use]
    pub(crate) fn of_the_rest(self) -> Self {
        if self.code == Code::OutcomeUnknown {
            return self;
        }
        let message = format!(
            "a part was done, and the rest failed ({}): {}",
            self.code.as_str(),
            self.message
        );
        Self { code: Code::OutcomeUnknown, message, cause: Some(self.code), ..self }
    }

    /// One error of all the shards that a fan-out could not read, in their order: what happened to
    /// the first of them, and who they are. `None` where there were no errors.
    pub(crate) fn of_fan_out(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut errors = errors.into_iter().collect::<Vec<_>>();
        errors.sort_by(|one, other| one.shards.cmp(&other.shards));
        let mut shards = errors.iter().flat_map(|error| error.shards.clone()).collect::<Vec<_>>();
        shards.sort_unstable();
        shards.dedup();
        errors.into_iter().next().map(|error| error.of_shards(shards))
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What made the outcome unknown, where that is an error of its own.
    pub fn cause(&self) -> Option<Code> {
        self.cause
    }

    /// What the caller can do.
    pub fn kind(&self) -> Kind {
        self.code.kind()
    }

    /// The sentence that explains it. What clients are not shown of it is decided where they are
    /// answered.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The shards that could not be read, where the error is about some, ascending.
    pub fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    /// The version by which a reader can tell that a write of unknown outcome took effect. Deletes
    /// have none.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// The limit that was hit, if that is why.
    pub fn throttle(&self) -> Option<&Throttle> {
        self.throttle.as_deref()
    }

    /// Whether DynamoDB could not be reached, or answered with a fault; otherwise it did not answer in time, or something else
    /// stood in the way.
    pub fn is_fault(&self) -> bool {
        self.is_fault
    }

    /// The shards that are missing, in words: `shard 2`, `shards 2, 7`.
    pub fn shard_list(&self) -> Option<String> {
        match self.shards.as_slice() {
            [] => None,
            [shard] => Some(format!("shard {shard}")),
            shards => {
                let names = shards.iter().map(ToString::to_string).collect::<Vec<_>>();
                Some(format!("shards {}", names.join(", ")))
            }
        }
    }

    /// Whether somebody has to look, since sending the request again does not help.
    pub(crate) fn needs_operator(&self) -> bool {
        matches!(self.kind(), Kind::Data | Kind::Internal)
            || matches!(self.code, Code::MetadataBehind | Code::SettingsMismatch)
    }

    /// Whether it is about the moment, and not about the request or the data: a refusal, or time
    /// that ran out.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.kind(), Kind::Throttled | Kind::Unavailable)
            && self.code != Code::SettingsMismatch
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)?;
        self.shard_list().map_or(Ok(()), |shards| write!(f, " ({shards})"))
    }
}

impl std::error::Error for Error {}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        let code = match error {
            KeyError::ShardCountOutOfRange { .. } | KeyError::ShardCountNotPowerOfTwo { .. } => {
                Code::BadShardCount
            }
            KeyError::UnknownPlacement { .. } => Code::BadPlacement,
            _ => Code::BadKey,
        };
        Self::new(code, error.to_string())
    }
}

/// What a caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Correct the request; the same one will fail again.
    Invalid,
    /// Nothing has that name.
    NotFound,
    /// The state is not the one that the request asked for: read again, then decide.
    Conflict,
    /// A limit was hit and nothing happened: slow down and send it again.
    Throttled,
    /// Nothing happened, for a passing reason: send it again.
    Unavailable,
    /// The write may have taken effect, now or later. Read, or repeat it under a precondition.
    OutcomeUnknown,
    /// Stored state breaks a rule. An operator must look; the log says where.
    Data,
    /// A fault of the system's own or of its configuration. The log says what.
    Internal,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $kind:ident, $remedy:literal;)+) => {
        /// The stable codes. Clients match on these texts: add, but never rename.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The text of the code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// What a caller does about it.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)+ }
            }

            /// When it is answered, for the pages: the comment above it.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }

            /// What a caller does about this code, for the pages, in Markdown.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)+ }
            }
        }
    };
}

codes! {
    /// A partition key or sort key breaks a rule of its type.
    BadKey = "bad_key", Invalid,
        "correct the key: `detail` says what is wrong with it";
    /// An attribute value that DynamoDB does not take.
    BadItem = "bad_item", Invalid,
        "correct the item: `detail` says what is wrong with it";
    /// An attribute name that belongs to the system or to the table's keys.
    ReservedAttribute = "reserved_attribute", Invalid,
        "rename the attribute";
    /// The item carries a key that is not the one in the request.
    KeyMismatch = "key_mismatch", Invalid,
        "leave the key out of the item, or send the same key";
    /// Over 399 KB.
    ItemTooLarge = "item_too_large", Invalid,
        "send at most 399 KB";
    /// One key twice in one batch.
    DuplicateKey = "duplicate_key", Invalid,
        "send each key once";
    /// A page limit, a range or another parameter of a query.
    BadParameter = "bad_parameter", Invalid,
        "correct the parameter, or the number of operations in the batch";
    /// A list of fields that is empty or too long, or has a repeated or reserved name.
    BadFields = "bad_fields", Invalid,
        "name 1 to 100 attributes, each once, and none that begins with `_ds_`";
    /// A cursor that is damaged.
    BadCursor = "bad_cursor", Invalid,
        "begin the query again";
    /// A whole cursor of another format version.
    UnsupportedCursor = "unsupported_cursor", Invalid,
        "begin the query again: a version with another cursor format made this one";
    /// A cursor that came from another query.
    CursorMismatch = "cursor_mismatch", Invalid,
        "begin the query again, or send the cursor with the query that it came from";
    /// A cursor that was good for the shard layout before a reshard.
    CursorExpired = "cursor_expired", Invalid,
        "begin the query again: the shard count changed between two pages of a query that is not `ordered`";
    /// A shard count outside the range that the placement and the stack allow.
    BadShardCount = "bad_shard_count", Invalid,
        "choose a count from 1 to the stack's `MaxShards`";
    /// No placement of that name.
    BadPlacement = "bad_placement", Invalid,
        "choose `xxh64`, `jump` or `random`";
    /// An operation that the collection's placement cannot do.
    NotForPlacement = "not_for_placement", Invalid,
        "do without PATCH and preconditions of writes: the collection is `random`";
    /// A read strategy that there is not.
    UnsupportedStrategy = "unsupported_strategy", Invalid,
        "choose one of the four [strategies](QUERIES.md#strategies)";
    /// No such item.
    ItemNotFound = "item_not_found", NotFound,
        "nothing: no item has that key";
    /// No such collection.
    CollectionNotFound = "collection_not_found", NotFound,
        "nothing: no item has that partition key, and nobody created the collection";
    /// The table has no index of that name.
    IndexNotFound = "index_not_found", NotFound,
        "correct the name: nothing was read. An index that was made within the last seconds may not be known yet";
    /// The index is being made, or removed; or it is write-sharded, and the stack has no `IndexShards`.
    IndexNotReady = "index_not_ready", Conflict,
        "nothing was read: ask again when DynamoDB has made the index, or ask without it";
    /// The index has binary keys, keys of several attributes (but for `_ds_index_shard`), or the table's partition key as its sort key.
    IndexNotSupported = "index_not_supported", Invalid,
        "nothing was read: ask by another index, or the table itself";
    /// The index does not project what is asked for.
    IndexProjectsTooLittle = "index_projects_too_little", Invalid,
        "nothing was read: ask for `fields` that the index has, which `detail` names";
    /// `If-Match` or `If-None-Match` does not hold.
    PreconditionFailed = "precondition_failed", Conflict,
        "read the item with `consistent=true`, then decide";
    /// The collection exists already.
    CollectionExists = "collection_exists", Conflict,
        "read it with `GET /collection`";
    /// A change of the collection's shard count is running already.
    ReshardRunning = "reshard_running", Conflict,
        "ask again when `state` is `stable`, or ask for the count that `detail` names, to turn the change round";
    /// The collection's metadata changed so recently that leases on what was before may live.
    ReshardTooSoon = "reshard_too_soon", Conflict,
        "ask again at the second that `detail` names: functions may act on the old count for longer than a \
         request can wait, as with a `LeaseSecs` of 18 or more";
    /// The operator lets other collections get another shard count, and not this one.
    CollectionNotAllowed = "collection_not_allowed", Conflict,
        "ask the operator: `GrowKeys` does not name the collection. Its items are read and written as before";
    /// The table has local secondary indexes, which bound a shard to 10 GB, and fewer shards might hold more.
    ShardsTooLarge = "shards_too_large", Conflict,
        "nothing was changed, since the table holds more than 5 GB; an operator who knows that the collection \
         fits uses `dynashard scale --whatever-their-size`";
    /// The collection cannot have an epoch, or not another one.
    EpochsNotPossible = "epochs_not_possible", Conflict,
        "nothing was changed; `detail` says why, and without `from` the whole newest epoch gets the count";
    /// An item lies at the key of the counter.
    NotACounter = "not_a_counter", Conflict,
        "nothing was written: choose another key for the counter, or delete the item";
    /// The add would take the counter below its `min` or above its `max`.
    CounterLimit = "counter_limit", Conflict,
        "nothing was added: add or take less, or wait until others have given or taken";
    /// The counter has other bounds than the request asks for.
    CounterBounds = "counter_bounds", Conflict,
        "nothing was added: leave the bounds out, or ask for those that `detail` names";
    /// Somebody has begun to delete the counter, and not ended.
    CounterClosing = "counter_closing", Conflict,
        "nothing was added: repeat the `DELETE`, or wait for its end";
    /// A reshard cannot move the item, since DynamoDB rejects it in its new shard.
    UnmovableItem = "unmovable_item", Conflict,
        "nothing was written, and `detail` says what DynamoDB rejects: replace the item by a `PUT` without \
         precondition when `state` is `move`, or delete it, which is the only way for an item that may expire; or \
         tell the operator";
    /// DynamoDB's capacity was exceeded for as long as the request could wait.
    Throttled = "throttled", Throttled,
        "nothing was written: wait for `Retry-After`, then send it again. The answer comes within 3 seconds, and \
         tells each client another time. A collection that is throttled again and again has too few shards";
    /// Other writes to the same item won for as long as the request could wait.
    Contended = "contended", Throttled,
        "nothing was written: wait for `Retry-After`, then send it again";
    /// DynamoDB could not be reached, or answered with a fault, and nothing was written.
    Unavailable = "unavailable", Unavailable,
        "nothing was stored: wait for `Retry-After`, then send it again. What DynamoDB answers with faults is \
         answered within 3 seconds";
    /// The time for the request ran out before this part of it was begun.
    DeadlineExceeded = "deadline_exceeded", Unavailable,
        "nothing was stored: wait for `Retry-After`, then send it again";
    /// Items carry a generation above their collection's metadata: it was restored or deleted.
    MetadataBehind = "metadata_behind", Unavailable,
        "tell the operator: was the metadata table restored or deleted alone?";
    /// The settings of this function or command differ from those that are pinned.
    SettingsMismatch = "settings_mismatch", Unavailable,
        "tell the operator: nothing was done, and `detail` says which settings differ from the \
         [pinned](COMMANDS.md#settings) ones";
    /// The segment of the directory that is to list the collection is full, or the one item of an older stack. So it cannot get several shards.
    DirectoryFull = "directory_full", Conflict,
        "tell the operator. Items are read and written as before";
    /// As many collections were enlisted under the caller's grant as it allows.
    GrantExhausted = "grant_exhausted", Conflict,
        "ask the operator: `KeysPerGrant` bounds the keys under [the pattern](#who-may-touch-which-keys) that \
         grants this one. Nothing was changed; keys that are listed can be scaled as before";
    /// A write that timed out, or was answered after its metadata had changed.
    OutcomeUnknown = "outcome_unknown", OutcomeUnknown,
        "the request may have been carried out, or may still be: read the item, or repeat the write under a \
         precondition; after a change of a shard count read `GET /collection`, and ask again if it does not show. \
         After a put or a patch the `ETag` is that of the item if the write takes effect";
    /// An item or a metadata item that breaks a rule.
    CorruptData = "corrupt_data", Data,
        "tell the operator: the function's log says what happened";
    /// DynamoDB refuses a request for what is in it: an index takes no such value of its key, or the code has
    /// a fault.
    RequestRejected = "request_rejected", Internal,
        "on a table with indexes, see whether the item has the types that the indexes' keys take; otherwise tell \
         the operator";
    /// Missing permissions, a missing table, a fault in the code.
    Internal = "internal", Internal,
        "tell the operator: the function's log says what happened";
}
