//! `docs/openapi.yaml` says what the code and the pages say: its operations are the routes of the template, its
//! codes those of the functions, and the tables of `docs/API.md` stand on it.
//!
//! That the answers of the functions match its schemas is checked by `infra/api-tests`.

use std::collections::{BTreeMap, BTreeSet};
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
    let documented = operations(&document()).into_keys().collect::<BTreeSet<_>>();
    assert_eq!(documented, routes_of_the_template());
}

#[test]
fn its_codes_are_those_of_the_functions_under_the_same_status() {
    let of_functions = Problem::all().map(|(status, code)| (status, code.to_owned()));
    assert_eq!(codes(&document()), of_functions.collect());
}

#[test]
fn the_page_explains_each_of_its_codes_under_the_same_status() {
    let page = page();
    let errors = page.split("\n## Errors\n").nth(1).expect("the section");
    let cells = rows(errors).filter_map(|cells| Some((cells[0].parse::<u16>().ok()?, cells)));
    let explained = cells.flat_map(|(status, cells)| {
        let codes = in_backticks(cells[1]).collect::<Vec<_>>();
        codes.into_iter().map(move |code| (status, code.to_owned()))
    });
    assert_eq!(explained.collect::<BTreeSet<_>>(), codes(&document()));
    assert!(errors.contains(&format!("`{ANSWER_FULL}`")));
}

#[test]
fn an_operation_of_a_batch_fails_with_what_the_caller_cannot_correct() {
    let passing = Code::ALL.iter().filter(|code| {
        use Kind::{Data, Internal, OutcomeUnknown, Throttled, Unavailable};
        matches!(code.kind(), Data | Internal | OutcomeUnknown | Throttled | Unavailable)
    });
    let expected = passing.map(|code| code.as_str()).chain([ANSWER_FULL]);
    let document = document();
    let listed = texts(&schemas(&document)["UnprocessedCode"]["enum"]);
    assert_eq!(listed, expected.map(str::to_owned).collect());
}

#[test]
fn the_page_has_a_row_for_each_operation_with_its_parameters_and_successes() {
    let page = page();
    let routes = page.split("\n## Routes\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = rows(routes.expect("the section")).filter_map(|cells| {
        let route = in_backticks(cells[0]).next()?.split('?').next()?.to_owned();
        Some((route, cells.join(" | ")))
    });
    let rows = rows.collect::<BTreeMap<_, _>>();
    let document = document();
    let operations = operations(&document);
    let documented = operations.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(rows.keys().cloned().collect::<BTreeSet<_>>(), documented);
    for (route, operation) in &operations {
        let row = &rows[route];
        for name in operation.parameters(&document) {
            assert!(row.contains(&name), "docs/API.md: the row {route} does not name {name}");
        }
        // A patch answers as a put does, and the row says so.
        for status in operation.successes() {
            assert!(row.contains(&status), "docs/API.md: the row {route} does not name {status}");
        }
    }
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

fn page() -> String {
    read("docs/API.md")
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

/// An operation of the document, beside what all operations of its path share.
struct Operation<'a> {
    of_path: &'a Yaml<'static>,
    own: &'a Yaml<'static>,
}

impl Operation<'_> {
    /// The names of its parameters.
    fn parameters(&self, document: &Yaml<'static>) -> Vec<String> {
        let lists = [self.of_path, self.own].into_iter();
        let lists = lists.filter_map(|node| node.as_mapping_get("parameters"));
        let parameters = lists.flat_map(|list| list.as_sequence().expect("a list"));
        parameters.map(|parameter| text(&resolved(parameter, document)["name"])).collect()
    }

    /// Its statuses below 300.
    fn successes(&self) -> impl Iterator<Item = String> {
        let statuses = entries(&self.own["responses"]).map(|(status, _)| status);
        statuses.filter(|status| status.starts_with('2'))
    }
}

fn operations<'a>(document: &'a Yaml<'static>) -> BTreeMap<String, Operation<'a>> {
    let paths = entries(&document["paths"]);
    let of_paths = paths.flat_map(|(path, of_path)| {
        entries(of_path).filter(|(name, _)| METHODS.contains(&name.as_str())).map(
            move |(method, own)| {
                (format!("{} {path}", method.to_uppercase()), Operation { of_path, own })
            },
        )
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

/// The cells of each row of a page's tables.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    rows.map(|row| row.split(" | ").map(str::trim).collect())
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
