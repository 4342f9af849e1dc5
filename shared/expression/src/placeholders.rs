//! The names and values that expressions refer to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::tokens::tokens;

/// The names and values of the expressions of one request, as the client sent them: `ExpressionAttributeNames` and
/// `ExpressionAttributeValues`. What is added has placeholders that the client does not define.
#[derive(Debug, Clone, Default)]
pub struct Placeholders {
    /// The attribute of each `#name`.
    pub names: BTreeMap<String, String>,
    /// The value of each `:value`, in DynamoDB JSON.
    pub values: BTreeMap<String, Value>,
    /// The names that were added. A client's may look like them.
    own: BTreeSet<String>,
}

impl Placeholders {
    /// The placeholder of an attribute: `#_ds0`, `#_ds1` and so on. The same one if asked again, since DynamoDB takes any
    /// number of placeholders for an attribute but bounds the length of an expression.
    pub fn name(&mut self, attribute: &str) -> String {
        let is_of = |name: &&String| self.names.get(*name).is_some_and(|of| of == attribute);
        if let Some(name) = self.own.iter().find(is_of) {
            return name.clone();
        }
        let name = unused(OWN_NAME, &self.names);
        self.names.insert(name.clone(), attribute.to_owned());
        self.own.insert(name.clone());
        name
    }

    /// A placeholder of its own for this value in DynamoDB JSON: `:_ds0`, `:_ds1` and so on.
    pub fn value(&mut self, value: Value) -> String {
        let name = unused(OWN_VALUE, &self.values);
        self.values.insert(name.clone(), value);
        name
    }

    /// Whether the client defines a placeholder, or something here has.
    pub(crate) fn defines(&self, placeholder: &str) -> bool {
        self.names.contains_key(placeholder) || self.values.contains_key(placeholder)
    }
}

/// Whether an expression uses a placeholder. DynamoDB refuses a request that defines one that none of its expressions uses.
pub fn uses(text: &str, placeholder: &str) -> bool {
    tokens(text).any(|token| token.text == placeholder)
}

/// How the placeholders begin that are added.
pub(crate) const OWN_NAME: &str = "#_ds";
/// How the placeholders of values begin that are added.
pub(crate) const OWN_VALUE: &str = ":_ds";

/// The first of the numbered placeholders that the map lacks. The count of own ones is tried first.
fn unused<T>(prefix: &str, taken: &BTreeMap<String, T>) -> String {
    let own = taken.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
    let mut number = own.count();
    loop {
        let name = format!("{prefix}{number}");
        if !taken.contains_key(&name) {
            return name;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_has_one_placeholder_and_each_value_its_own() {
        let mut placeholders = Placeholders::default();
        assert_eq!(placeholders.name("_ds_g"), "#_ds0");
        assert_eq!(placeholders.name("_ds_v"), "#_ds1");
        assert_eq!(placeholders.name("_ds_g"), "#_ds0");
        assert_eq!(placeholders.value(json!({"N": "1"})), ":_ds0");
        assert_eq!(placeholders.value(json!({"N": "1"})), ":_ds1");
        assert_eq!(placeholders.values[":_ds0"], json!({"N": "1"}));
    }

    #[test]
    fn the_clients_placeholders_stay_what_they_are() {
        let mut placeholders = Placeholders::default();
        for (name, attribute) in [("#_ds1", "a"), ("#a", "_x"), ("#_dsx", "b")] {
            placeholders.names.insert(name.to_owned(), attribute.to_owned());
        }
        assert_eq!(placeholders.name("_x"), "#_ds2");
        assert_eq!(placeholders.name("_y"), "#_ds3");
        assert_eq!(placeholders.names["#_ds1"], "a");
    }

    /// DynamoDB refuses a name that no expression uses. What was added used it in the client's place.
    #[test]
    fn regression_an_unused_name_of_the_client_was_taken_for_one_that_was_added() {
        let mut placeholders = Placeholders::default();
        placeholders.names.insert("#_ds0".to_owned(), "sk".to_owned());
        assert_eq!(placeholders.name("sk"), "#_ds1");
        assert_eq!(placeholders.name("sk"), "#_ds1");
    }
}
