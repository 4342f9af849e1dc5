//! The rules between the rooms, as ARCHITECTURE.md draws them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each room may know of the others. Tests may know more.
const MAY_USE: &[(&str, &[&str])] = &[
    ("dynashard-keys", &[]),
    ("dynashard-core", &["dynashard-keys"]),
    ("dynashard-aws", &["dynashard-core", "dynashard-keys"]),
    ("dynashard-testing", &["dynashard-core", "dynashard-keys"]),
    ("dynashard-sim", &["dynashard-core", "dynashard-keys"]),
    ("dynashard-simulation", &["dynashard-core", "dynashard-keys", "dynashard-testing"]),
    ("dynashard-model", &[]),
    ("dynashard-lambda", &["dynashard-aws", "dynashard-core", "dynashard-keys"]),
    ("dynashard-write", &["dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-read", &["dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-rebalance", &["dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-scale", &["dynashard-core", "dynashard-keys", "dynashard-lambda"]),
    ("dynashard-local", &["dynashard-core", "dynashard-keys", "dynashard-sim"]),
    (
        "dynashard-cli",
        // Of `lambda` what the operators' commands share with the API: items, collections and the
        // parameters of a query as clients see them, and the settings of a stack.
        &[
            "dynashard-aws",
            "dynashard-core",
            "dynashard-keys",
            "dynashard-lambda",
            "dynashard-local",
            "dynashard-sim",
        ],
    ),
];

/// What the pure rooms must not name, in dependencies or in code.
const IMPURE_CRATES: &[&str] = &["aws-", "tokio", "hyper", "http", "rand", "getrandom", "fastrand"];
const IMPURE_CODE: &[&str] = &["std::env", "std::net", "std::fs", "SystemTime", "Instant::now"];
const PURE: &[&str] = &["dynashard-keys", "dynashard-core", "dynashard-sim"];

#[test]
fn dependencies_run_one_way() {
    let allowed = MAY_USE.iter().copied().collect::<BTreeMap<_, _>>();
    for package in packages() {
        let may_use = allowed
            .get(package.name.as_str())
            .unwrap_or_else(|| panic!("{} is no room of this table", package.name));
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
            let impure = IMPURE_CRATES.iter().any(|name| dependency.starts_with(name));
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
