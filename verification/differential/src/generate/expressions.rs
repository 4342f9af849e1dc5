//! Conditions, filters, updates, projections and key conditions.

use serde_json::{Value, json};

use super::texts::Texts;
use super::values::{NAMES, TYPES, partition, type_of, value};
use crate::table::SORTS;

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

/// A condition with so many conjunctions one in the other at most. Those of filters say nothing of keys.
pub(super) fn condition(texts: &mut Texts<'_>, depth: usize, with_keys: bool) -> String {
    let random = texts.random;
    if depth == 0 || random.percent(40) {
        return atom(texts, with_keys);
    }
    let space = texts.space();
    let one = condition(texts, depth - 1, with_keys);
    match random.below(6) {
        0 => format!("{}{space}{}", texts.word("NOT"), bracketed(texts, &one)),
        1 => bracketed(texts, &one),
        _ => {
            let word = texts.word(random.pick(&["AND", "OR"]));
            let other = condition(texts, depth - 1, with_keys);
            let joined = format!("{one}{space}{word}{space}{other}");
            if random.percent(40) { bracketed(texts, &joined) } else { joined }
        }
    }
}

/// Brackets around what has none, since DynamoDB refuses those that say nothing.
fn bracketed(texts: &Texts<'_>, condition: &str) -> String {
    let is_one_group = condition.starts_with('(') && condition.ends_with(')');
    if is_one_group && !texts.random.percent(2) {
        return condition.to_owned();
    }
    format!("({}{condition}{})", texts.gap(), texts.gap())
}

fn atom(texts: &mut Texts<'_>, with_keys: bool) -> String {
    let random = texts.random;
    if with_keys && random.percent(15) {
        return key_atom(texts);
    }
    let name = random.pick(&NAMES);
    let path = texts.path(name);
    let (gap, space) = (texts.gap(), texts.space());
    match random.below(14) {
        0 => format!("attribute_exists{gap}({path})"),
        1 | 2 => format!("attribute_not_exists({gap}{path}{gap})"),
        3 => {
            let kind = texts.value(json!({ "S": random.pick(&TYPES) }));
            format!("attribute_type({path},{gap}{kind})")
        }
        4 => {
            let kind = random.pick(&["S", "B"]);
            let begin = texts.value(value(random, kind, 0));
            format!("begins_with({path}, {begin})")
        }
        5 => {
            let element = texts.value(value(random, random.pick(&TYPES[..3]), 0));
            format!("contains({path},{gap}{element})")
        }
        6 => {
            let number = texts.value(json!({ "N": random.between(0, 4).to_string() }));
            format!("size({path}){gap}{}{gap}{number}", random.pick(&COMPARISONS))
        }
        7 => {
            let kind = random.pick(&["S", "N"]);
            let (low, high) = if kind == "S" { ("a", "b") } else { ("-1", "7") };
            let low = texts.value(json!({ kind: low }));
            let high = texts.value(json!({ kind: high }));
            let (between, and) = (texts.word("BETWEEN"), texts.word("AND"));
            format!("{path} {between}{space}{low} {and} {high}")
        }
        8 => {
            let values =
                (0..random.between(1, 3)).map(|_| texts.value_of(name)).collect::<Vec<_>>();
            format!("{path} {}{gap}({})", texts.word("IN"), values.join(&format!(",{gap}")))
        }
        9 => format!("{path} = {}", texts.path(name)),
        10 => format!("{} {} {path}", texts.value_of(name), random.pick(&COMPARISONS[..2])),
        _ => {
            let is_ordered = ["S", "N", "B"].contains(&type_of(random, name));
            let comparisons = if is_ordered { &COMPARISONS[..] } else { &COMPARISONS[..2] };
            let comparison = random.pick(comparisons);
            format!("{path}{gap}{comparison}{gap}{}", texts.value_of(name))
        }
    }
}

/// What a condition may say of the key.
fn key_atom(texts: &mut Texts<'_>) -> String {
    let random = texts.random;
    let name = texts.name(random.pick(&["pk", "sk"]));
    match random.below(4) {
        0 => format!("attribute_exists({name})"),
        1 => format!("attribute_not_exists({name})"),
        2 => format!("{name} = {}", texts.value(json!({ "S": partition(random) }))),
        _ => format!("begins_with({name}, {})", texts.value(json!({ "S": "odd" }))),
    }
}

/// An update of different attributes.
pub(super) fn update(texts: &mut Texts<'_>) -> String {
    let random = texts.random;
    let mut names = random.sample(&NAMES, random.between(1, 5)).into_iter();
    let mut sections = random.sample(&["SET", "REMOVE", "ADD", "DELETE"], 4).into_iter();
    let mut written = Vec::new();
    while let (Some(name), Some(section)) = (names.next(), sections.next()) {
        let mut clauses = Vec::from_iter(clause(texts, section, name));
        while !clauses.is_empty() && random.percent(50) {
            clauses.extend(names.next().and_then(|name| clause(texts, section, name)));
            if names.len() == 0 {
                break;
            }
        }
        if !clauses.is_empty() {
            let separator = format!("{},{}", texts.gap(), texts.gap());
            written.push(format!("{} {}", texts.word(section), clauses.join(&separator)));
        }
    }
    if written.is_empty() {
        written.push(format!("SET {} = {}", texts.name("x"), texts.value_of("x")));
    }
    written.join(texts.space())
}

/// What a section does to the attribute, if its type allows that.
fn clause(texts: &mut Texts<'_>, section: &str, name: &str) -> Option<String> {
    let random = texts.random;
    let is_set = ["ss", "ns", "bs"].contains(&name);
    let fits = match section {
        "ADD" => is_set || name == "n",
        "DELETE" => is_set,
        _ => true,
    };
    if !fits {
        return None;
    }
    let path = if random.percent(10) { texts.path(name) } else { texts.name(name) };
    Some(match section {
        "SET" => format!("{path}{}={}{}", texts.gap(), texts.gap(), operand(texts, name)),
        "REMOVE" if name == "l" => format!("{path}[{}]", random.below(3)),
        "REMOVE" => path,
        _ => format!("{path} {}", texts.value_of(name)),
    })
}

/// What an attribute is set to.
fn operand(texts: &mut Texts<'_>, name: &str) -> String {
    let random = texts.random;
    match (name, random.below(6)) {
        ("n", 0) => format!("{} + {}", texts.name("n"), texts.value_of("n")),
        ("n", 1) => format!("{} - {}", texts.value_of("n"), texts.value_of("n")),
        ("n", 2..=4) => {
            let known = if_not_exists(texts, "n");
            format!(
                "{known}{}{}{}",
                random.pick(&["+", "-", " + "]),
                texts.gap(),
                texts.value_of("n")
            )
        }
        ("l", 0) => format!("list_append({}, {})", texts.name("l"), texts.value_of("l")),
        ("l", 1 | 2) => {
            let known = if_not_exists(texts, "l");
            format!("list_append({}{}, {known})", texts.gap(), texts.value_of("l"))
        }
        (_, 5) => if_not_exists(texts, name),
        (_, 4) if random.percent(30) => texts.path(name),
        _ => texts.value_of(name),
    }
}

fn if_not_exists(texts: &mut Texts<'_>, name: &str) -> String {
    let path = if texts.random.percent(10) { texts.any_path() } else { texts.name(name) };
    format!("if_not_exists({path},{}{})", texts.gap(), texts.value_of(name))
}

/// A projection onto paths of which none lies in another.
pub(super) fn projection(texts: &mut Texts<'_>) -> String {
    let random = texts.random;
    let mut paths = Vec::new();
    for name in random.sample(&NAMES, random.between(1, 4)) {
        let path = match name {
            "m" if random.percent(60) => format!("{}.{}", texts.name("m"), texts.name("n")),
            "l" if random.percent(60) => format!("{}[{}]", texts.name("l"), random.below(2)),
            _ => texts.name(name),
        };
        paths.push(path);
    }
    if random.percent(40) {
        paths.push(texts.name(random.pick(&["pk", "sk"])));
    }
    paths.join(&format!("{},{}", texts.gap(), texts.gap()))
}

/// A key condition of a partition, alone or with one of its sort key: a string, or a number in the local index.
pub(super) fn key_condition(texts: &mut Texts<'_>, sort: &str) -> String {
    let random = texts.random;
    let name = texts.name("pk");
    let wanted = texts.value(json!({ "S": partition(random) }));
    let first = format!("{name}{}={}{wanted}", texts.gap(), texts.gap());
    if random.percent(40) {
        return if random.percent(10) { format!("({first})") } else { first };
    }
    let second = sort_condition(texts, sort);
    let first = if random.percent(10) { format!("({first})") } else { first };
    let second = if random.percent(20) { format!("({second})") } else { second };
    let and = format!("{}{}{}", texts.space(), texts.word("AND"), texts.space());
    if random.percent(25) { second + &and + &first } else { first + &and + &second }
}

fn sort_condition(texts: &mut Texts<'_>, sort: &str) -> String {
    let random = texts.random;
    let (name, gap) = (texts.name(sort), texts.gap());
    let bound = |low| match (sort, low) {
        ("n", true) => json!({ "N": random.pick(&["-1", "0", "1"]) }),
        ("n", false) => json!({ "N": random.pick(&["1", "3", "10"]) }),
        (_, true) => json!({ "S": random.pick(&SORTS[..4]) }),
        (_, false) => json!({ "S": random.pick(&SORTS[4..]) }),
    };
    let one: Value = bound(random.percent(70));
    match random.below(7) {
        0 => {
            let (low, high) = (texts.value(bound(true)), texts.value(bound(false)));
            let (between, and) = (texts.word("BETWEEN"), texts.word("AND"));
            format!("{name} {between} {low} {and} {high}")
        }
        1 if sort != "n" => {
            let begin = texts.value(json!({ "S": random.pick(&["a", "b", "c", "b#~"]) }));
            format!("begins_with({name},{gap}{begin})")
        }
        comparison => {
            let comparison = ["=", "<", "<=", ">", ">="][comparison % 5];
            format!("{name}{gap}{comparison}{gap}{}", texts.value(one))
        }
    }
}
