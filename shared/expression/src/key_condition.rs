use crate::tokens::{Kind, tokens};

/// The placeholder of the value that a key condition demands of an attribute. `attribute_of` says what a `#name` stands for.
///
/// DynamoDB takes one such equality of the partition key in a key condition, and refuses one without. Brackets change nothing of it,
/// wherever they stand: it takes no other function than `begins_with`, which is no operand.
pub fn equality<'a>(
    condition: &'a str,
    attribute: &str,
    attribute_of: impl Fn(&str) -> Option<String>,
) -> Option<&'a str> {
    let is_bracket = |kind: Kind| matches!(kind, Kind::Open | Kind::Close);
    let tokens = tokens(condition).filter(|token| !is_bracket(token.kind)).collect::<Vec<_>>();
    tokens.windows(3).find_map(|window| {
        let (one, other) = match window {
            [one, equals, other] if equals.text == "=" => (one, other),
            _ => return None,
        };
        let (name, value) = if other.kind == Kind::Value { (one, other) } else { (other, one) };
        let is_attribute = match name.kind {
            Kind::Word => name.text == attribute,
            Kind::Name => attribute_of(name.text).as_deref() == Some(attribute),
            _ => false,
        };
        (is_attribute && value.kind == Kind::Value).then_some(value.text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_condition_tells_its_partition_key_however_it_is_written() {
        let found = |condition| {
            let name = |name: &str| (name == "#p").then(|| "pk".to_owned());
            equality(condition, "pk", name)
        };
        for condition in [
            "pk=:p",
            "#p = :p AND begins_with(sk, :s)",
            ":p=#p",
            "(sk > :s) and(pk = :p)",
            "(pk = :p)",
        ] {
            assert_eq!(found(condition), Some(":p"), "{condition}");
        }
        for condition in ["(pk) = :p", "pk = (:p)", "((:p)) = (#p) AND sk = :s"] {
            assert_eq!(found(condition), Some(":p"), "{condition}");
        }
        for condition in ["pk < :p", "pk2 = :p", "#q = :p", "pk = sk", ":p = :q", "pk =", ""] {
            assert_eq!(found(condition), None, "{condition}");
        }
    }
}
