//! Event patterns, as filters of records: the subset of `EventBridge`'s language that this
//! application uses, and what lies next to it.
//!
//! The rules are those of "Comparison operators for use in event patterns" in `EventBridge`'s user
//! guide. A pattern names fields down to a list of values and comparisons; an event matches if each
//! named field matches one entry of its list. Case counts, and numbers match as they are written.

use serde_json::{Map, Value};

/// A pattern that an event matches or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern(Node);

impl Pattern {
    /// Reads a pattern, which is a JSON object.
    ///
    /// # Errors
    /// A sentence that names what is wrong, or which operator the local stack does not know.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
        match value {
            Value::Object(fields) => Node::read_fields(fields, "").map(Self),
            _ => Err("a pattern must be a JSON object".to_owned()),
        }
    }

    pub(crate) fn matches(&self, event: &Value) -> bool {
        self.0.matches(Some(event))
    }
}

/// What must hold for one field.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// Each of its fields must match.
    Fields(Vec<(String, Node)>),
    /// One of these must hold for it.
    Rules(Vec<Rule>),
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    Equals(Value),
    Prefix(String),
    AnythingBut(Vec<Value>),
    /// Whether there is a field with a value; objects are none.
    Exists(bool),
}

impl Node {
    fn read(value: Value, path: &str) -> Result<Self, String> {
        match value {
            Value::Object(fields) => Self::read_fields(fields, path),
            Value::Array(rules) if rules.is_empty() => {
                Err(format!("{path} has an empty list, which nothing matches"))
            }
            Value::Array(rules) => {
                let rules = rules.into_iter().map(|rule| Rule::read(rule, path));
                rules.collect::<Result<_, _>>().map(Self::Rules)
            }
            _ => Err(format!("{path} must be an object or a list")),
        }
    }

    fn read_fields(fields: Map<String, Value>, path: &str) -> Result<Self, String> {
        let fields = fields.into_iter().map(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if name.starts_with('$') {
                return Err(unknown_operator(&path));
            }
            Ok((name, Self::read(value, &path)?))
        });
        fields.collect::<Result<_, _>>().map(Self::Fields)
    }

    fn matches(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Fields(_), Some(Value::Array(items))) => {
                items.iter().any(|item| self.matches(Some(item)))
            }
            (Self::Fields(fields), value) => fields
                .iter()
                .all(|(name, node)| node.matches(value.and_then(|value| value.get(name)))),
            (Self::Rules(rules), value) => rules.iter().any(|rule| rule.matches(value)),
        }
    }
}

impl Rule {
    fn read(value: Value, path: &str) -> Result<Self, String> {
        let Value::Object(operator) = value else {
            return match value {
                Value::Array(_) => Err(format!("{path} has a list in its list")),
                scalar => Ok(Self::Equals(scalar)),
            };
        };
        let mut operator = operator.into_iter();
        match (operator.next(), operator.next()) {
            (Some((name, operand)), None) => match (name.as_str(), operand) {
                ("prefix", Value::String(prefix)) => Ok(Self::Prefix(prefix)),
                ("exists", Value::Bool(exists)) => Ok(Self::Exists(exists)),
                ("anything-but", Value::Array(values)) if values.iter().all(is_scalar) => {
                    Ok(Self::AnythingBut(values))
                }
                ("anything-but", value) if is_scalar(&value) => Ok(Self::AnythingBut(vec![value])),
                _ => Err(unknown_operator(&format!("{path}.{name}"))),
            },
            _ => Err(format!("{path} has a comparison that is not one operator")),
        }
    }

    fn matches(&self, value: Option<&Value>) -> bool {
        let leaf = value.filter(|value| !value.is_object());
        if let Self::Exists(exists) = self {
            return leaf.is_some() == *exists;
        }
        match leaf {
            Some(Value::Array(items)) => items.iter().any(|item| self.holds(item)),
            Some(scalar) => self.holds(scalar),
            None => false,
        }
    }

    fn holds(&self, scalar: &Value) -> bool {
        match self {
            Self::Equals(wanted) => scalar == wanted,
            Self::Prefix(prefix) => scalar.as_str().is_some_and(|text| text.starts_with(prefix)),
            Self::AnythingBut(unwanted) => !unwanted.contains(scalar),
            Self::Exists(exists) => *exists,
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

fn unknown_operator(path: &str) -> String {
    format!(
        "the local stack does not know the operator {path}: it knows prefix, anything-but and exists"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_match_as_on_eventbridge() {
        let event = json!({
            "eventName": "INSERT",
            "dynamodb": {
                "NewImage": { "phase": { "S": "forward" }, "rev": { "N": "7" }, "tags": { "SS": ["a", "b"] } },
                "SizeBytes": 26,
                "none": null,
            },
        });
        for (pattern, expected) in [
            (json!({}), true),
            (json!({ "eventName": ["INSERT"] }), true),
            (json!({ "eventName": ["insert"] }), false),
            (json!({ "eventName": ["MODIFY", "INSERT"] }), true),
            (
                json!({ "dynamodb": { "NewImage": { "phase": { "S": ["forward", "move"] } } } }),
                true,
            ),
            (json!({ "dynamodb": { "NewImage": { "phase": { "S": ["move"] } } } }), false),
            (json!({ "dynamodb": { "OldImage": { "phase": { "S": ["forward"] } } } }), false),
            // Fields are joined by and, entries of a list by or.
            (json!({ "eventName": ["INSERT"], "dynamodb": { "SizeBytes": [27] } }), false),
            (json!({ "eventName": ["INSERT"], "dynamodb": { "SizeBytes": [26] } }), true),
            (json!({ "dynamodb": { "SizeBytes": ["26"] } }), false),
            (json!({ "dynamodb": { "none": [null] } }), true),
            (json!({ "dynamodb": { "missing": [null] } }), false),
            // One element of a list is enough.
            (json!({ "dynamodb": { "NewImage": { "tags": { "SS": ["b"] } } } }), true),
            (json!({ "dynamodb": { "NewImage": { "tags": { "SS": ["c"] } } } }), false),
            (json!({ "eventName": [{ "prefix": "INS" }] }), true),
            (json!({ "eventName": [{ "prefix": "MOD" }] }), false),
            (json!({ "eventName": [{ "prefix": "MOD" }, { "prefix": "I" }] }), true),
            (json!({ "eventName": [{ "anything-but": "REMOVE" }] }), true),
            (json!({ "eventName": [{ "anything-but": ["REMOVE", "INSERT"] }] }), false),
            (json!({ "missing": [{ "anything-but": "x" }] }), false),
            (json!({ "eventName": [{ "exists": true }] }), true),
            (json!({ "eventName": [{ "exists": false }] }), false),
            (
                json!({ "dynamodb": { "OldImage": { "phase": { "S": [{ "exists": false }] } } } }),
                true,
            ),
            (
                json!({ "dynamodb": { "OldImage": { "phase": { "S": [{ "exists": true }] } } } }),
                false,
            ),
            // It looks at values only, not at objects.
            (json!({ "dynamodb": { "NewImage": [{ "exists": true }] } }), false),
        ] {
            let parsed = Pattern::parse(&pattern.to_string()).expect("a pattern");
            assert_eq!(parsed.matches(&event), expected, "{pattern}");
        }
    }

    #[test]
    fn fields_below_a_list_match_in_one_of_its_elements() {
        let event = json!({ "L": [{ "S": "a", "n": 1 }, { "S": "b", "n": 2 }] });
        let matches = |pattern: Value| {
            Pattern::parse(&pattern.to_string()).expect("a pattern").matches(&event)
        };
        assert!(matches(json!({ "L": { "S": ["b"], "n": [2] } })));
        assert!(!matches(json!({ "L": { "S": ["a"], "n": [2] } })));
    }

    #[test]
    fn what_the_stack_would_not_match_as_eventbridge_does_is_named() {
        for (pattern, expected) in [
            ("{", "not valid JSON"),
            ("[]", "a pattern must be a JSON object"),
            (r#"{"a":"b"}"#, "a must be an object or a list"),
            (r#"{"a":{"b":[]}}"#, "a.b has an empty list"),
            (r#"{"a":[["b"]]}"#, "a has a list in its list"),
            (r#"{"a":[{"numeric":[">",1]}]}"#, "does not know the operator a.numeric"),
            (r#"{"a":[{"prefix":{"equals-ignore-case":"b"}}]}"#, "the operator a.prefix"),
            (r#"{"a":[{"anything-but":{"prefix":"b"}}]}"#, "the operator a.anything-but"),
            (r#"{"$or":[{"a":["b"]}]}"#, "the operator $or"),
            (r#"{"a":[{}]}"#, "a has a comparison that is not one operator"),
            (r#"{"a":[{"prefix":"b","exists":true}]}"#, "that is not one operator"),
        ] {
            let problem = Pattern::parse(pattern).expect_err(pattern);
            assert!(problem.contains(expected), "{pattern}: {problem}");
        }
    }
}
