//! Which attributes a read returns.

use std::collections::BTreeSet;
use std::sync::Arc;

use dynashard_keys::RESERVED_PREFIX;

use crate::model::error::{Code, Error};
use crate::model::item::{MAX_NAME_BYTES, StoredItem};

/// The most fields that one read names.
pub const MAX_FIELDS: usize = 100;

/// The most bytes of names that one read names: an expression substitutes 2 MB in all (DynamoDB Developer Guide, "Quotas").
const MAX_NAMES_BYTES: usize = 1 << 20;

/// The top-level attributes that a read is to return of each item. The key always comes with them,
/// and an item that lacks one of them comes without it.
///
/// Reading a part of an item takes as many read units as reading all of it (AWS, "Using projection
/// expressions in DynamoDB"), but less of the network and of the function's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields(Arc<BTreeSet<String>>);

impl Fields {
    /// Checks a client's list: 1 to [`MAX_FIELDS`] names that a client's attribute could have, none
    /// of them twice. Those of the key may be among them.
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let bad = |why: String| Err(Error::new(Code::BadFields, why));
        let mut fields = BTreeSet::new();
        for name in names {
            if name.is_empty() {
                return bad("a name in fields is empty".to_owned());
            }
            if name.len() > MAX_NAME_BYTES {
                return bad(format!("a name in fields has more than {MAX_NAME_BYTES} bytes"));
            }
            if name.starts_with(RESERVED_PREFIX) {
                return bad(format!("{name:?} in fields begins with \"_ds_\", which is reserved"));
            }
            if fields.len() == MAX_FIELDS {
                return bad(format!("there are more than {MAX_FIELDS} names in fields"));
            }
            if fields.contains(&name) {
                return bad(format!("{name:?} stands in fields twice"));
            }
            fields.insert(name);
        }
        if fields.iter().map(String::len).sum::<usize>() > MAX_NAMES_BYTES {
            return bad(format!(
                "the names in fields have more than {MAX_NAMES_BYTES} bytes in all"
            ));
        }
        if fields.is_empty() {
            return bad("fields is empty".to_owned());
        }
        Ok(Self(Arc::new(fields)))
    }

    /// No attribute: the key, and what the system keeps with it.
    pub(crate) fn none() -> Self {
        Self(Arc::default())
    }

    /// The names, in their order. A store reads the key in any case, whether it is among them or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The item with no more than these attributes, as a store returns it.
    #[must_use]
    pub fn project(&self, mut item: StoredItem) -> StoredItem {
        item.attributes.retain(|name, _| self.0.contains(name));
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(names: &[&str]) -> Result<(), Code> {
        let names = names.iter().map(|name| (*name).to_owned());
        Fields::new(names).map(|_| ()).map_err(|error| error.code())
    }

    #[test]
    fn only_lists_of_names_that_attributes_may_have_are_fields() {
        assert_eq!(code(&["a", "b,c", " ", "pk", "sk", "a.b", "é"]), Ok(()));
        for wrong in [&[][..], &[""], &["a", ""], &["a", "b", "a"], &["_ds_g"], &["a", "_ds_"]] {
            assert_eq!(code(wrong), Err(Code::BadFields), "{wrong:?}");
        }
        let names = (0..=MAX_FIELDS).map(|n| n.to_string()).collect::<Vec<_>>();
        let names = names.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(code(&names[1..]), Ok(()));
        assert_eq!(code(&names), Err(Code::BadFields));
        // DynamoDB refused the whole read.
        let long = "a".repeat(MAX_NAME_BYTES + 1);
        assert_eq!((code(&[&long[1..]]), code(&[&long])), (Ok(()), Err(Code::BadFields)));
        let many = (0..17).map(|n| format!("{n:02}{}", &long[3..])).collect::<Vec<_>>();
        let many = many.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!((code(&many[1..]), code(&many)), (Ok(()), Err(Code::BadFields)));
    }
}
