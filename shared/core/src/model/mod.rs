//! Values and their laws: what is stored, what is asked for, and what may be said of it. Nothing here decides or asks anybody.

pub(crate) mod capacity;
pub(crate) mod decision;
pub(crate) mod directory_item;
pub(crate) mod error;
pub(crate) mod fields;
pub(crate) mod grant;
pub(crate) mod grow_keys;
pub(crate) mod guard;
pub(crate) mod heat;
pub(crate) mod history;
pub(crate) mod item;
pub(crate) mod lease;
pub(crate) mod ledger;
pub(crate) mod merge_patch;
pub(crate) mod metadata;
pub(crate) mod pattern;
pub(crate) mod pinned;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod reshard;
pub(crate) mod schema;
pub(crate) mod segment;
pub(crate) mod settings;
pub(crate) mod throttle;
pub(crate) mod usage;
pub(crate) mod version;
