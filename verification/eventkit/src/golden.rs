use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::World;

/// Makes the tables that a case needs.
pub type Given = fn() -> World;

/// The directory of the events.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events")
}

/// The text of an event file.
pub fn event(name: &str) -> String {
    let path = directory().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of the JSON files in a directory that are about a function.
fn files_of(directory: &Path, function: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let names = names.map(|name| name.expect("UTF-8"));
    let json = names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "json"));
    let of_function = |name: &String| {
        let (prefix, _) = name.split_once('-').unwrap_or_else(|| panic!("{name} has no function"));
        let known = ["write", "read", "scale", "rebalance"].contains(&prefix);
        assert!(known, "{name} is about no function, so nothing tests it");
        prefix == function
    };
    json.filter(of_function).collect()
}

/// The names of a function's event files.
pub fn event_files(function: &str) -> BTreeSet<String> {
    files_of(&directory(), function)
}

/// Compares the answer to every event of a function with the file of the same name under
/// `expected`. An event, an expectation or a line of the README without the other two fails. What
/// is answered to an event that is no request has no status, and stands in the file as it is.
#[track_caller]
pub fn assert_golden(
    function: &str,
    cases: &[(&str, Given)],
    answer: impl Fn(&World, &str) -> Value,
) {
    let tested = cases.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tested.len(), cases.len(), "an event is listed twice");
    assert_eq!(event_files(function), tested, "events, and events that are tested");
    let readme = fs::read_to_string(directory().join("README.md")).expect("a README");
    let expected = directory().join("expected");
    let mut wrong = String::new();
    for (name, given) in cases {
        let text = event(name);
        assert_natural(name, &text);
        let world = given();
        let answer = answer(&world, &text);
        let path = expected.join(name);
        let wanted = fs::read_to_string(&path).unwrap_or_default();
        if serde_json::from_str::<Value>(&wanted).ok().as_ref() != Some(&answer) {
            let answer = serde_json::to_string_pretty(&answer).expect("JSON");
            let _ = writeln!(wrong, "{} is not the answer:\n{answer}", path.display());
        }
        let function = format!("{}Function", capitalised(function));
        let in_readme = readme.lines().any(|line| {
            let cells = line.split('|').map(str::trim).collect::<Vec<_>>();
            let status = answer.get("statusCode").map_or("-".to_owned(), ToString::to_string);
            cells.get(1) == Some(&format!("[`{name}`]({name})").as_str())
                && cells.get(2) == Some(&format!("`{function}`").as_str())
                && cells.get(4) == Some(&status.as_str())
        });
        if !in_readme {
            let _ = writeln!(wrong, "README.md has no line for {name} with {function} and status");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(files_of(&expected, function), tested, "expected answers, and events");
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// Asserts that the parts of an API Gateway event agree with one another: a hand-made event that
/// contradicts itself shows something that never happens.
fn assert_natural(name: &str, event: &str) {
    let event = serde_json::from_str::<Value>(event).expect("JSON");
    if event["version"] != "2.0" {
        return;
    }
    let context = &event["requestContext"];
    let text = |value: &Value| value.as_str().map(str::to_owned).expect("a string");
    let route = format!("{} {}", text(&context["http"]["method"]), text(&event["rawPath"]));
    assert_eq!(event["routeKey"], route, "{name}");
    assert_eq!(context["routeKey"], route, "{name}");
    assert_eq!(context["http"]["path"], event["rawPath"], "{name}");
    assert_eq!(context["domainName"], event["headers"]["host"], "{name}");
    assert_eq!(context["http"]["userAgent"], event["headers"]["user-agent"], "{name}");
    let headers = event["headers"].as_object().expect("headers");
    assert!(headers.keys().all(|name| *name == name.to_ascii_lowercase()), "{name}");
    let named = text(&event["rawQueryString"]).split('&').filter(|p| !p.is_empty()).count() > 0;
    assert_eq!(event["queryStringParameters"].is_object(), named, "{name}");
    let length = headers.get("content-length").map(text);
    let length = length.map(|length| length.parse::<usize>().expect("a length"));
    let sent = event["body"].as_str().map(|body| {
        if event["isBase64Encoded"] == true {
            body.len() / 4 * 3 - body.bytes().rev().take_while(|byte| *byte == b'=').count()
        } else {
            body.len()
        }
    });
    assert_eq!(length, sent, "{name}: content-length");
}
