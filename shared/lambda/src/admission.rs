//! What a request has to be to be answered.

use std::num::NonZeroU32;

use dynashard_api::grants::Grants;

/// The default of the parameter `KeysPerGrant`.
pub(crate) const KEYS_PER_GRANT: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");

/// What a request has to be before a function looks at what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Who may touch which partition keys.
    pub grants: Grants,
    /// How many collections may be enlisted under one grant.
    pub keys_per_grant: NonZeroU32,
    /// The most bytes of a body, decoded.
    pub max_body_bytes: usize,
}

impl Default for Admission {
    /// Everything that the API lets in.
    fn default() -> Self {
        Self {
            grants: Grants::default(),
            keys_per_grant: KEYS_PER_GRANT,
            max_body_bytes: usize::MAX,
        }
    }
}
