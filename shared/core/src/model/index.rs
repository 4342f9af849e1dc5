//! Secondary indexes of the main table, as DynamoDB describes them.

use std::collections::BTreeSet;

use dynashard_keys::{RESERVED_PREFIX, SortKeyType};

use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::index_shards::INDEX_SHARD;
use crate::model::item::quoted;
use crate::model::schema::TableSchema;

/// A secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryIndex {
    /// Its name.
    pub name: String,
    /// Whether it is a local one, which can be read with strong consistency.
    pub is_local: bool,
    /// Whether it can be queried: DynamoDB has made it, and does not remove it.
    pub is_active: bool,
    /// The attributes of its partition key.
    pub partition_key: Vec<IndexAttribute>,
    /// The attributes by which its entries are in order.
    pub sort_key: Vec<IndexAttribute>,
    /// The keys of the table, which every entry has.
    pub table_keys: [String; 2],
    /// What of the system's own its entries have.
    pub tells: Told,
    /// What it projects beside all keys. `None` where it projects all attributes.
    pub projected: Option<BTreeSet<String>>,
}

/// What the entries of an index tell of their items beside what a client has put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// Whether an entry says of a marker that it is one.
    pub markers: bool,
    /// Whether an entry has the generation of its item. Without it the item looks like one of generation 0.
    pub generations: bool,
}

/// An attribute of the key of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexAttribute {
    /// Its name.
    pub name: String,
    /// Its type; `None` where that is neither a string nor a number, or is not known.
    pub r#type: Option<SortKeyType>,
}

impl SecondaryIndex {
    /// The table itself, which has its items as an index of its own keys has its entries.
    pub fn of_table(schema: &TableSchema) -> Self {
        let attribute = |name: &String, r#type| IndexAttribute { name: name.clone(), r#type };
        let (partition, sort) = (&schema.partition_key_name, &schema.sort_key_name);
        Self {
            name: String::new(),
            is_local: true,
            is_active: true,
            partition_key: vec![attribute(partition, Some(SortKeyType::String))],
            sort_key: vec![attribute(sort, Some(schema.sort_key_type))],
            table_keys: [partition.clone(), sort.clone()],
            tells: Told { markers: true, generations: true },
            projected: None,
        }
    }

    /// The attributes that every entry has: those of its own key and of the table's.
    pub fn keys(&self) -> BTreeSet<&str> {
        let own = self.partition_key.iter().chain(&self.sort_key).map(|key| key.name.as_str());
        own.chain(self.table_keys.iter().map(String::as_str)).collect()
    }

    /// Whether its entries have this attribute, if their items do.
    pub fn projects(&self, attribute: &str) -> bool {
        let is_there = |projected: &BTreeSet<String>| projected.contains(attribute);
        self.projected.as_ref().is_none_or(is_there) || self.keys().contains(attribute)
    }

    /// Whether a marker is in it. Those have the key of the table alone.
    pub fn may_hold_markers(&self) -> bool {
        self.keys().len() == self.table_keys.len()
    }

    /// Whether its partition key is the table's, so that an index has the entries of a collection in as many places as that has
    /// shards.
    pub fn is_by_collection(&self) -> bool {
        matches!(self.partition_key.as_slice(), [key] if key.name == self.table_keys[0])
    }

    /// Whether each value of its partition key is spread over shards, whose number is the other attribute of that key.
    pub fn is_write_sharded(&self) -> bool {
        let is_shard = |key: &IndexAttribute| key.name == INDEX_SHARD;
        self.partition_key.len() == 2 && self.partition_key.iter().any(is_shard)
    }

    /// The attributes of its partition key but for the shard.
    fn values(&self) -> Vec<&IndexAttribute> {
        let is_value = |key: &&IndexAttribute| !self.is_write_sharded() || key.name != INDEX_SHARD;
        self.partition_key.iter().filter(is_value).collect()
    }

    /// The attribute of its partition key, beside the shard if it is write-sharded, and that of its sort key if it has one.
    ///
    /// An index that is being made is refused, and one that the API cannot ask for by one partition key and one sort key.
    pub fn attributes(&self) -> Result<[Option<(&str, SortKeyType)>; 2], Error> {
        let name = quoted(&self.name);
        if !self.is_active {
            let why = format!("the index {name} is being made, or removed");
            return Err(Error::new(Code::IndexNotReady, why));
        }
        let refused = |why: &str| {
            Err(Error::new(Code::IndexNotSupported, format!("the index {name} has {why}")))
        };
        let mut attributes = [None; 2];
        let sort_key = self.sort_key.iter().collect::<Vec<_>>();
        for (of, keys) in attributes.iter_mut().zip([self.values(), sort_key]) {
            *of = match keys.as_slice() {
                [] => None,
                [IndexAttribute { name, r#type: Some(r#type) }] => Some((name.as_str(), *r#type)),
                [_] => return refused("a key that is neither a string nor a number"),
                _ => return refused("several attributes as its partition key or its sort key"),
            };
        }
        if attributes[1].is_some_and(|(sort, _)| sort == self.table_keys[0]) {
            return refused(
                "the table's partition key as its sort key, which is another one in each shard",
            );
        }
        let [partition, _] = attributes;
        if self.is_write_sharded() && partition.is_some_and(|(name, _)| name == self.table_keys[0])
        {
            return refused(
                "the table's partition key beside its shard, which is another one in each shard of a collection",
            );
        }
        Ok(attributes)
    }

    /// Refuses to read items of which the index does not have all that is asked for.
    pub(crate) fn check_fields(&self, fields: Option<&Fields>) -> Result<(), Error> {
        let Some(projected) = &self.projected else { return Ok(()) };
        let lacking = fields.map(|fields| fields.names().find(|name| !self.projects(name)));
        let what = match lacking {
            Some(None) => return Ok(()),
            Some(Some(name)) => format!("does not project {}", quoted(name)),
            None => "does not project whole items".to_owned(),
        };
        let mut has = self.keys();
        has.extend(projected.iter().map(String::as_str));
        // Clients do not see the system's own attributes.
        let has = has.into_iter().filter(|name| !name.starts_with(RESERVED_PREFIX));
        let why = format!(
            "the index {} {what}; name fields that it has: {}",
            quoted(&self.name),
            has.collect::<Vec<_>>().join(", ")
        );
        Err(Error::new(Code::IndexProjectsTooLittle, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, r#type: Option<SortKeyType>) -> IndexAttribute {
        IndexAttribute { name: name.to_owned(), r#type }
    }

    fn by(partition_key: Vec<IndexAttribute>, sort_key: Vec<IndexAttribute>) -> SecondaryIndex {
        let of_table = SecondaryIndex::of_table(&TableSchema::default());
        let projected = Some(["x".to_owned(), "_ds_g".to_owned()].into());
        let name = "index".to_owned();
        SecondaryIndex { name, is_local: false, partition_key, sort_key, projected, ..of_table }
    }

    #[test]
    fn an_index_has_its_keys_and_what_it_projects() {
        let text = Some(SortKeyType::String);
        let by_country = by(vec![key("country", text)], vec![key("n", Some(SortKeyType::Number))]);
        assert!(["country", "n", "pk", "sk", "x"].iter().all(|name| by_country.projects(name)));
        assert!(!by_country.projects("y") && !by_country.may_hold_markers());
        assert!(!by_country.is_by_collection());
        let inverted = by(vec![key("sk", text)], Vec::new());
        assert!(inverted.may_hold_markers());
        let whole = SecondaryIndex::of_table(&TableSchema::default());
        assert!(whole.projects("y") && whole.may_hold_markers() && whole.is_by_collection());
    }

    #[test]
    fn what_cannot_be_asked_for_by_two_keys_is_refused() {
        let text = Some(SortKeyType::String);
        let refused = |index: &SecondaryIndex| index.attributes().err().map(|error| error.code());
        let by_country = || by(vec![key("country", text)], Vec::new());
        assert_eq!(by_country().attributes(), Ok([Some(("country", SortKeyType::String)), None]));
        let making = SecondaryIndex { is_active: false, ..by_country() };
        assert_eq!(refused(&making), Some(Code::IndexNotReady));
        for index in [
            by(vec![key("country", text), key("shard", text)], Vec::new()),
            by(vec![key("country", None)], Vec::new()),
            by(vec![key("country", text)], vec![key("a", text), key("b", text)]),
            by(vec![key("sk", text)], vec![key("pk", text)]),
            by(vec![key("pk", text), key(INDEX_SHARD, Some(SortKeyType::Number))], Vec::new()),
        ] {
            assert_eq!(refused(&index), Some(Code::IndexNotSupported));
        }
    }

    #[test]
    fn a_write_sharded_index_is_asked_for_by_the_value_alone() {
        let (text, shard) =
            (Some(SortKeyType::String), key(INDEX_SHARD, Some(SortKeyType::Number)));
        for keys in [[key("country", text), shard.clone()], [shard.clone(), key("country", text)]] {
            let index = by(keys.into(), Vec::new());
            assert!(index.is_write_sharded());
            assert_eq!(index.attributes(), Ok([Some(("country", SortKeyType::String)), None]));
        }
        let third = key("city", text);
        assert!(!by(vec![key("country", text), third, shard], Vec::new()).is_write_sharded());
    }

    #[test]
    fn nothing_is_read_of_an_index_that_does_not_have_it() {
        let index = by(vec![key("country", None)], Vec::new());
        let refused = |names: Option<&[&str]>| {
            let fields = names.map(|names| Fields::new(names.iter().map(|n| (*n).to_owned())));
            let fields = fields.transpose().expect("fields");
            index.check_fields(fields.as_ref()).map_err(|error| error.message().to_owned())
        };
        assert_eq!(refused(Some(&["x", "sk", "country"])), Ok(()));
        let names = "name fields that it has: country, pk, sk, x";
        let why = format!("the index \"index\" does not project \"y\"; {names}");
        assert_eq!(refused(Some(&["x", "y"])), Err(why));
        let why = format!("the index \"index\" does not project whole items; {names}");
        assert_eq!(refused(None), Err(why));
    }
}
