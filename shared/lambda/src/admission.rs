use crate::Grants;

/// What a request has to be before a function looks at what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Who may touch which partition keys.
    pub grants: Grants,
    /// The most bytes of a body, decoded.
    pub max_body_bytes: usize,
}

impl Default for Admission {
    /// Everything that the API lets in.
    fn default() -> Self {
        Self { grants: Grants::default(), max_body_bytes: usize::MAX }
    }
}
