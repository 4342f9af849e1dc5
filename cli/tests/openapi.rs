//! `docs/openapi.yaml` says what the code says: its operations are the routes of the template, and its codes those of the
//! functions.
//!
//! That the answers of the functions match its schemas is checked by `infra/api-tests`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use dynashard_api::problem::Problem;
use dynashard_core::{Code, Kind};
use saphyr::{LoadableYamlNode, Yaml};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const METHODS: [&str; 6] = ["get", "head", "put", "post", "delete", "patch"];

/// The code that stands in the `unprocessed` of a batch only.
const ANSWER_FULL: &str = "answer_full";

#[test]
fn its_operations_are_the_routes_of_the_template() {
    let documented = operations(&document());
    assert_eq!(documented, routes_of_the_template());
}

#[test]
fn its_codes_are_those_of_the_functions_under_the_same_status() {
    let of_functions = Problem::all().map(|problem| (problem.status, problem.code.to_owned()));
    assert_eq!(codes(&document()), of_functions.collect());
}

#[test]
fn an_operation_of_a_batch_fails_with_what_the_caller_cannot_correct() {
    let passing = Code::ALL.iter().filter(|code| {
        use Kind::{Data, Internal, OutcomeUnknown, Throttled, Unavailable};
        matches!(code.kind(), Data | Internal | OutcomeUnknown | Throttled | Unavailable)
    });
    // An item that DynamoDB refuses at its new home is nothing that the caller of a batch could have seen.
    let passing = passing.chain([&Code::UnmovableItem]);
    let expected = passing.map(|code| code.as_str()).chain([ANSWER_FULL]);
    let document = document();
    let listed = texts(&schemas(&document)["UnprocessedCode"]["enum"]);
    assert_eq!(listed, expected.map(str::to_owned).collect());
}

#[test]
fn its_version_is_that_of_the_workspace() {
    assert_eq!(text(&document()["info"]["version"]), env!("CARGO_PKG_VERSION"));
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect("a file of the repository")
}

fn parse(path: &str) -> Yaml<'static> {
    let text: &'static str = read(path).leak();
    let mut documents = Yaml::load_from_str(text).unwrap_or_else(|e| panic!("{path}: {e}"));
    documents.pop().expect("a document")
}

fn document() -> Yaml<'static> {
    parse("docs/openapi.yaml")
}

fn schemas<'a>(document: &'a Yaml<'static>) -> &'a Yaml<'static> {
    &document["components"]["schemas"]
}

/// The methods and paths of the template's API.
fn routes_of_the_template() -> BTreeSet<String> {
    let template = parse("template.yaml");
    let resources = entries(&template["Resources"]).map(|(_, resource)| resource);
    let routes = resources.filter(|resource| text(&resource["Type"]) == "AWS::ApiGatewayV2::Route");
    routes.map(|route| text(&route["Properties"]["RouteKey"])).collect()
}

/// The methods and paths of the document.
fn operations(document: &Yaml<'static>) -> BTreeSet<String> {
    let paths = entries(&document["paths"]);
    let of_paths = paths.flat_map(|(path, of_path)| {
        let methods = entries(of_path).map(|(name, _)| name);
        methods
            .filter(|name| METHODS.contains(&name.as_str()))
            .map(move |method| format!("{} {path}", method.to_uppercase()))
            .collect::<Vec<_>>()
    });
    of_paths.collect()
}

/// Each status with each code that a problem of it has.
fn codes(document: &Yaml<'static>) -> BTreeSet<(u16, String)> {
    let problems = entries(schemas(document))
        .filter(|(name, _)| name.ends_with("Problem") && name != "Problem");
    let codes = problems.flat_map(|(name, problem)| {
        let own = &problem["allOf"][1]["properties"];
        let status =
            own["status"]["const"].as_integer().and_then(|status| u16::try_from(status).ok());
        let status = status.unwrap_or_else(|| panic!("{name} has no status"));
        let codes = texts(&resolved(&own["code"], document)["enum"]);
        codes.into_iter().map(move |code| (status, code))
    });
    codes.collect()
}

/// What a reference leads to, or the node itself.
fn resolved<'a>(node: &'a Yaml<'static>, document: &'a Yaml<'static>) -> &'a Yaml<'static> {
    let Some(reference) = node.as_mapping_get("$ref").map(text) else { return node };
    let path = reference.strip_prefix("#/").expect("a reference into the document");
    path.split('/').fold(document, |node, name| &node[name])
}

fn entries<'a>(node: &'a Yaml<'static>) -> impl Iterator<Item = (String, &'a Yaml<'static>)> {
    let mapping = node.as_mapping().expect("a mapping");
    mapping.iter().map(|(name, value)| (text(name), value))
}

fn texts(node: &Yaml<'static>) -> BTreeSet<String> {
    node.as_sequence().expect("a list").iter().map(text).collect()
}

fn text(node: &Yaml<'static>) -> String {
    node.as_str().unwrap_or_else(|| panic!("{node:?} is not a text")).to_owned()
}
