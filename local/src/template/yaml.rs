//! A template as a tree of YAML nodes that know their lines, with every intrinsic in its long form.

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

/// What is wrong with a template, and the line (1-based) if it is known.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) line: Option<usize>,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn at(line: usize, text: impl Into<String>) -> Self {
        Self { line: Some(line), text: text.into() }
    }
}

/// A YAML node and the line on which it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// The content of a node. Scalars keep their text, since its meaning depends on the property.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A scalar, and whether it is unquoted: only then can it be a number, a boolean or null.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// Entries in the order of the file. No two have the same name.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Parses one YAML document, with the tags of intrinsics.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let mut reader = Reader { events: Parser::new_from_str(text) };
        reader.document()
    }

    /// A quoted scalar: what an intrinsic evaluates to.
    pub(super) fn text(line: usize, text: impl Into<String>) -> Self {
        Self { line, value: Value::Scalar { text: text.into(), plain: false } }
    }

    /// A mapping without entries.
    pub(super) fn empty_map(line: usize) -> Self {
        Self { line, value: Value::Map(Vec::new()) }
    }

    /// The entry `name`; `None` also if this is not a mapping.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().find_map(|(key, node)| (key == name).then_some(node))
            }
            _ => None,
        }
    }

    /// The entry `name`, which `what` must have.
    pub(super) fn require(&self, name: &str, what: &str) -> Result<&Self, Problem> {
        self.entries(what)?;
        self.get(name).ok_or_else(|| self.problem(format!("{what} has no {name}")))
    }

    pub(super) fn entries(&self, what: &str) -> Result<&[(String, Self)], Problem> {
        match &self.value {
            Value::Map(entries) => Ok(entries),
            _ => Err(self.wrong(what, "a mapping")),
        }
    }

    pub(super) fn items(&self, what: &str) -> Result<&[Self], Problem> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.wrong(what, "a list")),
        }
    }

    pub(super) fn as_text(&self, what: &str) -> Result<&str, Problem> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Ok(text),
            _ => Err(self.wrong(what, "a string")),
        }
    }

    /// Refuses entries whose names are not among the words of `known`, so that nothing in the template is ignored silently.
    pub(super) fn only(&self, what: &str, known: &str) -> Result<(), Problem> {
        for (name, node) in self.entries(what)? {
            if known.split(' ').all(|known| known != name) {
                return Err(node.problem(format!(
                    "the local stack does not know the property {name} of {what}"
                )));
            }
        }
        Ok(())
    }

    /// This node as JSON. Unquoted scalars that look like numbers or booleans become such.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Scalar { text, plain } => {
                let typed = match text.as_str() {
                    _ if !plain => None,
                    "true" => Some(true.into()),
                    "false" => Some(false.into()),
                    _ if self.is_null() => Some(serde_json::Value::Null),
                    number => number.parse::<i64>().ok().map(Into::into),
                };
                typed.unwrap_or_else(|| text.as_str().into())
            }
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(name, node)| (name.clone(), node.to_json())).collect()
            }
        }
    }

    fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, plain: true } => matches!(text.as_str(), "" | "~" | "null"),
            _ => false,
        }
    }

    /// What is wrong here.
    pub(super) fn problem(&self, text: impl Into<String>) -> Problem {
        Problem::at(self.line, text)
    }

    pub(super) fn wrong(&self, what: &str, expected: &str) -> Problem {
        self.problem(format!("{what} must be {expected}"))
    }
}

/// Deep enough for any template; without a limit, a hostile one overflows the stack.
const MAX_DEPTH: usize = 64;

/// The tags of intrinsics that the local stack evaluates, but for `Ref` and `Condition`, whose long forms are no functions.
const FUNCTIONS: &str = "GetAtt Sub If Split FindInMap Equals Not And Or";

/// Builds nodes from the parser's events.
struct Reader<'input> {
    events: Parser<'input, StrInput<'input>>,
}

impl<'input> Reader<'input> {
    fn document(&mut self) -> Result<Node, Problem> {
        let node = loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (Event::StreamEnd, _) => {
                    return Err(Problem { line: None, text: "the template is empty".to_owned() });
                }
                (event, span) => break self.node(event, span, 0)?,
            }
        };
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(node),
                (Event::DocumentStart(_), span) => {
                    let text = "a second YAML document begins here: a template is one document";
                    return Err(Problem::at(span.start.line(), text));
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'input>, Span), Problem> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                Err(Problem::at(error.marker().line(), format!("not valid YAML: {}", error.info())))
            }
            None => Err(Problem { line: None, text: "the template ends in the middle".to_owned() }),
        }
    }

    fn node(&mut self, event: Event<'input>, span: Span, depth: usize) -> Result<Node, Problem> {
        let line = span.start.line();
        if depth > MAX_DEPTH {
            return Err(Problem::at(line, "the template is nested too deeply"));
        }
        let (value, tag) = match event {
            Event::Scalar(text, style, _, tag) => {
                let plain = style == ScalarStyle::Plain;
                let text = text.into_owned();
                (Value::Scalar { text, plain }, tag)
            }
            Event::SequenceStart(_, tag) => (self.list(depth)?, tag),
            Event::MappingStart(_, tag) => (self.map(depth)?, tag),
            Event::Alias(_) => {
                let text = "the local stack does not know YAML aliases: write the value out";
                return Err(Problem::at(line, text));
            }
            _ => return Err(Problem::at(line, "not valid YAML: a value is missing")),
        };
        let node = Node { line, value };
        match tag {
            Some(tag) if !tag.is_yaml_core_schema() => long_form(&tag, node),
            _ => Ok(node),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line();
            let name = match event {
                Event::MappingEnd => return Ok(Value::Map(entries)),
                Event::Scalar(name, ..) => name.into_owned(),
                _ => return Err(Problem::at(line, "the name of an entry must be a string")),
            };
            if entries.iter().any(|(other, _)| *other == name) {
                return Err(Problem::at(line, format!("the entry {name} is here a second time")));
            }
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            entries.push((name, node));
        }
    }
}

/// `!Sub x` as `{"Fn::Sub": x}`.
fn long_form(tag: &Tag, node: Node) -> Result<Node, Problem> {
    let name = match tag.suffix.as_str() {
        _ if tag.handle != "!" => None,
        name @ ("Ref" | "Condition") => Some(name.to_owned()),
        name if FUNCTIONS.split(' ').any(|known| known == name) => Some(format!("Fn::{name}")),
        _ => None,
    };
    let unknown = || node.problem(format!("the local stack does not know the intrinsic {tag}"));
    Ok(Node { line: node.line, value: Value::Map(vec![(name.ok_or_else(unknown)?, node)]) })
}
