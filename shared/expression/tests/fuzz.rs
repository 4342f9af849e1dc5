//! Texts and JSON that nobody would write. `DYNASHARD_FUZZ_CASES` sets how many, `DYNASHARD_FUZZ_SEED` which.

use dynashard_expression::{
    Condition, KeyCondition, Placeholders, Projection, excess, legacy, reserved, with_assignments,
    with_projected, wrap,
};
use dynashard_testkit::{Random, fuzz};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

const CASES: u64 = 20_000;

const GUARD: &str = "(attribute_not_exists(#g) OR #g <= :g)";
const ASSIGNMENTS: &str = "#v = :v";

const PIECES: &[&str] = &[
    "(",
    ")",
    ")",
    "((",
    "AND",
    "OR",
    "NOT",
    "a",
    ".",
    "SET",
    "set ",
    "REMOVE",
    "ADD",
    "=",
    "<>",
    "<=",
    ":v",
    "#n",
    ",",
    "[0]",
    "IN(",
    "BETWEEN",
    "size(",
    "contains(a, :v)",
    "_ds_v",
    "#_ds0",
    ":_ds",
    "'",
    "é",
    "\u{1f980}",
    "\0",
    "\u{2028}",
    " ",
    "\n",
    "\\",
    "12",
    "-- ",
    "\u{ff08}",
];

const PARAMETERS: &[&str] = &[
    r#"{"a":{"ComparisonOperator":"IN","AttributeValueList":[{"S":"x"},{"S":"y"}]}}"#,
    r#"{"a":{"Value":{"N":"1"},"Exists":true},"b":{"Exists":false}}"#,
    r#"{"a":{"Action":"ADD","Value":{"L":[]}},"b":{"Action":"DELETE"},"c":{"Value":{"SS":["x"]}}}"#,
    r#"{"pk":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"1"},{"N":"2"}]}}"#,
    r#"["a","b","a.b"]"#,
];

/// What is true or false of an item, and some projections.
const TESTS: &[&str] = &[
    "a = :v",
    "a.b[0] <> :w",
    ":v<#n",
    "(size(a))>=:v",
    "(a IN (:v, b) OR NOT b = :v)",
    "b BETWEEN :v AND :w",
    "contains(a, b)",
    "begins_with(b, :v)",
    "attribute_type(a,:v)",
    "attribute_exists(a)",
    "a[1], b.a, a[0]",
    "#n",
];

/// Values of each type, and what is none.
const VALUES: &str = r#"[{"S":"x"},{"N":"1e2"},{"N":"x"},{"B":"eHk="},{"B":"?"},{"BOOL":true},{"NULL":"true"},
    {"SS":["x","y"]},{"NS":["1",{}]},{"BS":["eHk="]},{"L":[{"N":"1"},{"S":"x"}]},{"M":{"b":{"L":[{"S":"x"}]}}},{},7,
    {"M":[]},{"L":{}},{"S":null,"N":"1"},{"S":1},{"X":"x"}]"#;

fn text(random: &Random) -> String {
    let pieces = (0..random.below(16)).map(|_| *random.pick(PIECES));
    damaged(pieces.collect(), random)
}

fn condition(random: &Random) -> String {
    let mut text = (*random.pick(TESTS)).to_owned();
    for _ in 0..random.below(4) {
        text += *random.pick(&[" AND ", " OR ", " AND NOT ", ", "]);
        text += *random.pick(TESTS);
    }
    damaged(text, random)
}

fn damaged(text: String, random: &Random) -> String {
    let mut text = text.into_bytes();
    if random.below(2) == 0 {
        random.damage(&mut text, |random| (0..random.below(4)).map(|_| random.byte()).collect());
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether the guard stands first, what follows closes no bracket that it has not opened, and no `OR` is outside of its brackets.
fn is_guarded(wrapped: &str) -> bool {
    let Some(rest) = wrapped.strip_prefix(GUARD).and_then(|rest| rest.strip_prefix(" AND ")) else {
        return false;
    };
    let mut depth = 0_i32;
    let mut word = String::new();
    for character in rest.chars().chain([' ']) {
        if character.is_ascii_alphanumeric() || "_#:".contains(character) {
            word.push(character.to_ascii_uppercase());
            continue;
        }
        if depth == 0 && word == "OR" {
            return false;
        }
        word.clear();
        depth += i32::from(character == '(') - i32::from(character == ')');
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

#[test]
fn no_text_panics_or_leaves_its_brackets() {
    let mut guarded = 0_u64;
    let cases = fuzz(CASES, |random| {
        let text = text(random);
        if let Ok(wrapped) = wrap(GUARD, Some(&text)) {
            assert!(is_guarded(&wrapped), "{wrapped:?}");
            guarded += 1;
        }
        if let Ok(more) = with_assignments(Some(&text), ASSIGNMENTS) {
            let glued = more.replacen(&format!(", {ASSIGNMENTS} "), "", 1);
            let in_section = more.replacen(&format!(", {ASSIGNMENTS}"), "", 1);
            let behind = more.replace(&format!(" SET {ASSIGNMENTS}"), "");
            let before = more.replacen(&format!("SET {ASSIGNMENTS} "), "", 1);
            assert!([glued, in_section, behind, before].contains(&text), "{more:?}");
        }
        let names = [GUARD.to_owned()];
        assert!(with_projected(&text, &names).starts_with(&text));
        assert_eq!(excess(&text), None);
        let found = reserved([text.as_str()], &Placeholders::default(), "_ds_");
        assert!(found.is_none_or(|found| text.contains(&found)));
    });
    assert!(guarded >= cases / 20, "only {guarded} of {cases} were guarded");
}

#[test]
fn no_text_and_no_item_panics_where_they_are_understood() {
    let values = serde_json::from_str::<Vec<Value>>(VALUES).expect("it is JSON");
    let mut understood = 0_u64;
    let cases = fuzz(CASES, |random| {
        let mut placeholders = Placeholders::default();
        placeholders.names.insert("#n".to_owned(), "b".to_owned());
        for name in [":v", ":w"] {
            placeholders.values.insert(name.to_owned(), random.pick(&values).clone());
        }
        let item = ["a", "b"].map(|name| (name.to_owned(), random.pick(&values).clone()));
        let item = Map::from_iter(item);
        let text = if random.below(4) == 0 { text(random) } else { condition(random) };
        let _ = KeyCondition::parse(&text, &placeholders);
        if let Ok(projection) = Projection::parse(&text, &placeholders) {
            let left = projection.apply(&item);
            let names = projection.names();
            assert!(
                left.keys().all(|name| names.contains(name.as_str()) && item.contains_key(name))
            );
        }
        let parsed = |text: &str| Condition::parse(text, &placeholders);
        if let Ok(condition) = parsed(&text) {
            understood += 1;
            let holds = condition.holds(&item);
            let negated = parsed(&format!("NOT ({text})")).expect("it is a condition");
            assert_ne!(negated.holds(&item), holds, "{text:?} {item:?}");
            for guard in ["attribute_exists(a)", "attribute_not_exists(a) OR a = a"] {
                let wrapped = wrap(guard, Some(&text)).expect("its brackets balance");
                let wrapped = parsed(&wrapped).expect("it is a condition");
                let guarded = parsed(guard).expect("it is a condition").holds(&item);
                assert_eq!(wrapped.holds(&item), guarded && holds, "{text:?} {item:?}");
            }
        }
    });
    assert!(understood >= cases / 10, "only {understood} of {cases} were understood");
}

#[test]
fn no_legacy_parameter_panics() {
    let mut translated = 0_u64;
    let cases = fuzz(CASES, |random| {
        let mut parameter = random.pick(PARAMETERS).as_bytes().to_vec();
        if random.below(4) > 0 {
            let noise =
                |random: &Random| random.pick(PARAMETERS).bytes().take(random.below(30)).collect();
            random.damage(&mut parameter, noise);
        }
        let Ok(parameter) = String::from_utf8(parameter) else { return };
        let Ok(parameter) = RawValue::from_string(parameter) else { return };
        let mut placeholders = Placeholders::default();
        let operator = *random.pick(&[None, None, Some("OR"), Some("x")]);
        let filter = legacy::filter(&parameter, operator, &mut placeholders).ok().flatten();
        if let Some(filter) = &filter {
            Condition::parse(filter, &placeholders).expect("it is a condition");
        }
        let key_condition = legacy::key_conditions(&parameter, &mut placeholders).ok();
        if let Some(condition) = &key_condition {
            KeyCondition::parse(condition, &placeholders).expect("it is a key condition");
        }
        let texts = [
            filter,
            key_condition,
            legacy::expected(&parameter, operator, &mut placeholders).ok().flatten(),
            legacy::attribute_updates(&parameter, &mut placeholders).ok().flatten(),
            legacy::attributes_to_get(&parameter, &mut placeholders).ok(),
        ];
        for text in texts.into_iter().flatten() {
            translated += 1;
            assert_eq!(reserved([text.as_str()], &placeholders, "_ds_"), None);
            wrap(GUARD, Some(&text)).expect("it is well-formed");
        }
    });
    assert!(translated >= cases / 10, "only {translated} of {cases} were translated");
}
