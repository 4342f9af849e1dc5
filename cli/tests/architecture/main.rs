//! The rules between the rooms, as ARCHITECTURE.md draws them, that docs/INVARIANTS.md and the code cite what the other has,
//! and that no retired word comes back.

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each room may know of the others. Tests may know more.
const MAY_USE: &[(&str, &[&str])] = &[
    ("dynashard-keys-derive", &[]),
    ("dynashard-keys", &["dynashard-keys-derive"]),
    (
        "dynashard-client",
        &[
            "dynashard-api",
            "dynashard-aws",
            "dynashard-aws-operator",
            "dynashard-core",
            "dynashard-keys",
        ],
    ),
    ("dynashard-core", &["dynashard-keys"]),
    ("dynashard-api", &["dynashard-core", "dynashard-keys"]),
    ("dynashard-aws", &["dynashard-core", "dynashard-keys"]),
    ("dynashard-aws-operator", &["dynashard-aws", "dynashard-core", "dynashard-keys"]),
    ("dynashard-testkit", &["dynashard-core", "dynashard-keys"]),
    ("dynashard-limits", &["dynashard-keys"]),
    (
        "dynashard-simulation",
        &["dynashard-core", "dynashard-keys", "dynashard-streams", "dynashard-testkit"],
    ),
    (
        "dynashard-differential",
        &[
            "dynashard-aws-operator",
            "dynashard-core",
            "dynashard-endpoint",
            "dynashard-keys",
            "dynashard-testkit",
        ],
    ),
    ("dynashard-model", &[]),
    ("dynashard-lambda", &["dynashard-api", "dynashard-aws", "dynashard-core", "dynashard-keys"]),
    (
        "dynashard-eventkit",
        &[
            "dynashard-api",
            "dynashard-core",
            "dynashard-keys",
            "dynashard-lambda",
            "dynashard-testkit",
        ],
    ),
    ("dynashard-write", &["dynashard-api", "dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-read", &["dynashard-api", "dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-rebalance", &["dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-scale", &["dynashard-api", "dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-console", &["dynashard-api", "dynashard-core", "dynashard-keys"]),
    ("dynashard-planning", &["dynashard-core", "dynashard-keys", "dynashard-limits"]),
    ("dynashard-local", &["dynashard-limits", "dynashard-wire"]),
    ("dynashard-wire", &[]),
    ("dynashard-expression", &["dynashard-keys"]),
    ("dynashard-streams", &["dynashard-keys"]),
    (
        "dynashard-endpoint",
        &[
            "dynashard-aws",
            "dynashard-aws-operator",
            "dynashard-core",
            "dynashard-expression",
            "dynashard-keys",
            "dynashard-wire",
        ],
    ),
    (
        "dynashard-cli",
        &[
            "dynashard-api",
            "dynashard-aws",
            "dynashard-aws-operator",
            "dynashard-console",
            "dynashard-core",
            "dynashard-endpoint",
            "dynashard-keys",
            "dynashard-local",
            "dynashard-planning",
            "dynashard-serve",
        ],
    ),
    ("dynashard-serve", &["dynashard-aws-operator", "dynashard-core", "dynashard-endpoint"]),
    ("dynashard-extension", &["dynashard-lambda", "dynashard-serve"]),
];

/// What the pure rooms must not name, in dependencies or in code.
const IMPURE_CRATES: &[&str] =
    &["aws-", "aws_", "lambda", "tokio", "hyper", "http", "rand", "getrandom", "fastrand"];
const IMPURE_CODE: &[&str] = &["std::env", "std::net", "std::fs", "SystemTime", "Instant::now"];
const PURE: &[&str] = &[
    "dynashard-api",
    "dynashard-keys",
    "dynashard-core",
    "dynashard-expression",
    "dynashard-limits",
    "dynashard-planning",
    "dynashard-streams",
];
/// What one of them may use all the same: of `http` the API takes the titles of statuses.
const EXCEPTION: (&str, &str) = ("dynashard-api", "http");

/// What each room of the local stack may use of the others, from the bottom to the top.
const LOCAL_LAYERS: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("error", &[]),
    ("ids", &[]),
    ("server", &["error"]),
    ("queues", &["clock", "ids"]),
    ("plan", &[]),
    ("access", &["plan"]),
    ("template", &["error", "plan"]),
    ("dynamodb", &["access", "clock", "error", "ids", "plan", "server"]),
    ("cloudwatch", &["access", "clock", "dynamodb", "ids", "plan", "server"]),
    ("lambda", &["access", "clock", "cloudwatch", "error", "ids", "plan", "queues", "server"]),
    (
        "events",
        &["access", "clock", "cloudwatch", "dynamodb", "ids", "lambda", "plan", "queues", "server"],
    ),
];

/// What each floor of the core may use of the others, from the bottom to the top.
const CORE_LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("decide", &["model"]),
    ("ports", &["model"]),
    ("usecases", &["decide", "model", "ports"]),
];

/// The rooms that put the stack together, and may use all of it.
const TOP: &[&str] = &["lib", "stack"];

/// Names that the code no longer has, and those that stand for the same thing now: docs/WORDS.md has one word for one thing.
const RETIRED: &[(&str, &str)] = &[
    ("MetadataStore", "RecordStore"),
    ("CollectionsPage", "ListPage"),
    ("settle_time", "leases_end"),
    ("settled_shard", "shard_to_write"),
    ("settles_it", "answers"),
    ("lane_page", "shard_page"),
    ("Sight", "Observation"),
    ("Sighting", "MetadataAge"),
    ("Abandon", "NoPage"),
];

/// The most methods of one type, and the most files that they lie in: more cannot be found again.
const MOST_METHODS: usize = 20;
const MOST_FILES: usize = 3;

#[test]
fn dependencies_run_one_way() {
    let allowed = MAY_USE.iter().copied().collect::<BTreeMap<_, _>>();
    for package in packages() {
        let may_use = allowed
            .get(package.name.as_str())
            .unwrap_or_else(|| panic!("{} is missing from this table", package.name));
        for dependency in package.dependencies.iter().filter(|name| name.starts_with("dynashard-"))
        {
            assert!(may_use.contains(&dependency.as_str()), "{} uses {dependency}", package.name);
        }
    }
}

#[test]
fn the_pure_rooms_name_neither_aws_nor_time_nor_chance() {
    for package in packages().iter().filter(|package| PURE.contains(&package.name.as_str())) {
        for dependency in &package.dependencies {
            let impure = IMPURE_CRATES.iter().any(|name| dependency.starts_with(name))
                && (package.name.as_str(), dependency.as_str()) != EXCEPTION;
            assert!(!impure, "{} uses {dependency}", package.name);
        }
        for file in sources(&package.root.join("src")) {
            let text = std::fs::read_to_string(&file).expect("source");
            for name in IMPURE_CODE {
                assert!(!text.contains(name), "{} names {name}", file.display());
            }
        }
    }
}

#[test]
fn no_type_is_too_wide_to_be_read() {
    for package in packages().iter().filter(|package| !is_verification(&package.root)) {
        let mut methods = BTreeMap::<String, Vec<PathBuf>>::new();
        let mut files = sources(&package.root.join("src"));
        files.retain(|file| file.extension().is_some_and(|end| end == "rs") && !is_of_tests(file));
        for file in files {
            let text = std::fs::read_to_string(&file).expect("source");
            for of in methods_in(&text) {
                methods.entry(of.to_owned()).or_default().push(file.clone());
            }
        }
        for (of, files) in methods {
            let (methods, files) = (files.len(), files.iter().collect::<BTreeSet<_>>().len());
            let is_too_wide = methods > MOST_METHODS || files > MOST_FILES;
            let package = &package.name;
            assert!(!is_too_wide, "{of} of {package} has {methods} methods in {files} files");
        }
    }
}

/// What checks the rest and ships in nothing: a model is one state and its steps.
fn is_verification(package: &Path) -> bool {
    package.components().any(|name| name.as_os_str() == "verification")
}

fn is_of_tests(file: &Path) -> bool {
    file.components().any(|name| name.as_os_str() == "tests") || file.ends_with("tests.rs")
}

/// The type of each method of an inherent impl.
fn methods_in(text: &str) -> impl Iterator<Item = &str> {
    let mut of = None;
    text.lines().filter_map(move |line| {
        if let Some(rest) = line.strip_prefix("impl").filter(|_| !line.contains(" for ")) {
            let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest };
            of = rest.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next();
        } else if line == "}" {
            of = None;
        }
        let is_method = line.starts_with("    ") && !line.starts_with("     ") && {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.take_while(|word| *word != "where").any(|word| word == "fn")
        };
        of.filter(|_| is_method)
    })
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for package in packages() {
        if let Some(circle) = imports::circle(&imports::imports(&package.root.join("src"))) {
            let circle = circle.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
            panic!("a circle in {}: {}", package.name, circle.join(" -> "));
        }
    }
}

/// Where the code of a package lies.
fn source_of(package: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package).join("src")
}

/// The module at this depth that a file belongs to: at depth 1 `a` of `a/b/c.rs`, at depth 2 `a/b`.
fn room(file: &Path, depth: usize) -> String {
    let names = file.components().take(depth).collect::<PathBuf>();
    names.with_extension("").display().to_string()
}

#[test]
fn layers_use_those_below() {
    uses_those_below("local", LOCAL_LAYERS);
    uses_those_below("shared/core", CORE_LAYERS);
}

fn uses_those_below(package: &str, layers: &[(&str, &[&str])]) {
    let src = source_of(package);
    let layers = layers.iter().copied().collect::<BTreeMap<_, _>>();
    for (file, used) in imports::imports(&src) {
        let of = room(&file, 1);
        if TOP.contains(&of.as_str()) {
            continue;
        }
        let may_use = layers.get(of.as_str());
        let may_use = may_use.unwrap_or_else(|| panic!("{of} is not a room of this table"));
        for target in used {
            let to = room(&target, 1);
            let (file, target) = (file.display(), target.display());
            let is_below = to == of || may_use.contains(&to.as_str());
            assert!(is_below, "{file} imports from {target}: {of} may not use {to}");
        }
    }
}

/// Each module of a floor can be read, and tested, with what it uses: none uses it in turn, by whatever way.
#[test]
fn no_modules_of_the_core_use_each_other_in_a_circle() {
    let mut modules = BTreeMap::<PathBuf, BTreeSet<PathBuf>>::new();
    for (file, used) in imports::imports(&source_of("shared/core")) {
        let of = PathBuf::from(room(&file, 2));
        let used = used.iter().map(|target| PathBuf::from(room(target, 2)));
        let used = used.filter(|to| *to != of).collect::<Vec<_>>();
        modules.entry(of).or_default().extend(used);
    }
    assert_eq!(imports::circle(&modules), None);
}

/// A name that comes from the root hides which module it comes from.
#[test]
fn the_core_imports_by_module() {
    let floors = CORE_LAYERS.iter().map(|(floor, _)| format!("{floor}::")).collect::<Vec<_>>();
    for file in sources(&source_of("shared/core")) {
        let text = std::fs::read_to_string(&file).expect("source");
        for from_root in text.split("use crate::").skip(1) {
            let is_of_a_floor = floors.iter().any(|floor| from_root.starts_with(floor.as_str()));
            let name = from_root.lines().next().unwrap_or_default();
            assert!(is_of_a_floor, "{} imports {name} from the root", file.display());
        }
    }
}

#[test]
fn each_file_says_what_it_is_for() {
    for package in packages() {
        let mut files = sources(&package.root.join("src"));
        files.retain(|file| file.extension().is_some_and(|end| end == "rs") && !is_of_tests(file));
        for file in files {
            let text = std::fs::read_to_string(&file).expect("source");
            assert!(text.starts_with("//!"), "{} does not say what it is for", file.display());
        }
    }
}

/// A comment is shown alone, beside what it is about.
#[test]
fn every_comment_makes_sense_alone() {
    for (file, text) in rust_files() {
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            let is_comment = line.trim_start().starts_with("//");
            let leans = ["The same", "As above"].iter().any(|words| comment.starts_with(words));
            let (file, number) = (file.display(), number + 1);
            assert!(!is_comment || !leans, "{file}:{number} says nothing alone: {line}");
        }
    }
}

#[test]
fn every_invariant_is_cited_and_every_citation_is_of_one() {
    let numbered = numbered_in(&invariants());
    assert!(numbered.len() >= 30, "only these are numbered: {numbered:?}");
    let mut cited = BTreeSet::new();
    for (file, text) in rust_files() {
        for number in cited_in(&text) {
            let is_one = numbered.contains(&number);
            assert!(is_one, "{} cites I{number}, which docs/INVARIANTS.md lacks", file.display());
            cited.insert(number);
        }
    }
    let uncited = numbered.difference(&cited).collect::<Vec<_>>();
    assert!(uncited.is_empty(), "no comment cites {uncited:?} of docs/INVARIANTS.md");
}

#[test]
fn the_functions_that_the_invariants_name_exist() {
    let (page, files) = (invariants(), rust_files());
    let named = page.split('`').skip(1).step_by(2).filter(|name| is_function(name));
    let named = named.collect::<BTreeSet<_>>();
    assert!(named.len() >= 20, "only these are named: {named:?}");
    let defined = files.iter().flat_map(|(_, text)| functions_in(text)).collect::<BTreeSet<_>>();
    let missing = named.difference(&defined).collect::<Vec<_>>();
    assert!(missing.is_empty(), "docs/INVARIANTS.md names what no file defines: {missing:?}");
}

#[test]
fn no_retired_word_comes_back() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/architecture/main.rs");
    for (file, text) in rust_files().into_iter().filter(|(file, _)| *file != table) {
        if let Some((word, now)) = retired_in(&text, RETIRED) {
            panic!("{} says {word}, which is {now} now", file.display());
        }
    }
}

#[test]
fn a_retired_word_is_found_as_a_whole_name_only() {
    let retired = [("Sight", "Observation"), ("aside", "on_the_side")];
    assert_eq!(retired_in("let aside = Aside::new();", &retired), Some(retired[1]));
    assert_eq!(retired_in("Sighting, put_aside: &Insight", &retired), None);
}

/// The first of these words that is a name in the text.
fn retired_in<'a>(text: &str, retired: &[(&'a str, &'a str)]) -> Option<(&'a str, &'a str)> {
    let mut names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    names.find_map(|name| retired.iter().find(|(word, _)| *word == name).copied())
}

fn invariants() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/INVARIANTS.md");
    std::fs::read_to_string(page).expect("the invariants")
}

/// The invariants of the page, each of which has a row that begins with its number.
fn numbered_in(page: &str) -> BTreeSet<u32> {
    let mut numbered = BTreeSet::new();
    for row in page.lines() {
        let first = row.strip_prefix("| ").and_then(|row| row.split_once(" |"));
        if let Some(number) = first.and_then(|(first, _)| number_of(first)) {
            assert!(numbered.insert(number), "there are two invariants I{number}");
        }
    }
    numbered
}

/// The invariants that the comments of a file cite.
fn cited_in(text: &str) -> impl Iterator<Item = u32> {
    let is_between = |c: char| !c.is_alphanumeric() && c != '_';
    let comments = text.lines().filter_map(|line| line.split_once("//"));
    comments.flat_map(move |(_, comment)| comment.split(is_between)).filter_map(number_of)
}

/// The number of an invariant, which follows the letter.
fn number_of(word: &str) -> Option<u32> {
    word.strip_prefix('I')?.parse().ok()
}

/// Whether a name in backticks is that of a function, and not of an attribute or a field.
fn is_function(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_of_a_name)
        && name.matches('_').count() >= 2
}

fn functions_in(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.split("fn ").skip(1);
    behind.map(|text| text.split(|c: char| !is_of_a_name(c)).next().unwrap_or_default())
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// The Rust files of all packages, and what is in them.
fn rust_files() -> Vec<(PathBuf, String)> {
    let files = packages().into_iter().flat_map(|package| sources(&package.root));
    let files = files.filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).expect("source");
        (file, text)
    };
    files.map(read).collect()
}

struct Package {
    name: String,
    root: PathBuf,
    /// Without those of tests.
    dependencies: BTreeSet<String>,
}

fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .output()
        .expect("cargo runs");
    let metadata = serde_json::from_slice::<Value>(&output.stdout).expect("metadata");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let packages =
        metadata["packages"].as_array().expect("packages").iter().map(|package| Package {
            name: text(&package["name"]),
            root: Path::new(&text(&package["manifest_path"]))
                .parent()
                .expect("a directory")
                .to_owned(),
            dependencies: package["dependencies"]
                .as_array()
                .expect("dependencies")
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| text(&dependency["name"]))
                .collect(),
        });
    packages.collect()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}
