//! Event patterns, as filters of records.
//!
//! Of `EventBridge`'s language this is what the application uses: a pattern names fields down to a
//! list of values, and an event matches if each named field has one value of its list, or is there
//! or not, as `exists` asks. Case counts, and numbers match as they are written ("Comparison operators
//! for use in event patterns" in `EventBridge`'s user guide).

use serde_json::{Map, Value};

/// A pattern that an event matches or not: objects of objects, and of lists of values at last.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern(Value);

impl Pattern {
    /// Reads a pattern, which is a JSON object.
    ///
    /// # Errors
    /// A sentence that names what is wrong, or the operator that the local stack does not know.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let pattern: Value =
            serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
        if !pattern.is_object() {
            return Err("a pattern must be a JSON object".to_owned());
        }
        check(&pattern, "")?;
        Ok(Self(pattern))
    }

    pub(crate) fn matches(&self, event: &Value) -> bool {
        matches(&self.0, Some(event))
    }
}

fn check(pattern: &Value, path: &str) -> Result<(), String> {
    match pattern {
        Value::Object(fields) => {
            if let Some(name) = fields.keys().find(|name| name.starts_with('$')) {
                return Err(format!("the local stack does not know the operator {name}"));
            }
            fields.iter().try_for_each(|(name, field)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                check(field, &path)
            })
        }
        Value::Array(values) if values.is_empty() => {
            Err(format!("{path} has an empty list, which nothing matches"))
        }
        Value::Array(values) => values.iter().try_for_each(|value| match value {
            Value::Array(_) => Err(format!("{path} has a list in its list")),
            Value::Object(operator) if exists(value).is_none() => {
                Err(unknown_operator(operator, path))
            }
            _ => Ok(()),
        }),
        _ => Err(format!("{path} must be an object or a list")),
    }
}

/// Each field of an object must match, and a value must be one of a list.
fn matches(pattern: &Value, value: Option<&Value>) -> bool {
    match (pattern, value) {
        (Value::Object(_), Some(Value::Array(items))) => {
            items.iter().any(|item| matches(pattern, Some(item)))
        }
        (Value::Object(fields), value) => fields
            .iter()
            .all(|(name, field)| matches(field, value.and_then(|value| value.get(name)))),
        (Value::Array(_), Some(Value::Array(items))) if !items.is_empty() => {
            items.iter().any(|item| matches(pattern, Some(item)))
        }
        (Value::Array(wanted), value) => {
            // Only a leaf has a value and exists.
            let value = value.filter(|value| !value.is_object());
            let is_wanted = |value: &Value| wanted.contains(value);
            value.is_some_and(is_wanted)
                || wanted.iter().any(|want| exists(want) == Some(value.is_some()))
        }
        _ => false,
    }
}

/// What the operator `exists` asks for.
fn exists(operator: &Value) -> Option<bool> {
    operator.as_object().filter(|members| members.len() == 1)?.get("exists")?.as_bool()
}

fn unknown_operator(operator: &Map<String, Value>, path: &str) -> String {
    let names = operator.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "{path}: the local stack compares with values, and asks whether there is one (exists); it does not know the \
         operator {names}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            // Only a leaf exists.
            (json!({ "dynamodb": { "NewImage": { "rev": { "N": [{ "exists": true }] } } } }), true),
            (
                json!({ "dynamodb": { "NewImage": { "rev": { "N": [{ "exists": false }] } } } }),
                false,
            ),
            (json!({ "dynamodb": { "NewImage": { "rev": [{ "exists": true }] } } }), false),
            (json!({ "dynamodb": { "NewImage": { "rev": [{ "exists": false }] } } }), true),
            (
                json!({ "dynamodb": { "OldImage": { "rev": { "N": [{ "exists": true }] } } } }),
                false,
            ),
            (
                json!({ "dynamodb": { "OldImage": { "rev": { "N": [{ "exists": false }] } } } }),
                true,
            ),
            (
                json!({ "dynamodb": { "OldImage": { "rev": { "N": ["8", { "exists": false }] } } } }),
                true,
            ),
            // One element of a list is enough.
            (json!({ "dynamodb": { "NewImage": { "tags": { "SS": ["b"] } } } }), true),
            (json!({ "dynamodb": { "NewImage": { "tags": { "SS": ["c"] } } } }), false),
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
    fn patterns_that_the_stack_cannot_match_are_refused() {
        for (pattern, expected) in [
            ("{", "not valid JSON"),
            ("[]", "a pattern must be a JSON object"),
            (r#"{"a":"b"}"#, "a must be an object or a list"),
            (r#"{"a":{"b":[]}}"#, "a.b has an empty list"),
            (r#"{"a":[["b"]]}"#, "a has a list in its list"),
            (r#"{"a":[{"numeric":[">",1]}]}"#, "a: the local stack compares with values"),
            (r#"{"a":[{"exists":1}]}"#, "does not know the operator exists"),
            (r#"{"a":["b",{"prefix":"b"}]}"#, "does not know the operator prefix"),
            (r#"{"$or":[{"a":["b"]}]}"#, "does not know the operator $or"),
        ] {
            let problem = Pattern::parse(pattern).expect_err(pattern);
            assert!(problem.contains(expected), "{pattern}: {problem}");
        }
    }

    /// docs/ADOPTING.md has the filter, and the vectors say what it lets through.
    #[test]
    fn the_filter_for_triggers_drops_markers_and_nothing_that_clients_have_done() {
        let page = include_str!("../../../docs/ADOPTING.md");
        let patterns = page.lines().filter_map(|line| line.trim().strip_prefix("- Pattern: '"));
        let patterns = patterns
            .map(|line| {
                Pattern::parse(line.strip_suffix('\'').expect("a quote")).expect("a pattern")
            })
            .collect::<Vec<_>>();
        assert_eq!(patterns.len(), 2);
        let vectors = include_str!("../../../shared/streams/tests/records.json");
        for vector in serde_json::from_str::<Vec<Value>>(vectors).expect("JSON") {
            let passes = patterns.iter().any(|pattern| pattern.matches(&vector["record"]));
            assert_eq!(passes, vector["passes_filter"] == true, "{}", vector["name"]);
            assert!(passes || vector["logical"].is_null(), "{}", vector["name"]);
        }
    }
}
