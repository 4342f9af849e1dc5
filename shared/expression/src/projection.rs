//! Reads projections, and applies them to items.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::cursor::Cursor;
use crate::malformed::Malformed;
use crate::path::{Path, Step};
use crate::placeholders::Placeholders;
use crate::tokens::tokens;
use crate::value::typed;

/// Which parts of items are wanted: a `ProjectionExpression` ([projections][projections]).
///
/// [projections]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ProjectionExpressions.html
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// In order, so that those with a common beginning stand together.
    paths: Vec<Path>,
}

impl Projection {
    /// The projection that a text is. Paths that overlap, which DynamoDB refuses, are as good as the shorter one.
    pub fn parse(text: &str, placeholders: &Placeholders) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(text, placeholders);
        let mut paths = vec![cursor.path()?];
        while cursor.takes(",") {
            paths.push(cursor.path()?);
        }
        if cursor.peek().is_some() {
            return Err(cursor.unexpected());
        }
        paths.sort_unstable();
        Ok(Self { paths })
    }

    /// The attributes that it is of, or of parts of which.
    pub fn names(&self) -> BTreeSet<&str> {
        self.paths.iter().map(|path| path.attribute.as_str()).collect()
    }

    /// What there is of the parts in an item in DynamoDB JSON. The elements of a list are in its order and without the gaps
    /// between them. A list or a map of which there is no part is left out.
    pub fn apply(&self, item: &Map<String, Value>) -> Map<String, Value> {
        let of_attributes = self.paths.chunk_by(|one, next| one.attribute == next.attribute);
        let parts = of_attributes.filter_map(|paths| {
            let attribute = &paths[0].attribute;
            let steps = paths.iter().map(|path| path.steps.as_slice()).collect::<Vec<_>>();
            Some((attribute.clone(), part(item.get(attribute)?, &steps)?))
        });
        parts.collect()
    }
}

/// The parts of a value at these ways into it, which are in order. It recurses as deep as the value nests.
fn part(value: &Value, ways: &[&[Step]]) -> Option<Value> {
    if ways.iter().any(|way| way.is_empty()) {
        return Some(value.clone());
    }
    let alike = ways.chunk_by(|one, next| one.first() == next.first());
    let parts = alike.filter_map(|ways| {
        let (step, _) = ways.first()?.split_first()?;
        let behind = ways.iter().map(|way| &way[1..]).collect::<Vec<_>>();
        Some((step, part(step.take(value)?, &behind)?))
    });
    let (mut members, mut elements) = (Map::new(), Vec::new());
    for (step, part) in parts {
        match step {
            Step::Member(name) => _ = members.insert(name.clone(), part),
            Step::Element(_) => elements.push(part),
        }
    }
    match typed(value)? {
        ("M", _) if !members.is_empty() => Some(json!({"M": members})),
        ("L", _) if !elements.is_empty() => Some(json!({"L": elements})),
        _ => None,
    }
}

/// A projection expression with these names, such as `#g`, behind its own.
///
/// DynamoDB refuses paths that overlap, so the names must be reserved ones. A projection without a path stays as it is:
/// DynamoDB refuses that in its own words.
pub fn with_projected(projection: &str, names: &[String]) -> String {
    if names.is_empty() || tokens(projection).next().is_none() {
        return projection.to_owned();
    }
    format!("{projection}, {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, item: &Value) -> Value {
        let mut placeholders = Placeholders::default();
        placeholders.names.insert("#c".to_owned(), "c.d".to_owned());
        let projection = Projection::parse(text, &placeholders).unwrap();
        json!(projection.apply(item.as_object().unwrap()))
    }

    #[test]
    fn a_projection_leaves_what_it_names() {
        let item = json!({
            "a": {"L": [{"N": "0"}, {"N": "1"}, {"L": [{"N": "2"}]}, {"M": {"x": {"N": "3"}, "y": {"N": "4"}}}]},
            "b": {"M": {"c.d": {"S": "5"}, "e": {"M": {"f": {"S": "6"}, "g": {"S": "7"}}}}},
            "h": {"S": "8"},
        });
        for (text, left) in [
            ("h, #c, nowhere", json!({"h": {"S": "8"}})),
            ("a[1], a[0]", json!({"a": {"L": [{"N": "0"}, {"N": "1"}]}})),
            ("a[10],a[2][0],a[2][9]", json!({"a": {"L": [{"L": [{"N": "2"}]}]}})),
            ("a[3].y, a[1], a[3].x", {
                json!({"a": {"L": [{"N": "1"}, {"M": {"x": {"N": "3"}, "y": {"N": "4"}}}]}})
            }),
            ("b.#c, b.e.g", {
                json!({"b": {"M": {"c.d": {"S": "5"}, "e": {"M": {"g": {"S": "7"}}}}}})
            }),
            ("a[9], b.x, b.e.x, a.x, b[0], h.x, h[0], #c.x", json!({})),
        ] {
            assert_eq!(applied(text, &item), left, "{text}");
        }
    }

    #[test]
    fn a_projection_names_the_attributes_that_it_is_of() {
        let projection = Projection::parse("b[0].c, a, b[1]", &Placeholders::default()).unwrap();
        assert_eq!(Vec::from_iter(projection.names()), ["a", "b"]);
    }

    #[test]
    fn what_is_no_projection_is_malformed() {
        const TEXTS: &str =
            "a, | ,a | a b | a. | a[ | a[x] | a[0 | [0] | :v | #x | and | (a) | a.1b | size(a)";
        for text in TEXTS.split(" | ").chain([" "]) {
            let projection = Projection::parse(text, &Placeholders::default());
            assert!(projection.is_err(), "{text}: {projection:?}");
        }
    }

    #[test]
    fn names_stand_behind_the_paths_of_the_client() {
        let names = ["#g".to_owned(), "#v".to_owned()];
        assert_eq!(with_projected("a, b.c[0]", &names), "a, b.c[0], #g, #v");
        assert_eq!(with_projected("a", &[]), "a");
        assert_eq!(with_projected(" ", &names), " ");
    }
}
