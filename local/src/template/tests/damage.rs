//! Templates that are damaged at random, and texts that were never a template.

use std::fs;

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_oneof, proptest};
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;

use super::{load, shipped, with_resources};
use crate::{StartError, TemplateSource};

/// One way to damage a text.
#[derive(Debug, Clone)]
enum Damage {
    /// The text ends early.
    Cut {
        at: Index,
    },
    RemoveLine {
        at: Index,
    },
    RepeatLine {
        at: Index,
        before: Index,
    },
    /// A line moves by some columns.
    Indent {
        at: Index,
        columns: usize,
    },
    /// The value of a line becomes another.
    Value {
        at: Index,
        value: String,
    },
    /// A piece of the text becomes another.
    Splice {
        at: Index,
        length: usize,
        text: String,
    },
}

impl Damage {
    fn apply(&self, text: &str) -> String {
        let mut lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
        let line = |at: &Index| at.index(text.lines().count().max(1));
        match self {
            Self::Cut { at } => {
                return text[..text.floor_char_boundary(position(*at, text))].to_owned();
            }
            Self::Splice { at, length, text: new } => {
                let from = text.floor_char_boundary(position(*at, text));
                let to = text.floor_char_boundary((from + length).min(text.len()));
                return format!("{}{new}{}", &text[..from], &text[to..]);
            }
            _ if lines.is_empty() => {}
            Self::RemoveLine { at } => drop(lines.remove(line(at))),
            Self::RepeatLine { at, before } => lines.insert(line(before), lines[line(at)].clone()),
            Self::Indent { at, columns } => {
                let line = &mut lines[line(at)];
                *line = format!("{:columns$}{}", "", line.trim_start());
            }
            Self::Value { at, value } => {
                let line = &mut lines[line(at)];
                let name = line.split_once(':').map_or(line.as_str(), |(name, _)| name);
                *line = format!("{name}: {value}");
            }
        }
        lines.join("\n")
    }
}

fn position(at: Index, text: &str) -> usize {
    at.index(text.len().max(1))
}

/// What means something in YAML or in a template, in places where it means nothing.
fn noise() -> impl Strategy<Value = String> {
    const WORDS: [&str; 44] = [
        "!Ref",
        "!Ref X",
        "!Sub \"${\"",
        "!Sub \"${X\"",
        "!GetAtt",
        "!GetAtt X",
        "!GetAtt X.",
        "!If",
        "!If [a]",
        "!Join [a, b]",
        "!Unknown x",
        "!!int x",
        "Fn::If: []",
        "{Ref: [X]}",
        "&a",
        "*a",
        "<<: *a",
        "- ",
        "? ",
        ": ",
        "|",
        ">-",
        "\t",
        "[",
        "{",
        "]",
        "}",
        "[]",
        "{}",
        "\"",
        "'",
        "#",
        "\n---\n",
        "\n...\n",
        "%YAML 9",
        "null",
        "~",
        "-1",
        "0",
        "99999999999999999999",
        "1.5",
        "rate(0 minutes)",
        "\u{0}",
        "\u{feff}",
    ];
    prop_oneof![prop::sample::select(&WORDS[..]).prop_map(str::to_owned), "\\PC{0,12}"]
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(|at| Damage::Cut { at }),
        at().prop_map(|at| Damage::RemoveLine { at }),
        (at(), at()).prop_map(|(at, before)| Damage::RepeatLine { at, before }),
        (at(), 0..16_usize).prop_map(|(at, columns)| Damage::Indent { at, columns }),
        (at(), noise()).prop_map(|(at, value)| Damage::Value { at, value }),
        (at(), 0..12_usize, noise()).prop_map(|(at, length, text)| Damage::Splice {
            at,
            length,
            text
        }),
    ]
}

fn damaged_template() -> impl Strategy<Value = String> {
    let TemplateSource::Path(path) = shipped() else { unreachable!("it is a file") };
    let template = fs::read_to_string(path).expect("the shipped template");
    (Just(template), prop::collection::vec(damage(), 1..4))
        .prop_map(|(text, damage)| damage.iter().fold(text, |text, damage| damage.apply(&text)))
}

fn no_template() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,200}",
        "[-\\[\\]{}:,&*!|>'\"%@#? \n\ta-c0-9]{0,200}",
        prop::collection::vec(noise(), 0..40).prop_map(|words| words.concat()),
    ]
}

/// Asserts that a template is loaded, or refused in one line that names the place or the parameter.
fn assert_loaded_or_located(text: &str) -> Result<(), TestCaseError> {
    let Err(error) = load(text) else { return Ok(()) };
    prop_assert!(!error.to_string().contains('\n'), "{error}");
    let (location, problem) = match error {
        StartError::Template { location, problem } => (location, problem),
        StartError::Parameter { .. } => return Ok(()),
        other => return Err(TestCaseError::fail(other.to_string())),
    };
    match location.strip_prefix("t.yaml:").map(str::parse::<usize>) {
        Some(Ok(line)) => prop_assert!(line >= 1 && line <= text.lines().count() + 1, "{location}"),
        _ => prop_assert!(problem == "the template is empty", "{location}: {problem}"),
    }
    Ok(())
}

#[test]
fn regression_a_name_with_a_line_break_broke_the_message_in_two() {
    let text = "Transform: AWS::Serverless-2016-10-31\nResources:\n  \"a\\nb\": {}\n";
    assert_eq!(load(text).expect_err("no type").to_string(), "t.yaml:3: a b has no Type");
}

#[test]
fn regression_a_stream_specification_that_is_not_a_mapping_was_a_panic() {
    let table = "  Orders:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      ";
    let text = with_resources(&format!("{table}StreamSpecification: NEW_IMAGE\n"));
    let error = load(&text).expect_err("a text is not a mapping").to_string();
    assert_eq!(
        error,
        "t.yaml:6: StreamSpecification of Orders, a AWS::DynamoDB::Table must be a mapping"
    );
}

proptest! {
    #[test]
    fn a_damaged_template_is_loaded_or_refused_at_its_place(text in damaged_template()) {
        assert_loaded_or_located(&text)?;
    }

    #[test]
    fn a_text_that_is_not_a_template_is_refused_at_its_place(text in no_template()) {
        assert_loaded_or_located(&text)?;
    }
}
