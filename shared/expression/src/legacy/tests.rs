use serde_json::{Value, json};

use super::*;

type Translate<T> = fn(&RawValue, &mut Placeholders) -> Result<T, LegacyError>;

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// The text with the attributes and values that its placeholders stand for.
fn shown(text: &str, placeholders: &Placeholders) -> String {
    let mut text = text.to_owned();
    for (name, attribute) in placeholders.names.iter().rev() {
        text = text.replace(name, attribute);
    }
    for (name, value) in placeholders.values.iter().rev() {
        text = text.replace(name, &value.to_string());
    }
    text
}

fn text<T: Into<Option<String>>>(translate: Translate<T>, parameter: &Value) -> String {
    let mut placeholders = Placeholders::default();
    match translate(&raw(parameter), &mut placeholders).map(Into::into) {
        Ok(Some(text)) => shown(&text, &placeholders),
        Ok(None) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn expecting(expected: &Value) -> String {
    text(|raw, placeholders| super::expected(raw, None, placeholders), expected)
}

fn compared(operator: &str, values: &Value) -> String {
    let condition = json!({ "ComparisonOperator": operator, "AttributeValueList": values });
    let filter: Translate<_> = |raw, placeholders| super::filter(raw, None, placeholders);
    let parameter = json!({ "a": condition });
    let of_filter = text(filter, &parameter);
    assert_eq!(of_filter, expecting(&parameter));
    of_filter
}

#[test]
fn every_operator_has_its_condition() {
    let (one, two) = (json!([{"S": "x"}]), json!([{"S": "x"}, {"S": "y"}]));
    for (operator, values, wanted) in [
        ("EQ", &one, r#"a = {"S":"x"}"#),
        ("NE", &one, r#"a <> {"S":"x"}"#),
        ("LE", &one, r#"a <= {"S":"x"}"#),
        ("LT", &one, r#"a < {"S":"x"}"#),
        ("GE", &one, r#"a >= {"S":"x"}"#),
        ("GT", &one, r#"a > {"S":"x"}"#),
        ("NOT_NULL", &json!([]), "attribute_exists(a)"),
        ("NULL", &json!([]), "attribute_not_exists(a)"),
        ("CONTAINS", &one, r#"contains(a, {"S":"x"})"#),
        ("NOT_CONTAINS", &one, r#"(attribute_exists(a) AND NOT contains(a, {"S":"x"}))"#),
        ("BEGINS_WITH", &one, r#"begins_with(a, {"S":"x"})"#),
        ("IN", &two, r#"a IN ({"S":"x"}, {"S":"y"})"#),
        ("BETWEEN", &two, r#"a BETWEEN {"S":"x"} AND {"S":"y"}"#),
    ] {
        assert_eq!(compared(operator, values), wanted);
    }
}

#[test]
fn values_that_an_operator_does_not_take_are_refused() {
    let count = |operator| {
        format!(
            "One or more parameter values were invalid: Invalid number of argument(s) for the \
             {operator} ComparisonOperator"
        )
    };
    let (none, one) = (json!([]), json!([{"S": "x"}]));
    for operator in ["EQ", "NE", "LE", "LT", "GE", "GT", "CONTAINS", "NOT_CONTAINS", "IN"] {
        assert_eq!(compared(operator, &none), count(operator));
    }
    for operator in ["NULL", "NOT_NULL", "BETWEEN"] {
        assert_eq!(compared(operator, &one), count(operator));
    }
    let unlike = |operator: &str, of: &str| {
        format!(
            "One or more parameter values were invalid: ComparisonOperator {operator} is not valid \
             for {of} AttributeValue type"
        )
    };
    assert_eq!(compared("GT", &json!([{"SS": ["x"]}])), unlike("GT", "SS"));
    assert_eq!(compared("BEGINS_WITH", &json!([{"N": "1"}])), unlike("BEGINS_WITH", "N"));
    assert_eq!(compared("CONTAINS", &json!([{"L": []}])), unlike("CONTAINS", "L"));
    assert_eq!(compared("IN", &json!([{"S": "x"}, {"M": {}}])), unlike("IN", "M"));
    assert_eq!(
        compared("IN", &json!([{"S": "x"}, {"N": "1"}])),
        "One or more parameter values were invalid: AttributeValues inside AttributeValueList must \
         be of same type"
    );
    assert_eq!(
        compared("eq", &one),
        "One or more parameter values were invalid: Invalid comparison operator"
    );
}

#[test]
fn expected_is_a_value_or_its_absence_or_a_comparison() {
    assert_eq!(expecting(&json!({})), "nothing");
    assert_eq!(expecting(&json!({"a": {"Value": {"N": "1"}}})), r#"a = {"N":"1"}"#);
    assert_eq!(expecting(&json!({"a": {"Value": {"N": "1"}, "Exists": true}})), r#"a = {"N":"1"}"#);
    assert_eq!(expecting(&json!({"a": {"Exists": false}})), "attribute_not_exists(a)");
    let by_value = json!({"a": {"ComparisonOperator": "NE", "Value": {"N": "1"}}});
    assert_eq!(expecting(&by_value), r#"a <> {"N":"1"}"#);
    assert_eq!(
        expecting(&json!({"b": {"Exists": false}, "a": {"Value": {"S": "x"}}})),
        r#"a = {"S":"x"} AND attribute_not_exists(b)"#
    );
    let value = json!({"S": "x"});
    for (condition, problem) in [
        (
            json!({"Exists": false, "ComparisonOperator": "NULL"}),
            "Exists and ComparisonOperator cannot be used together",
        ),
        (
            json!({"ComparisonOperator": "EQ", "Value": value, "AttributeValueList": [value]}),
            "Value and AttributeValueList cannot be used together",
        ),
        (
            json!({ "AttributeValueList": [value] }),
            "AttributeValueList can only be used with a ComparisonOperator",
        ),
        (json!({"Exists": false, "Value": value}), "Value cannot be used when Exists is false"),
        (json!({"Exists": true}), "Value must be provided when Exists is true"),
        (json!({}), "Value must be provided when Exists is null"),
        (
            json!({"ComparisonOperator": "EQ"}),
            "Value or AttributeValueList must be used with ComparisonOperator: EQ",
        ),
    ] {
        assert_eq!(
            expecting(&json!({ "a": condition })),
            format!("One or more parameter values were invalid: {problem} for Attribute: a")
        );
    }
}

#[test]
fn conditions_are_joined_by_their_operator() {
    let joined = |parameter: &Value, operator| {
        let mut placeholders = Placeholders::default();
        match expected(&raw(parameter), Some(operator), &mut placeholders) {
            Ok(text) => shown(&text.unwrap(), &placeholders),
            Err(error) => error.to_string(),
        }
    };
    let two = json!({"a": {"Exists": false}, "b": {"Exists": false}});
    assert_eq!(joined(&two, "OR"), "attribute_not_exists(a) OR attribute_not_exists(b)");
    assert_eq!(joined(&two, "AND"), "attribute_not_exists(a) AND attribute_not_exists(b)");
    assert_eq!(
        joined(&two, "or"),
        "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"
    );
    assert_eq!(
        joined(&json!({"a": {"Exists": false}}), "OR"),
        "ConditionalOperator can only be used when Filter or Expected has two or more elements"
    );
    assert_eq!(
        joined(&json!({}), "AND"),
        "ConditionalOperator cannot be used without Filter or Expected"
    );
}

#[test]
fn key_conditions_are_one_or_two_comparisons_of_keys() {
    let of = |parameter: &Value| text(key_conditions, parameter);
    let eq = json!({"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "x"}]});
    let begins = json!({"ComparisonOperator": "BEGINS_WITH", "AttributeValueList": [{"S": "y"}]});
    assert_eq!(of(&json!({ "pk": eq })), r#"pk = {"S":"x"}"#);
    assert_eq!(
        of(&json!({ "pk": eq, "a-b": begins })),
        r#"begins_with(a-b, {"S":"y"}) AND pk = {"S":"x"}"#
    );
    assert_eq!(of(&json!({})), "Conditions can be of length 1 or 2 only");
    let exists = json!({"ComparisonOperator": "NULL"});
    assert_eq!(
        of(&json!({ "pk": exists })),
        "Attempted conditional constraint is not an indexable operation"
    );
}

#[test]
fn updates_have_a_section_for_each_action() {
    let of = |parameter: &Value| text(attribute_updates, parameter);
    assert_eq!(of(&json!({})), "nothing");
    assert_eq!(
        of(&json!({
            "a": {"Value": {"S": "x"}},
            "b": {"Action": "PUT", "Value": {"NULL": true}},
            "c": {"Action": "ADD", "Value": {"N": "1"}},
            "d": {"Action": "DELETE"},
            "e": {"Action": "DELETE", "Value": {"SS": ["x"]}},
            "f": {"Action": "ADD", "Value": {"L": [{"N": "2"}]}},
        })),
        r#"ADD c {"N":"1"} DELETE e {"SS":["x"]} REMOVE d SET a = {"S":"x"}, b = {"NULL":true}, f = list_append(if_not_exists(f, {"L":[]}), {"L":[{"N":"2"}]})"#
    );
    let invalid = "One or more parameter values were invalid: ";
    for (update, problem) in [
        (json!({}), "Only DELETE action is allowed when no attribute value is specified"),
        (
            json!({"Action": "DELETE", "Value": {"S": "x"}}),
            "DELETE action with value is not supported for the type S",
        ),
        (
            json!({"Action": "ADD", "Value": {"S": "x"}}),
            "ADD action is not supported for the type S",
        ),
    ] {
        assert_eq!(of(&json!({ "a": update })), format!("{invalid}{problem}"));
    }
    assert_eq!(
        of(&json!({"a": {}, "b": {"Action": "put"}})),
        "Member must satisfy enum value set: [ADD, DELETE, PUT]' for Action"
    );
}

#[test]
fn attributes_to_get_are_whole_names() {
    let of = |parameter: &Value| text(attributes_to_get, parameter);
    assert_eq!(of(&json!(["a.b", "c"])), "a.b, c");
    assert_eq!(
        of(&json!(["a", "a"])),
        "One or more parameter values were invalid: Duplicate value in attribute name: a"
    );
    assert!(of(&json!([])).starts_with("Value '[]' at 'attributesToGet'"));
}

#[test]
fn values_go_on_as_they_are_and_unknown_members_are_refused() {
    let mut placeholders = Placeholders::default();
    let parameter = RawValue::from_string(r#"{"a": {"Value": { "N" : "1.50" }}}"#.to_owned());
    expected(&parameter.unwrap(), None, &mut placeholders).unwrap();
    assert_eq!(placeholders.values[":_ds0"].to_string(), r#"{"N":"1.50"}"#);
    let escaped = RawValue::from_string(r#"{"a": {"ComparisonOperator": "\u004eULL"}}"#.to_owned());
    let text = expected(&escaped.unwrap(), None, &mut Placeholders::default()).unwrap();
    assert_eq!(text.as_deref(), Some("attribute_not_exists(#_ds0)"));
    assert_eq!(expecting(&json!({"a": {"Exists": false, "b": 1}})), "Unexpected field type");
    assert_eq!(expecting(&json!([])), "Unexpected field type");
}
