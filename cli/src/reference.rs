//! The reference parts of the pages, written from what they describe: commands from clap, parameters from the template,
//! metrics and codes from their tables in the code, routes from `docs/openapi.yaml`.
//!
//! A page has such a part between `<!-- written from WHAT -->` and `<!-- end -->`. The test compares each part with what it
//! describes, and with `UPDATE_DOCS=1` writes it anew:
//!
//! ```sh
//! UPDATE_DOCS=1 cargo test -p dynashard-cli --bin dynashard reference
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use dynashard_api::problem::Problem;
use dynashard_lambda::metrics::{Counter, Gauge};
use saphyr::{LoadableYamlNode, Yaml};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const BEGIN: &str = "<!-- written from ";
const END: &str = "<!-- end -->\n";

/// The headings of the flags by which commands reach the tables. The pages have these flags once.
const CONNECTION: [&str; 2] = ["Connection", "Stack parameters, with --main-table"];

#[test]
fn the_pages_say_what_the_code_says() {
    let is_to_write = std::env::var_os("UPDATE_DOCS").is_some();
    let mut written = BTreeSet::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let anew = rewritten(&text, &mut written);
        if is_to_write && anew != text {
            fs::write(&page, &anew).expect("the page is written");
        }
        assert!(
            is_to_write || anew == text,
            "{} is behind the code: run UPDATE_DOCS=1 cargo test -p dynashard-cli --bin dynashard reference",
            page.display()
        );
    }
    let commands = leaves(&super::args::command()).into_iter().map(|(path, _)| path);
    let tables =
        ["flags of the connection", "commands", "parameters", "metrics", "codes", "routes"];
    let expected = commands.chain(tables.map(str::to_owned)).collect::<BTreeSet<_>>();
    assert_eq!(written, expected, "the parts of all pages");
}

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join("docs")).expect("the pages");
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|file| file.extension().is_some_and(|end| end == "md")).collect()
}

/// The page with each part written anew. Notes which parts these are.
fn rewritten(text: &str, written: &mut BTreeSet<String>) -> String {
    let mut parts = text.split(BEGIN);
    let mut anew = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (what, rest) = part.split_once(" -->\n").expect("the end of the comment");
        let (_, after) = rest.split_once(END).expect("the end of the part");
        write!(anew, "{BEGIN}{what} -->\n\n{}\n{END}{after}", part_of(what)).expect("a string");
        assert!(written.insert(what.to_owned()), "{what} is there twice");
    }
    anew
}

fn part_of(what: &str) -> String {
    match what {
        "commands" => commands(),
        "flags of the connection" => connection(),
        "parameters" => parameters(),
        "metrics" => metrics(),
        "codes" => codes(),
        "routes" => routes(),
        path => {
            let commands = leaves(&super::args::command());
            let found = commands.iter().find(|(name, _)| name == path);
            help(
                &found
                    .unwrap_or_else(|| panic!("the pages have {path}, and no command is called so"))
                    .1,
            )
        }
    }
}

/// The commands that do something, by their names: `verify`, `keys locate`.
fn leaves(command: &Command) -> Vec<(String, Command)> {
    let each = command.get_subcommands().flat_map(|sub| {
        let name = sub.get_name();
        let below =
            leaves(sub).into_iter().map(move |(path, leaf)| (format!("{name} {path}"), leaf));
        let below = below.collect::<Vec<_>>();
        if below.is_empty() { vec![(name.to_owned(), sub.clone())] } else { below }
    });
    each.collect()
}

fn commands() -> String {
    let all = super::args::command();
    let rows = all.get_subcommands().map(|command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let name = command.get_name();
        vec![format!("[`{name}`](#{name})"), prose(&about)]
    });
    table(&["Command", "Does"], rows.collect())
}

/// What a command does, its flags, and what its help says behind them.
fn help(command: &Command) -> String {
    let mut text = String::new();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    for paragraph in about.unwrap_or_default().split("\n\n") {
        write!(text, "{}\n\n", ended(&prose(&paragraph.replace('\n', " ")))).expect("a string");
    }
    let own = command.get_arguments().filter(|arg| !CONNECTION.contains(&heading(arg)));
    let rows = own.map(flag).collect::<Vec<_>>();
    if !rows.is_empty() {
        text.push_str(&table(&["Flag", "Default", "Says"], rows));
    }
    let takes_tables = command.get_arguments().any(|arg| heading(arg) == CONNECTION[0]);
    if takes_tables {
        text.push_str("\nIt also takes the flags of [the connection](COMMANDS.md#connecting-to-the-tables).\n");
    }
    if let Some(after) = command.get_after_help() {
        write!(text, "\n```text\n{}\n```\n", after.to_string().trim_end()).expect("a string");
    }
    text
}

fn connection() -> String {
    let command = super::args::command();
    let verify = command.find_subcommand("verify").expect("a command that takes them all");
    let of_connection = verify.get_arguments().filter(|arg| CONNECTION.contains(&heading(arg)));
    table(&["Flag", "Default", "Says"], of_connection.map(flag).collect())
}

fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or_default()
}

/// The cells of a flag: its name with its value, its default, and what it says.
fn flag(arg: &Arg) -> Vec<String> {
    let values = arg.get_value_names().unwrap_or_default();
    let values = values.iter().map(clap::builder::Str::as_str).collect::<Vec<_>>().join(" ");
    let takes = arg.get_action().takes_values();
    let name = match arg.get_long() {
        Some(long) if takes => format!("--{long} {values}"),
        Some(long) => format!("--{long}"),
        None => values,
    };
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults = defaults.collect::<Vec<_>>().join(",");
    let text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    // A default that only the text can say stands at its end.
    let (text, told) = match text.split_once(" [default: ") {
        Some((text, told)) => (text.to_owned(), told.trim_end_matches(']').to_owned()),
        None => (text, String::new()),
    };
    let default = match () {
        () if arg.is_required_set() => "required".to_owned(),
        () if takes && !defaults.is_empty() => format!("`{defaults}`"),
        () if !told.is_empty() => format!("`{told}`"),
        () => String::new(),
    };
    let possible = arg.get_possible_values();
    let possible = possible.iter().filter(|_| takes).map(|value| format!("`{}`", value.get_name()));
    let possible = possible.collect::<Vec<_>>().join(", ");
    let mut says = ended(&prose(&text.replace('\n', " ")));
    if !possible.is_empty() {
        write!(says, " One of {possible}.").expect("a string");
    }
    vec![format!("`{}`", name.replace('|', "\\|")), default, says]
}

/// The parameters of the template, in the groups in which the console asks for them.
fn parameters() -> String {
    let template = parse("template.yaml");
    let all = &template["Parameters"];
    let groups = &template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"];
    let mut text = String::new();
    let mut told = 0;
    for group in groups.as_sequence().expect("groups") {
        let names = group["Parameters"].as_sequence().expect("names");
        let rows = names.iter().map(|name| parameter(string(name), &all[string(name)]));
        let rows = rows.collect::<Vec<_>>();
        told += rows.len();
        let label = string(&group["Label"]["default"]);
        let table = table(&["Parameter", "Default", "Takes", "Says"], rows);
        write!(text, "{}## {label}\n\n{table}", if text.is_empty() { "" } else { "\n" })
            .expect("a string");
    }
    assert_eq!(told, all.as_mapping().expect("parameters").len(), "each in one group");
    text.push_str("\n## What CloudFormation refuses\n\n");
    for (_, rule) in template["Rules"].as_mapping().expect("rules") {
        for assertion in rule["Assertions"].as_sequence().expect("assertions") {
            let told = ended(&prose(string(&assertion["AssertDescription"])));
            writeln!(text, "- {told}").expect("a string");
        }
    }
    text
}

fn parameter(name: &str, parameter: &Yaml<'_>) -> Vec<String> {
    let field = |field: &str| parameter.as_mapping_get(field);
    let values = field("AllowedValues").and_then(Yaml::as_sequence);
    let bounds = (field("MinValue").map(scalar), field("MaxValue").map(scalar));
    let takes = match (values, bounds) {
        (Some(values), _) => {
            values.iter().map(|value| format!("`{}`", scalar(value))).collect::<Vec<_>>().join(", ")
        }
        (None, (Some(least), Some(most))) => format!("{least} to {most}"),
        (None, (Some(least), None)) => format!("{least} or more"),
        (None, _) => {
            field("ConstraintDescription").map(|text| prose(string(text))).unwrap_or_default()
        }
    };
    let default = match scalar(&parameter["Default"]) {
        default if default.is_empty() => "empty".to_owned(),
        default => format!("`{default}`"),
    };
    vec![format!("`{name}`"), default, takes, prose(string(&parameter["Description"]))]
}

fn metrics() -> String {
    let row = |name: &str, unit: &str, by: &str, meaning: &str, remedy: &str| {
        let by = match by {
            "all" => by.to_owned(),
            some => some
                .replace('`', "")
                .split(", ")
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let cells = [&format!("`{name}`"), unit, &by, meaning.trim(), &ended(remedy)];
        cells.map(str::to_owned).to_vec()
    };
    let counted = Counter::ALL.iter().map(|counter| {
        row(counter.as_str(), "Count", counter.by(), counter.meaning(), counter.remedy())
    });
    let measured = Gauge::ALL.iter().map(|gauge| {
        row(gauge.as_str(), gauge.unit(), gauge.by(), gauge.meaning(), gauge.remedy())
    });
    let rows = counted.chain(measured).collect();
    table(&["Metric", "Unit", "Function", "When", "What to do"], rows)
}

fn codes() -> String {
    let mut all = Problem::all().collect::<Vec<_>>();
    all.sort_by_key(|code| (code.status, code.code));
    let rows = all.iter().map(|code| {
        let (status, name) = (code.status.to_string(), format!("`{}`", code.code));
        vec![status, name, sentence(code.meaning), sentence(code.remedy)]
    });
    table(&["Status", "Code", "Means", "What to do"], rows.collect())
}

const METHODS: [&str; 6] = ["get", "head", "put", "patch", "post", "delete"];

fn routes() -> String {
    let document = parse("docs/openapi.yaml");
    let paths = document["paths"].as_mapping().expect("paths");
    let rows = paths.iter().flat_map(|(path, of_path)| {
        let operations =
            METHODS.iter().filter_map(|method| Some((method, of_path.as_mapping_get(method)?)));
        let rows = operations.map(|(method, operation)| {
            let route = format!("`{} {}`", method.to_uppercase(), string(path));
            let text = |name: &str| operation.as_mapping_get(name).map(string).unwrap_or_default();
            let does = format!("{} {}", text("summary"), text("description"));
            vec![
                route,
                does.trim().to_owned(),
                takes(of_path, operation, &document),
                answers(operation, &document),
            ]
        });
        rows.collect::<Vec<_>>()
    });
    table(&["Route", "Does", "Takes", "Answers"], rows.collect())
}

/// The parameters, the headers and the members of the body that an operation takes.
fn takes(of_path: &Yaml<'_>, operation: &Yaml<'_>, document: &Yaml<'_>) -> String {
    let lists =
        [of_path, operation].into_iter().filter_map(|node| node.as_mapping_get("parameters"));
    let parameters = lists.flat_map(|list| list.as_sequence().expect("a list"));
    let parameters = parameters.map(|parameter| resolved(parameter, document)).collect::<Vec<_>>();
    let of = |place: &str| {
        let there = parameters.iter().filter(|parameter| string(&parameter["in"]) == place);
        there.map(|parameter| format!("`{}`", string(&parameter["name"]))).collect::<Vec<_>>()
    };
    let mut told = vec![];
    for (names, what) in
        [(of("query"), ""), (of("header"), "headers "), (body(operation, document), "in the body ")]
    {
        if !names.is_empty() {
            told.push(format!("{what}{}", names.join(", ")));
        }
    }
    told.join("; ")
}

/// The members of a JSON body, or the name of its schema.
fn body(operation: &Yaml<'_>, document: &Yaml<'_>) -> Vec<String> {
    let Some(body) = operation.as_mapping_get("requestBody") else { return Vec::new() };
    let content = body["content"].as_mapping().expect("media types");
    let json = content.iter().find(|(media, _)| string(media).contains("json")).expect("JSON");
    let schema = resolved(&json.1["schema"], document);
    if let Some(members) = schema.as_mapping_get("properties").and_then(Yaml::as_mapping) {
        return members.iter().map(|(name, _)| format!("`{}`", string(name))).collect();
    }
    let name = json.1["schema"].as_mapping_get("$ref").map_or("JSON", string);
    vec![format!("`{}`", name.rsplit('/').next().unwrap_or(name))]
}

/// Each status of success, with its sentence.
fn answers(operation: &Yaml<'_>, document: &Yaml<'_>) -> String {
    let responses = operation["responses"].as_mapping().expect("responses");
    let good = responses
        .iter()
        .filter(|(status, _)| matches!(string(status).as_bytes(), [b'2' | b'3', ..]));
    let told = good.map(|(status, response)| {
        format!("{}: {}", string(status), string(&resolved(response, document)["description"]))
    });
    told.collect::<Vec<_>>().join(" ")
}

/// What a reference leads to, or the node itself.
fn resolved<'a>(node: &'a Yaml<'a>, document: &'a Yaml<'a>) -> &'a Yaml<'a> {
    let Some(reference) = node.as_mapping_get("$ref").map(string) else { return node };
    let path = reference.strip_prefix("#/").expect("a reference into the document");
    path.split('/').fold(document, |node, name| &node[name])
}

fn parse(path: &str) -> Yaml<'static> {
    let text: &'static str = fs::read_to_string(Path::new(ROOT).join(path)).expect("a file").leak();
    let mut documents = Yaml::load_from_str(text).unwrap_or_else(|e| panic!("{path}: {e}"));
    documents.pop().expect("a document")
}

fn string<'a>(node: &'a Yaml<'_>) -> &'a str {
    node.as_str().unwrap_or_else(|| panic!("{node:?} is not a text"))
}

fn scalar(node: &Yaml<'_>) -> String {
    node.as_integer().map_or_else(|| string(node).to_owned(), |number| number.to_string())
}

/// A text as a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.trim().chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    ended(&first.chain(chars).collect::<String>())
}

/// A text with a full stop.
fn ended(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ':', '?']) || text.is_empty() {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// A plain text as Markdown, with links to the pages that it names.
fn prose(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            write!(out, "`{}`", part.replace('|', "\\|")).expect("a string");
            continue;
        }
        for (at, piece) in part.split("docs/").enumerate() {
            let page = piece.split_once(".md").filter(|(name, _)| at > 0 && !name.contains(' '));
            match page {
                Some((name, rest)) => {
                    write!(out, "[{name}.md]({name}.md){}", escaped(rest)).expect("a string");
                }
                None => out.push_str(&escaped(piece)),
            }
        }
    }
    out
}

/// A text in which nothing is taken for Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        if matches!(char, '|' | '*' | '_' | '<' | '[') {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head = head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    let rule = vec!["---".to_owned(); head.len()];
    let mut text = String::new();
    for row in [head, rule].into_iter().chain(rows) {
        writeln!(text, "| {} |", row.join(" | ")).expect("a string");
    }
    text
}
