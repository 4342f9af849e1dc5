//! JSON Merge Patch (RFC 7396) on attributes.

use crate::model::item::{AttributeValue, Attributes};

/// Applies a JSON Merge Patch (RFC 7396) to an item's attributes: a null removes, a map merges
/// into a map, anything else replaces.
pub fn merge_patch(target: &mut Attributes, patch: Attributes) {
    for (name, change) in patch {
        match change {
            AttributeValue::Null => {
                target.remove(&name);
            }
            AttributeValue::Map(patch) => {
                let mut merged = match target.remove(&name) {
                    Some(AttributeValue::Map(existing)) => existing,
                    _ => Attributes::new(),
                };
                merge_patch(&mut merged, patch);
                target.insert(name, AttributeValue::Map(merged));
            }
            value => {
                target.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> AttributeValue {
        AttributeValue::String(value.to_owned())
    }

    fn map<const N: usize>(entries: [(&str, AttributeValue); N]) -> Attributes {
        entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[track_caller]
    fn check(mut target: Attributes, patch: Attributes, expected: &Attributes) {
        merge_patch(&mut target, patch);
        assert_eq!(&target, expected);
    }

    /// The test cases of RFC 7396, appendix A, whose target and patch are objects.
    #[test]
    fn the_examples_of_the_rfc_hold() {
        use AttributeValue::{List, Map, Null};
        check(map([("a", text("b"))]), map([("a", text("c"))]), &map([("a", text("c"))]));
        check(
            map([("a", text("b"))]),
            map([("b", text("c"))]),
            &map([("a", text("b")), ("b", text("c"))]),
        );
        check(map([("a", text("b"))]), map([("a", Null)]), &map([]));
        check(
            map([("a", text("b")), ("b", text("c"))]),
            map([("a", Null)]),
            &map([("b", text("c"))]),
        );
        check(
            map([("a", List(vec![text("b")]))]),
            map([("a", text("c"))]),
            &map([("a", text("c"))]),
        );
        check(
            map([("a", text("c"))]),
            map([("a", List(vec![text("b")]))]),
            &map([("a", List(vec![text("b")]))]),
        );
        check(
            map([("a", Map(map([("b", text("c"))])))]),
            map([("a", Map(map([("b", text("d")), ("c", Null)])))]),
            &map([("a", Map(map([("b", text("d"))])))]),
        );
        check(
            map([("a", List(vec![Map(map([("b", text("c"))]))]))]),
            map([("a", List(vec![text("d")]))]),
            &map([("a", List(vec![text("d")]))]),
        );
        check(map([("e", Null)]), map([("a", text("d"))]), &map([("e", Null), ("a", text("d"))]));
        check(
            map([]),
            map([("a", Map(map([("bb", Map(map([("ccc", Null)])))])))]),
            &map([("a", Map(map([("bb", Map(map([])))])))]),
        );
    }
}
