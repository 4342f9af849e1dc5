use serde_json::json;

use super::*;

fn item() -> Map<String, Value> {
    let item = json!({
        "s": {"S": "xy"},
        "n": {"N": "2.50"},
        "b": {"B": "AP8="},
        "t": {"BOOL": true},
        "z": {"NULL": true},
        "ss": {"SS": ["x", "y"]},
        "ns": {"NS": ["1", "2.5"]},
        "bs": {"BS": ["AP8=", "AA=="]},
        "l": {"L": [{"S": "x"}, {"N": "1.0"}, {"L": [{"S": "deep"}]}]},
        "m": {"M": {"c.d": {"S": "x"}, "e": {"L": [{"M": {"f": {"N": "7"}}}]}}},
        "crab": {"S": "\u{1f980}"},
        "big": {"N": "12345678901234567890123456789012345678"},
    });
    item.as_object().unwrap().clone()
}

fn placeholders() -> Placeholders {
    let mut placeholders = Placeholders::default();
    placeholders.names.insert("#c".to_owned(), "c.d".to_owned());
    let values = json!({
        ":x": {"S": "x"}, ":xy": {"S": "xy"}, ":y": {"S": "y"}, ":empty": {"S": ""},
        ":1": {"N": "1"}, ":2": {"N": "2"}, ":n": {"N": "+25e-1"}, ":3": {"N": "3"}, ":10": {"N": "10"},
        ":big": {"N": "12345678901234567890123456789012345679"},
        ":zero": {"B": "AA=="}, ":b": {"B": "AP8="}, ":ff": {"B": "/w=="}, ":t": {"BOOL": "true"}, ":f": {"BOOL": false},
        ":z": {"NULL": true}, ":ss": {"SS": ["y", "x"]}, ":ns": {"NS": ["2.50", "1.0"]},
        ":bs": {"BS": ["AA==", "AP8="]}, ":some": {"SS": ["x"]},
        ":l": {"L": [{"S": "x"}, {"N": "1"}, {"L": [{"S": "deep"}]}]}, ":deep": {"L": [{"S": "deep"}]},
        ":m": {"M": {"e": {"L": [{"M": {"f": {"N": "7.0"}}}]}, "c.d": {"S": "x"}}},
        ":S": {"S": "S"}, ":N": {"S": "N"}, ":NS": {"S": "NS"}, ":BOOL": {"S": "BOOL"},
    });
    placeholders.values.extend(values.as_object().unwrap().clone());
    placeholders
}

fn parsed(text: &str) -> Result<Condition, Malformed> {
    Condition::parse(text, &placeholders())
}

/// Asserts of each of these texts, with ` | ` between them, whether it holds of the item.
fn assert_each(holds: bool, texts: &str) {
    for text in texts.split(" | ") {
        assert_eq!(parsed(text).unwrap().holds(&item()), holds, "{text}");
    }
}

#[test]
fn values_of_one_type_are_compared_by_what_they_mean() {
    assert_each(
        true,
        "s = :xy | n = :n | b = :b | t = :t | z = :z | t <> :f | s <> :x | s > :x | s < :y | s >= :xy | \
         n < :10 | n >= :n | b > :zero | b < :ff | big < :big | big <> :big | :x = m.#c | :1 < n | \
         :x = :x | ss = :ss | ns = :ns | bs = :bs | l = :l | m = :m | ss <> :some",
    );
    assert_each(false, "s = :x | s < :xy | n > :10 | t = :f | ss = :some | l = :deep | m <> :m");
}

#[test]
fn values_of_different_types_are_not_equal_and_have_no_order() {
    assert_each(true, "s <> :1 | n <> :x | ss <> :ns | NOT s = :1 | NOT s < :1 | l <> :m");
    assert_each(
        false,
        "s = :n | s < :1 | s > :1 | n <= :x | b = :x | b < :xy | t < :t | t <= :t | ss <= :ss | \
         l >= :l | s BETWEEN :1 AND :xy | s IN (:1, :b) | z < :z",
    );
}

#[test]
fn of_what_is_missing_nothing_holds_but_that_it_is_and_that_it_differs() {
    assert_each(
        true,
        "attribute_not_exists(a) | a <> :x | a <> a | size(a) <> :1 | size(n) <> :1 | NOT a = :x | \
         attribute_not_exists(l[9]) | attribute_not_exists(s.x)",
    );
    assert_each(
        false,
        "a = :x | a = a | a < :x | :x > a | a BETWEEN :x AND :y | s BETWEEN a AND :xy | a IN (:x, a) | \
         attribute_exists(a) | attribute_type(a, :S) | contains(a, :x) | begins_with(a, :x) | \
         begins_with(s, a) | contains(s, a) | size(a) < :1",
    );
}

#[test]
fn a_range_takes_its_ends_and_a_list_any_of_its_values() {
    assert_each(
        true,
        "n BETWEEN :n AND :3 | n between :2 and :n | s IN (:x, :xy) | s in(s) | \
         n BETWEEN :2 AND :3 AND s = :xy | NOT n BETWEEN :3 AND :10 OR s = :x",
    );
    assert_each(false, "n BETWEEN :3 AND :10 | n BETWEEN :3 AND :2 | s IN (:x)");
}

#[test]
fn functions_look_at_what_a_value_is_and_has() {
    assert_each(
        true,
        "attribute_exists(m.e[0].f) | attribute_exists ( l [ 2 ] [ 0 ] ) | attribute_type(n, :N) | \
         attribute_type(ns, :NS) | attribute_type(t, :BOOL) | begins_with(s, :x) | \
         begins_with(s, :empty) | begins_with(b, :zero) | contains(s, :y) | contains(b, :ff) | \
         contains(ss, :x) | contains(ns, :n) | contains(bs, :zero) | contains(l, :1) | \
         contains(l, :deep) | contains(:ss, m.#c)",
    );
    assert_each(
        false,
        "attribute_type(n, :S) | attribute_type(n, :1) | begins_with(s, :y) | begins_with(n, :2) | \
         contains(s, :1) | contains(ss, :1) | contains(ns, :3) | contains(n, :2) | contains(m, :x) | \
         contains(l, :2) | contains(ss, :some) | contains(ss, :xy) | begins_with(b, :x)",
    );
}

#[test]
fn a_size_is_a_number_that_can_be_compared() {
    assert_each(
        true,
        "size(s) = :2 | size(b) = :2 | size(ss) = :2 | size(l) = :3 | size(m) = :2 | size(crab) = :2 | \
         :2 = size(bs) | size(s) = size(ns) | size(l) IN (:1, :3) | size(l[2]) BETWEEN :1 AND :2 | \
         contains(ns, size(m.e))",
    );
    assert_each(false, "size(n) >= :1 | size(t) >= :1 | size(z) = :1 | size(s) = :x");
}

#[test]
fn not_binds_more_tightly_than_and_and_that_than_or() {
    for (text, holds) in [
        ("+ OR - AND -", true),
        ("(+ OR -) AND -", false),
        ("- AND - OR +", true),
        ("- AND (- OR +)", false),
        ("NOT - AND -", false),
        ("NOT (- AND -)", true),
        ("NOT + OR +", true),
        ("NOT (+ OR +)", false),
        ("NOT NOT +", true),
        ("+ AND NOT - AND (- OR NOT (+ AND -))", true),
        ("+ Or - aNd -", true),
        ("not - and (((+)))", true),
    ] {
        assert_each(holds, &text.replace('+', "s = :xy").replace('-', "s = :x"));
    }
}

#[test]
fn an_operand_may_stand_in_brackets() {
    assert_each(
        true,
        "(s) = :xy | ((s) = (:xy)) | s IN ((:x), (:xy)) | (size(s)) = :2 AND (s) <> :x",
    );
}

#[test]
fn names_of_functions_are_names_without_a_bracket() {
    assert_each(false, "contains = :x | attribute_exists(contains) | size <> size AND s = :x");
}

#[test]
fn what_is_no_condition_is_malformed() {
    const TEXTS: &str = "s | :x | s = | = :x | s = :x AND | AND s = :x | s = :x s = :x | (s = :x | s = :x) | () | \
        NOT | s == :x | s IN () | s IN :x | s IN (:x | s BETWEEN :x | s BETWEEN :x OR :y | \
        size(s) | size(:x) = :1 | attribute_exists(:x) | attribute_exists(s, s) | contains(s) | \
        contains(s, :x, :y) | Contains(s, :x) | exists(s) | s[:x] = :x | \
        s[99999999999999999999999] = :x | s..t = :x | s = 1 | a-b = :x | and = :x | ((s) = :x | \
        if_not_exists(s, :x) = :x | s = :x; s = :x | é = :x";
    for text in TEXTS.split(" | ").chain([" "]) {
        let error = parsed(text).unwrap_err().to_string();
        assert!(error.starts_with("Syntax error; token: "), "{text}: {error}");
    }
    assert_eq!(parsed(""), Err(Malformed::Empty));
    assert_eq!(parsed("(NOT (#x = :x))"), Err(Malformed::UndefinedName("#x".to_owned())));
    assert_eq!(parsed("(NOT (s = :v))"), Err(Malformed::UndefinedValue(":v".to_owned())));
    let error = parsed("(s = :x))").unwrap_err().to_string();
    assert_eq!(error, r#"Syntax error; token: ")", near: "))""#);
}

#[test]
fn no_count_of_brackets_or_operators_exhausts_the_stack() {
    const MANY: usize = 20_000;
    let condition = format!("{}s = :xy{}", "(".repeat(MANY), ")".repeat(MANY));
    assert!(parsed(&condition).unwrap().holds(&item()));
    let condition = format!("{}s = :xy", "NOT ".repeat(MANY));
    assert!(parsed(&condition).unwrap().holds(&item()));
    let condition = format!("s = :x{}", " OR (s = :x".repeat(MANY)) + &")".repeat(MANY);
    assert!(!parsed(&condition).unwrap().holds(&item()));
    for piece in ["(", ")", "NOT ", "NOT (", "a AND ", "size(", "contains(", "a.", "a IN (", "a[0]"]
    {
        assert!(parsed(&piece.repeat(MANY)).is_err(), "{piece}");
    }
}

#[test]
fn a_condition_names_the_attributes_that_it_is_of() {
    let text = "m.#c = :x AND (size(s) > n OR NOT contains(l[0], :y)) AND ss IN (:x, b) AND t BETWEEN :x AND z \
                AND attribute_exists(a.s) AND begins_with(k, :x) AND attribute_type(q, :x)";
    let condition = Condition::parse(text, &placeholders()).unwrap();
    let names = ["a", "b", "k", "l", "m", "n", "q", "s", "ss", "t", "z"];
    assert_eq!(Vec::from_iter(condition.names()), names);
}
