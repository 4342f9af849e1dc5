//! Requests of the AWS query protocol: a form whose names are paths, such as
//! `MetricData.member.1.MetricName`.

use super::super::error::ApiError;
use super::document::{Call, Document};
use std::collections::BTreeMap;

/// How deep a path may go. No structure of `CloudWatch` goes half as deep.
const MAX_DEPTH: usize = 16;

pub(super) fn read(form: &[u8]) -> Result<Call, ApiError> {
    let mut root = Node::default();
    let mut operation = None;
    for (name, value) in form_urlencoded::parse(form) {
        match name.as_ref() {
            "Action" => operation = Some(value.into_owned()),
            "Version" => {}
            path if path.split('.').count() > MAX_DEPTH => {
                return Err(ApiError::unreadable("a parameter goes too deep"));
            }
            path => root.insert(path, value.into_owned()),
        }
    }
    let operation = operation.ok_or_else(ApiError::no_operation)?;
    Ok(Call { operation, input: root.into_document() })
}

/// A place on the paths.
#[derive(Default)]
struct Node {
    value: Option<String>,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn insert(&mut self, path: &str, value: String) {
        let mut node = self;
        for part in path.split('.') {
            node = node.children.entry(part.to_owned()).or_default();
        }
        node.value = Some(value);
    }

    fn into_document(mut self) -> Document {
        if let Some(items) = self.children.remove("member") {
            return items.into_list();
        }
        if let Some(value) = self.value.filter(|_| self.children.is_empty()) {
            return Document::Untyped(value);
        }
        let members = self.children.into_iter();
        Document::Structure(members.map(|(name, node)| (name, node.into_document())).collect())
    }

    /// The items of a list in the order of their numbers, which may have gaps.
    fn into_list(self) -> Document {
        let mut items: Vec<_> = self
            .children
            .into_iter()
            .map(|(number, node)| (number.parse::<u64>().unwrap_or(u64::MAX), node))
            .collect();
        items.sort_by_key(|(number, _)| *number);
        Document::List(items.into_iter().map(|(_, node)| node.into_document()).collect())
    }
}
