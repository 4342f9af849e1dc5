//! Finds names that no client may touch.

use crate::placeholders::{OWN_NAME, OWN_VALUE, Placeholders};
use crate::tokens::{Kind, tokens_in_paths};

/// The first name that a request must not touch: an attribute that begins with `prefix`, in one of its texts of any kind,
/// or among the values of its `ExpressionAttributeNames`.
///
/// To be asked of what the client sent, or of what [`legacy`](crate::legacy) made of it, before anything else is added. Then
/// a placeholder in a text that nothing defines is found as well, if it could become one of those that are added: it would
/// get a meaning by that.
///
/// It errs on the side of refusing: the client's `#name` counts wherever it is used, inside of paths as well. A bare name
/// behind a dot does not count, since it is that of a member of a map.
pub fn reserved<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    placeholders: &Placeholders,
    prefix: &str,
) -> Option<String> {
    let named = placeholders.names.values().find(|name| name.starts_with(prefix));
    named.cloned().or_else(|| {
        let mut tokens = texts.into_iter().flat_map(tokens_in_paths);
        let found = tokens.find(|(token, in_path)| match token.kind {
            Kind::Word => !in_path && token.text.starts_with(prefix),
            Kind::Name | Kind::Value => {
                let could_be_ours =
                    token.text.starts_with(OWN_NAME) || token.text.starts_with(OWN_VALUE);
                could_be_ours && !placeholders.defines(token.text)
            }
            _ => false,
        });
        found.map(|(token, _)| token.text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let mut client = Placeholders::default();
        client.names.insert("#_ds7".to_owned(), "a".to_owned());
        reserved([text], &client, "_ds_")
    }

    #[test]
    fn a_reserved_name_is_found_in_any_text() {
        for text in ["_ds_v = :a", "SET a=:a,_ds_v=:b", "a, _ds_v", "size(_ds_v)>:a", "l[0]_ds_v"] {
            assert_eq!(found(text).as_deref(), Some("_ds_v"), "{text}");
        }
        for text in ["a._ds_v = :a", "a . _ds_v", "x_ds_v", ":x_ds_v", "_DS_v", "#_ds7 = :v"] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn regression_a_placeholder_that_nothing_defines_took_the_meaning_of_ours() {
        assert_eq!(found("SET #_ds0 = :v").as_deref(), Some("#_ds0"));
        assert_eq!(found("a = :_ds0").as_deref(), Some(":_ds0"));
    }

    #[test]
    fn a_reserved_name_is_found_behind_a_placeholder() {
        let mut client = Placeholders::default();
        client.names.insert("#a".to_owned(), "_ds_g".to_owned());
        assert_eq!(reserved([], &client, "_ds_").as_deref(), Some("_ds_g"));
    }
}
