//! The directory item as DynamoDB holds it.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use dynashard_core::DirectoryItem;
use dynashard_core::ports::StoreError;

use crate::attributes::number;

/// The hashes of the keys that have metadata: 8 bytes of each, big-endian, in order. Must be kept stable.
const COLLECTIONS: &str = "collections";

/// The optimistic lock. Must be kept stable.
const REV: &str = "rev";

/// The change of the item from `seen` to `next`, if it is as seen. The table and the key are to be added.
pub(crate) fn change(seen: &DirectoryItem, next: &DirectoryItem) -> UpdateBuilder {
    let hashes = next.hashes().iter().flat_map(|hash| hash.to_be_bytes()).collect::<Vec<_>>();
    let update = Update::builder()
        .update_expression("SET #collections = :collections, #rev = :rev")
        .expression_attribute_names("#collections", COLLECTIONS)
        .expression_attribute_names("#rev", REV)
        .expression_attribute_values(":collections", AttributeValue::B(Blob::new(hashes)))
        .expression_attribute_values(":rev", number(next.rev));
    if seen.rev == 0 {
        return update.condition_expression("attribute_not_exists(#rev)");
    }
    update
        .condition_expression("#rev = :seen_rev")
        .expression_attribute_values(":seen_rev", number(seen.rev))
}

/// Reads the item. The error names the wrong field.
pub(crate) fn decode(item: &HashMap<String, AttributeValue>) -> Result<DirectoryItem, StoreError> {
    let wrong = |field: &str, what: &str| {
        StoreError::Corrupt(format!("the directory item is damaged: {field} {what}"))
    };
    let rev = match item.get(REV) {
        Some(AttributeValue::N(text)) => text.parse().ok().filter(|rev| *rev > 0),
        _ => None,
    };
    let rev = rev.ok_or_else(|| wrong(REV, "is missing or not a positive number"))?;
    let Some(AttributeValue::B(bytes)) = item.get(COLLECTIONS) else {
        return Err(wrong(COLLECTIONS, "is missing or not a binary value"));
    };
    let (hashes, []) = bytes.as_ref().as_chunks::<8>() else {
        return Err(wrong(COLLECTIONS, "does not hold 8 bytes for each collection"));
    };
    let hashes = hashes.iter().map(|hash| u64::from_be_bytes(*hash)).collect();
    DirectoryItem::stored(rev, hashes)
        .ok_or_else(|| wrong(COLLECTIONS, "does not hold its hashes in order"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_directory_is_reported_by_its_field() {
        let bytes = |bytes: &[u8]| AttributeValue::B(Blob::new(bytes.to_vec()));
        let one = AttributeValue::N("1".to_owned());
        for (rev, collections, field) in [
            (None, Some(bytes(&[0; 8])), "rev"),
            (Some(AttributeValue::N("0".to_owned())), Some(bytes(&[0; 8])), "rev"),
            (Some(one.clone()), None, "collections"),
            (Some(one.clone()), Some(bytes(&[0; 7])), "collections"),
            (Some(one), Some(bytes(&[0; 16])), "collections"),
        ] {
            let rev = rev.map(|rev| (REV.to_owned(), rev));
            let collections = collections.map(|bytes| (COLLECTIONS.to_owned(), bytes));
            let item = rev.into_iter().chain(collections).collect();
            match decode(&item) {
                Err(StoreError::Corrupt(why)) => assert!(why.contains(field), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
