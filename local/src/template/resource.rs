//! Resources, with the defaults of `Globals`.

use super::intrinsics::Scope;
use super::named::Named;
use super::yaml::{Node, Problem, Value};

/// A resource with its intrinsics evaluated.
pub(super) struct Resource {
    pub(super) id: String,
    /// What errors call it.
    pub(super) what: String,
    properties: Node,
    metadata: Node,
}

impl Resource {
    pub(super) fn read(id: &str, node: &Node, scope: &Scope<'_>) -> Result<Self, Problem> {
        node.only(id, SECTIONS)?;
        let section = |name: &str| {
            let resolved = node.get(name).map(|node| scope.resolve(node)).transpose()?;
            Ok(resolved.flatten().unwrap_or_else(|| Node::empty_map(node.line)))
        };
        let kind = &scope.resources[id];
        Ok(Self {
            id: id.to_owned(),
            what: format!("{id}, a {kind}"),
            properties: section("Properties")?,
            metadata: section("Metadata")?,
        })
    }

    /// Adds the properties of `Globals` that the resource does not set.
    pub(super) fn with_defaults(mut self, globals: &Node) -> Self {
        self.properties = merged(globals, &self.properties);
        self
    }

    /// The properties, of which the stack knows these.
    pub(super) fn properties(&self, known: &str) -> Result<Named<'_>, Problem> {
        Named::of(&self.properties, self.what.clone(), known)
    }

    /// What is wrong with it.
    pub(super) fn problem(&self, text: impl Into<String>) -> Problem {
        self.properties.problem(text)
    }

    pub(super) fn metadata(&self) -> Named<'_> {
        Named { node: &self.metadata, what: format!("Metadata of {}", self.what) }
    }
}

const SECTIONS: &str =
    "Condition DeletionPolicy DependsOn Metadata Properties Type UpdateReplacePolicy";

/// The properties that `Globals` gives every function, with their intrinsics evaluated.
pub(super) fn function_globals(root: &Node, scope: &Scope<'_>) -> Result<Node, Problem> {
    let empty = Node::empty_map(root.line);
    let globals = root.get("Globals").unwrap_or(&empty);
    globals.only("Globals", "Function")?;
    let resolved = globals.get("Function").map(|node| scope.resolve(node)).transpose()?;
    Ok(resolved.flatten().unwrap_or(empty))
}

/// SAM's rule for `Globals`: mappings are merged, lists are appended, and anything else the
/// resource overrides.
fn merged(global: &Node, own: &Node) -> Node {
    let value = match (&global.value, &own.value) {
        (Value::Map(global), Value::Map(own)) => {
            let mut entries = global.clone();
            for (name, node) in own {
                match entries.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => *known = merged(known, node),
                    None => entries.push((name.clone(), node.clone())),
                }
            }
            Value::Map(entries)
        }
        (Value::List(global), Value::List(own)) => {
            Value::List(global.iter().chain(own).cloned().collect())
        }
        _ => own.value.clone(),
    };
    Node { line: own.line, value }
}
