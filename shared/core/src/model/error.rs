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
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $kind:ident;)+) => {
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
        }
    };
}

codes! {
    /// A partition key or sort key breaks a rule of its type.
    BadKey = "bad_key", Invalid;
    /// An attribute value that DynamoDB does not take.
    BadItem = "bad_item", Invalid;
    /// An attribute name that belongs to the system or to the table's keys.
    ReservedAttribute = "reserved_attribute", Invalid;
    /// The item carries a key that is not the one in the request.
    KeyMismatch = "key_mismatch", Invalid;
    /// Over 399 KB.
    ItemTooLarge = "item_too_large", Invalid;
    /// One key twice in one batch.
    DuplicateKey = "duplicate_key", Invalid;
    /// A page limit, a range or another parameter of a query.
    BadParameter = "bad_parameter", Invalid;
    /// A list of fields that is empty or too long, or has a repeated or reserved name.
    BadFields = "bad_fields", Invalid;
    /// A cursor that is damaged.
    BadCursor = "bad_cursor", Invalid;
    /// A whole cursor of another format version.
    UnsupportedCursor = "unsupported_cursor", Invalid;
    /// A cursor that came from another query.
    CursorMismatch = "cursor_mismatch", Invalid;
    /// A cursor that was good for the shard layout before a reshard.
    CursorExpired = "cursor_expired", Invalid;
    /// A shard count outside the range that the placement and the stack allow.
    BadShardCount = "bad_shard_count", Invalid;
    /// No placement of that name.
    BadPlacement = "bad_placement", Invalid;
    /// An operation that the collection's placement cannot do.
    NotForPlacement = "not_for_placement", Invalid;
    /// A read strategy that there is not.
    UnsupportedStrategy = "unsupported_strategy", Invalid;
    /// No such item.
    ItemNotFound = "item_not_found", NotFound;
    /// No such collection.
    CollectionNotFound = "collection_not_found", NotFound;
    /// `If-Match` or `If-None-Match` does not hold.
    PreconditionFailed = "precondition_failed", Conflict;
    /// The collection exists already.
    CollectionExists = "collection_exists", Conflict;
    /// A change of the collection's shard count is running already.
    ReshardRunning = "reshard_running", Conflict;
    /// The collection's metadata changed so recently that leases on what was before may live.
    ReshardTooSoon = "reshard_too_soon", Conflict;
    /// The operator lets other collections get another shard count, and not this one.
    CollectionNotAllowed = "collection_not_allowed", Conflict;
    /// The table has local secondary indexes, which bound a shard to 10 GB, and fewer shards might hold more.
    ShardsTooLarge = "shards_too_large", Conflict;
    /// A reshard cannot move the item, since DynamoDB rejects it in its new shard.
    UnmovableItem = "unmovable_item", Conflict;
    /// DynamoDB's capacity was exceeded for as long as the request could wait.
    Throttled = "throttled", Throttled;
    /// Other writes to the same item won for as long as the request could wait.
    Contended = "contended", Throttled;
    /// DynamoDB could not be reached, or answered with a fault, and nothing was written.
    Unavailable = "unavailable", Unavailable;
    /// The time for the request ran out before this part of it was begun.
    DeadlineExceeded = "deadline_exceeded", Unavailable;
    /// Items carry a generation above their collection's metadata: it was restored or deleted.
    MetadataBehind = "metadata_behind", Unavailable;
    /// The settings of this function or command differ from those that are pinned.
    SettingsMismatch = "settings_mismatch", Unavailable;
    /// The directory lists as many collections as it can, so that no further one can get several shards.
    DirectoryFull = "directory_full", Conflict;
    /// As many collections were enlisted under the caller's grant as it allows.
    GrantExhausted = "grant_exhausted", Conflict;
    /// A write that timed out, or was answered after its lease.
    OutcomeUnknown = "outcome_unknown", OutcomeUnknown;
    /// An item or a metadata item that breaks a rule.
    CorruptData = "corrupt_data", Data;
    /// DynamoDB refuses a request for what is in it: an index takes no such value of its key, or the code has
    /// a fault.
    RequestRejected = "request_rejected", Internal;
    /// Missing permissions, a missing table, a fault in the code.
    Internal = "internal", Internal;
}
