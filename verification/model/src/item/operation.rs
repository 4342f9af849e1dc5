//! The operations of clients, and what they mean on one register.

/// What an item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u16);

/// A kind of operation that a client may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// GET /item, strong.
    Get,
    /// GET /item, eventually consistent: it reads as a strong one does, and settles nothing.
    Peek,
    /// PUT /item.
    Put,
    /// DELETE /item.
    Delete,
    /// PUT with `If-None-Match: *`.
    Create,
    /// PUT with `If-Match: *`.
    Replace,
    /// An upsert of DynamoDB's own, such as `UpdateItem ADD`: it keeps what was there.
    Upsert,
    /// A put on a condition that is true of nothing and false of one value, such as `x <> :v`.
    Unless,
    /// A check in a transaction of the client: it writes nothing, and tells whether an item is there.
    Check,
    /// PUT with `If-Match` on the version that the client read last. No two versions of an item hold the same, so what it
    /// holds stands for its version here.
    Swap,
    /// PUT /item of an item that may expire.
    PutExpiring,
    /// A put that may expire, with `If-Match` on the version that the client read last. Behind a read it is also a PATCH that lets the
    /// item expire.
    SwapExpiring,
    /// DELETE with `If-Match` on that version.
    Remove,
}

/// An operation that a client has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Reads the item.
    Get,
    /// Reads what may be out of date.
    Peek,
    /// Changes it.
    Change(Change),
}

/// What a write does to the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// See [`Verb::Put`].
    Put(Value),
    /// See [`Verb::Delete`].
    Delete,
    /// See [`Verb::Create`].
    Create(Value),
    /// See [`Verb::Replace`].
    Replace(Value),
    /// See [`Verb::Upsert`]. The value is a bit that is added to those that are there.
    Upsert(Value),
    /// See [`Verb::Unless`].
    Unless {
        /// What must not be there.
        unwanted: Value,
        /// What is put.
        new: Value,
    },
    /// See [`Verb::Check`].
    Check,
    /// See [`Verb::Swap`].
    Swap {
        /// What must be there.
        expected: Value,
        /// What takes its place.
        new: Value,
    },
    /// See [`Verb::Remove`].
    Remove {
        /// What must be there.
        expected: Value,
    },
}

/// A write's own condition does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionFailed;

/// What an operation returns to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The write took effect.
    Done,
    /// The operation's condition did not hold (412).
    Refused,
    /// What a read found.
    Read(Option<Value>),
    /// What an eventually consistent read found.
    Glimpsed(Option<Value>),
    /// The write was refused for another reason, and has done nothing: the item cannot be moved (409), for one.
    NotDone,
}

impl Verb {
    /// Whether it is conditional on the version that the client read last.
    pub fn needs_version(self) -> bool {
        matches!(self, Self::Swap | Self::SwapExpiring | Self::Remove)
    }
}

impl Value {
    /// The bit that values have which may expire.
    const EXPIRES: u16 = 1 << 15;

    /// The bit that an upsert adds: each of a client's two has its own.
    pub fn of_upsert(client: u8, begun: u8) -> Self {
        Self(64 << (2 * client + begun - 1))
    }

    /// The bit of the first upsert of the client whose upsert adds this one.
    #[must_use]
    pub fn first_of_client(self) -> Self {
        Self(1 << (self.0.trailing_zeros() & !1))
    }

    /// This value in an item that may expire.
    #[must_use]
    pub const fn expiring(self) -> Self {
        Self(self.0 | Self::EXPIRES)
    }

    /// Whether DynamoDB may delete the item by itself.
    pub const fn may_expire(self) -> bool {
        self.0 & Self::EXPIRES != 0
    }
}

impl Operation {
    /// Whether it is part of a transaction, and so happens in the moment in which the other parts do, and not at any
    /// since its client has begun.
    pub fn is_part(self) -> bool {
        self == Self::Change(Change::Check)
    }

    /// What the operation does to a register by itself: the sequential specification.
    pub fn apply(self, register: Option<Value>) -> (Option<Value>, Outcome) {
        match self {
            Self::Get => (register, Outcome::Read(register)),
            Self::Peek => (register, Outcome::Glimpsed(register)),
            Self::Change(change) => match change.apply(register) {
                Ok(next) => (next, Outcome::Done),
                Err(ConditionFailed) => (register, Outcome::Refused),
            },
        }
    }
}

impl Change {
    /// Whether it is sent in DynamoDB's own words, so that DynamoDB would judge its condition of a marker.
    pub fn is_native(self) -> bool {
        matches!(self, Self::Upsert(_) | Self::Unless { .. })
    }

    /// The value that only this write writes. An upsert adds to those of others.
    pub fn writes(self) -> Option<Value> {
        match self {
            Self::Put(value) | Self::Create(value) | Self::Replace(value) => Some(value),
            Self::Swap { new, .. } | Self::Unless { new, .. } => Some(new),
            Self::Delete | Self::Remove { .. } | Self::Upsert(_) | Self::Check => None,
        }
    }

    /// What the register holds afterwards.
    pub fn apply(self, register: Option<Value>) -> Result<Option<Value>, ConditionFailed> {
        let (holds, next) = match self {
            Self::Delete => return Ok(None),
            Self::Remove { expected } if register == Some(expected) => return Ok(None),
            Self::Remove { .. } => return Err(ConditionFailed),
            Self::Put(value) => (true, value),
            Self::Create(value) => (register.is_none(), value),
            Self::Replace(value) => (register.is_some(), value),
            Self::Upsert(Value(bit)) => {
                (true, Value(register.map_or(bit, |Value(bits)| bits | bit)))
            }
            Self::Swap { expected, new } => (register == Some(expected), new),
            Self::Unless { unwanted, new } => (register != Some(unwanted), new),
            Self::Check => return register.map(Some).ok_or(ConditionFailed),
        };
        holds.then_some(Some(next)).ok_or(ConditionFailed)
    }
}
