//! Reads the key condition of a query.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use crate::comparator::Comparator;
use crate::cursor::Cursor;
use crate::malformed::Malformed;
use crate::placeholders::Placeholders;
use crate::tokens::{Kind, tokens};

/// A `KeyConditionExpression`: what it demands of each attribute that it names ([key conditions][conditions]).
///
/// It does not tell which attribute is the partition key. Whoever knows the key of the table asks for each of its attributes:
/// DynamoDB takes nothing but equality for the partition key, and anything or nothing for the sort key.
///
/// [conditions]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.KeyConditionExpressions.html
#[derive(Debug, Clone, PartialEq)]
pub struct KeyCondition {
    ranges: BTreeMap<String, KeyRange>,
}

/// Which values of an attribute a key condition takes.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyRange {
    /// This one.
    Equal(Value),
    /// Those below it.
    Less(Value),
    /// Those below it, and itself.
    AtMost(Value),
    /// Those above it.
    Greater(Value),
    /// Those above it, and itself.
    AtLeast(Value),
    /// Those between the two, and they themselves.
    Between(Value, Value),
    /// Texts or binaries that begin with it.
    BeginsWith(Value),
}

impl KeyCondition {
    /// The key condition that a text is. Like DynamoDB it refuses a second condition on an attribute, and parts of one.
    pub fn parse(text: &str, placeholders: &Placeholders) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(text, placeholders);
        let mut ranges = BTreeMap::new();
        // Nothing but `AND` stands between conditions, so brackets say nothing and need only balance.
        let mut depth = 0_usize;
        loop {
            while cursor.takes("(") {
                depth += 1;
            }
            let (attribute, range) = condition(&mut cursor)?;
            if ranges.insert(attribute, range).is_some() {
                return Err(cursor.unexpected());
            }
            while depth > 0 && cursor.takes(")") {
                depth -= 1;
            }
            if !cursor.takes("AND") {
                break;
            }
        }
        if depth > 0 || cursor.peek().is_some() {
            return Err(cursor.unexpected());
        }
        Ok(Self { ranges })
    }

    /// What it demands of an attribute, if it does of that one.
    pub fn of(&self, attribute: &str) -> Option<&KeyRange> {
        self.ranges.get(attribute)
    }

    /// The attributes that it demands something of.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ranges.keys().map(String::as_str)
    }
}

/// A condition on an attribute. Beside a comparator DynamoDB takes the two operands either way round.
fn condition(cursor: &mut Cursor<'_>) -> Result<(String, KeyRange), Malformed> {
    if cursor.function() == Some("begins_with") {
        cursor.expect("begins_with")?;
        cursor.expect("(")?;
        let attribute = attribute(cursor)?;
        cursor.expect(",")?;
        let prefix = value(cursor)?;
        cursor.expect(")")?;
        return Ok((attribute, KeyRange::BeginsWith(prefix)));
    }
    let first = cursor.value()?;
    let (attribute, comparator, value) = if let Some(value) = first {
        let comparator = Comparator::read(cursor)?.swapped();
        (attribute(cursor)?, comparator, Value::clone(&value))
    } else {
        let attribute = attribute(cursor)?;
        if cursor.takes("BETWEEN") {
            let low = value(cursor)?;
            cursor.expect("AND")?;
            return Ok((attribute, KeyRange::Between(low, value(cursor)?)));
        }
        let comparator = Comparator::read(cursor)?;
        (attribute, comparator, value(cursor)?)
    };
    let range = match comparator {
        Comparator::Equal => KeyRange::Equal(value),
        Comparator::Less => KeyRange::Less(value),
        Comparator::AtMost => KeyRange::AtMost(value),
        Comparator::Greater => KeyRange::Greater(value),
        Comparator::AtLeast => KeyRange::AtLeast(value),
        Comparator::NotEqual => return Err(cursor.unexpected()),
    };
    Ok((attribute, range))
}

/// The attribute that has to be next. A key lies in nothing, so a path of several steps is none.
fn attribute(cursor: &mut Cursor<'_>) -> Result<String, Malformed> {
    let path = cursor.path()?;
    if path.steps.is_empty() { Ok(path.attribute) } else { Err(cursor.unexpected()) }
}

fn value(cursor: &mut Cursor<'_>) -> Result<Value, Malformed> {
    let value = cursor.value()?.ok_or_else(|| cursor.unexpected())?;
    Ok(Value::clone(&value))
}

/// Where the placeholder stands, in bytes, of the value that a key condition demands of an attribute. `attribute_of` says what a
/// `#name` stands for.
///
/// DynamoDB takes one such equality of the partition key in a key condition, and refuses one without. Brackets change nothing of it,
/// wherever they stand: it takes no other function than `begins_with`, which is no operand.
pub fn equality(
    condition: &str,
    attribute: &str,
    attribute_of: impl Fn(&str) -> Option<String>,
) -> Option<Range<usize>> {
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
        (is_attribute && value.kind == Kind::Value).then(|| value.start..value.end())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn placeholders() -> Placeholders {
        let mut placeholders = Placeholders::default();
        placeholders.names.insert("#p".to_owned(), "pk".to_owned());
        for name in ["p", "s", "t"] {
            placeholders.values.insert(format!(":{name}"), json!({"S": name}));
        }
        placeholders
    }

    #[test]
    fn a_key_condition_tells_what_it_demands_of_each_attribute() {
        let v = |name: &str| json!({"S": name});
        for (condition, of_sk) in [
            ("pk = :p", None),
            ("#p = :p AND sk = :s", Some(KeyRange::Equal(v("s")))),
            ("sk < :s and pk=:p", Some(KeyRange::Less(v("s")))),
            ("(:p = pk) AND (:s < sk)", Some(KeyRange::Greater(v("s")))),
            ("(sk >= :s AND :p = pk)", Some(KeyRange::AtLeast(v("s")))),
            ("(:s >= sk) AND pk = :p", Some(KeyRange::AtMost(v("s")))),
            ("((sk between :s and :t) AND (#p = :p))", Some(KeyRange::Between(v("s"), v("t")))),
            ("pk = :p AND begins_with(sk, :s)", Some(KeyRange::BeginsWith(v("s")))),
            ("(begins_with (sk,:s)) AND pk = :p", Some(KeyRange::BeginsWith(v("s")))),
        ] {
            let parsed = KeyCondition::parse(condition, &placeholders()).unwrap();
            assert_eq!(parsed.of("pk"), Some(&KeyRange::Equal(v("p"))), "{condition}");
            assert_eq!(parsed.of("sk"), of_sk.as_ref(), "{condition}");
            let names = ["pk", "sk"].into_iter().filter(|name| *name == "pk" || of_sk.is_some());
            assert!(parsed.names().eq(names), "{condition}");
        }
    }

    #[test]
    fn what_is_no_key_condition_is_malformed() {
        const TEXTS: &str = "pk <> :p | pk = sk | :p = :s | pk[0] = :p | pk = :p OR sk = :s | NOT pk = :p | \
            pk = :p AND | (pk = :p | pk = :p) | pk = (:p) | :s BETWEEN sk AND :t | \
            BEGINS_WITH(sk, :s) | sk > :s AND sk < :t | sk IN (:s)";
        let refused = |text| KeyCondition::parse(text, &placeholders()).unwrap_err().to_string();
        for text in TEXTS.split(" | ").chain([" "]) {
            assert!(refused(text).starts_with("Syntax error; token: "), "{text}");
        }
        assert_eq!(refused(""), "The expression can not be empty;");
        let undefined = "An expression attribute name used in the document path is not defined; \
                         attribute name: #x";
        assert_eq!(refused("#x = :p"), undefined);
        let undefined = "An expression attribute value used in expression is not defined; \
                         attribute value: :x";
        assert_eq!(refused("pk = :x"), undefined);
    }

    #[test]
    fn a_key_condition_tells_its_partition_key_however_it_is_written() {
        let found = |condition| {
            let name = |name: &str| (name == "#p").then(|| "pk".to_owned());
            equality(condition, "pk", name).map(|at| &condition[at])
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
