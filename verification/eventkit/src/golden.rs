//! Compares the answer to every event file with the file beside it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use insta::{assert_json_snapshot, with_settings};
use serde::Serialize;
use serde_json::Value;

use crate::World;
use crate::logs::{assert_no_key, digests, logged};

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

/// The names of a function's event files.
pub fn event_files(function: &str) -> BTreeSet<String> {
    let names = names_of(&directory(), "json", function);
    names.into_iter().map(|name| format!("{name}.json")).collect()
}

/// The names, without their extension, of the files in a directory that are about a function.
fn names_of(directory: &Path, extension: &str, function: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let names = paths
        .map(|path| path.file_stem().and_then(OsStr::to_str).expect("a name in UTF-8").to_owned());
    let of_function = |name: &String| {
        let (prefix, _) = name.split_once('-').unwrap_or_else(|| panic!("{name} has no function"));
        let known = ["write", "read", "scale", "rebalance"].contains(&prefix);
        assert!(known, "{name} is about no function, so nothing tests it");
        prefix == function
    };
    names.filter(of_function).collect()
}

/// A whole answer, in the order in which people read it.
#[derive(Serialize)]
#[serde(untagged)]
enum Golden<'a> {
    #[serde(rename_all = "camelCase")]
    Http { status_code: &'a Value, headers: &'a Value, body: &'a Value },
    /// The outcome of an event that is not a request.
    Outcome(&'a Value),
}

impl<'a> Golden<'a> {
    fn of(answer: &'a Value) -> Self {
        match answer.get("statusCode") {
            Some(status_code) => {
                Self::Http { status_code, headers: &answer["headers"], body: &answer["body"] }
            }
            None => Self::Outcome(answer),
        }
    }
}

/// Compares the answer to every event of a function with the snapshot of the same name under
/// `expected`. The test fails if an event, its snapshot or its line of the README is missing, and
/// if a snapshot or a line is left of an event that is gone. Worlds are deterministic, so a
/// snapshot holds the answer as it is.
///
/// `cargo insta review`, or `INSTA_UPDATE=always` and a look at the difference, accepts what has
/// changed on purpose.
#[track_caller]
pub fn assert_golden(
    function: &str,
    cases: &[(&str, Given)],
    answer: impl Fn(&World, &str) -> Value,
) {
    let tested = cases.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tested.len(), cases.len(), "an event is listed twice");
    assert_eq!(names_of(&directory(), "json", function), tested, "events, and those tested");
    let mut lines = BTreeSet::new();
    for (name, given) in cases {
        let event = event(&format!("{name}.json"));
        assert_natural(name, &event);
        let (answer, log) = logged(&digests(), || answer(&given(), &event));
        assert_no_key(name, &event, &log);
        with_settings!({
            snapshot_path => "../../../events/expected",
            prepend_module_to_snapshot => false,
            omit_expression => true,
            sort_maps => true,
        }, { assert_json_snapshot!(*name, Golden::of(&answer)) });
        let status = answer.get("statusCode").map_or("-".to_owned(), ToString::to_string);
        lines.insert(((*name).to_owned(), status));
    }
    assert_eq!(names_of(&directory().join("expected"), "snap", function), tested, "snapshots");
    assert_eq!(lines_of_readme(function), lines, "events/README.md, and the events' statuses");
}

/// Each event of a function that the README lists, with its status.
fn lines_of_readme(function: &str) -> BTreeSet<(String, String)> {
    let readme = fs::read_to_string(directory().join("README.md")).expect("a README");
    let function = format!("`{}Function`", capitalised(function));
    let cells = readme.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let of_function = cells.filter(|cells| cells.get(2) == Some(&function.as_str()));
    let named = of_function.map(|cells| {
        let file = cells[1].split('`').nth(1).unwrap_or_default();
        assert_eq!(cells[1], format!("[`{file}`]({file})"), "a line of events/README.md");
        let name = file.strip_suffix(".json").expect("a JSON file");
        (name.to_owned(), cells[4].to_owned())
    });
    named.collect()
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
