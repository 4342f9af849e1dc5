//! The parameters of a request: each at most once, and all of them known.

use std::collections::BTreeMap;
use std::str::FromStr;

use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::query::{DEFAULT_LIMIT, MAX_LIMIT, Query};
use dynashard_core::{Fields, SecondaryIndex, quoted};
use dynashard_keys::{ItemKey, PartitionKey, SortKey, SortKeyType};
use percent_encoding::percent_decode;

use crate::grants::GrantedKeys;
use crate::json;
use crate::problem::Problem;

/// Parameters by name. [`Params::finish`] refuses those that nobody took: they are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params {
    /// `None` is JSON's null: left out, although the name must be known.
    texts: BTreeMap<String, Option<String>>,
    /// `fields` as JSON has it, where a name may hold a comma.
    fields: Option<Vec<String>>,
}

impl Params {
    /// Reads a query string as `application/x-www-form-urlencoded`: `+` is a space. A repeated
    /// parameter or invalid UTF-8 is refused, since guessing would read or write the wrong item.
    pub fn from_query_string(text: &str) -> Result<Self, Problem> {
        let mut params = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            params.insert(decode(name)?, Some(decode(value)?))?;
        }
        Ok(params)
    }

    /// Reads parameters from a JSON object, where each has a type. A null is one that was left out.
    pub fn from_json(body: &[u8], sort_key_type: SortKeyType) -> Result<Self, Problem> {
        Self::from_members(json::object(body)?, sort_key_type)
    }

    /// As [`Params::from_json`], of the members that something else has left.
    pub fn from_members(
        members: json::Members<'_>,
        sort_key_type: SortKeyType,
    ) -> Result<Self, Problem> {
        let mut params = Self::default();
        let index = members.iter().find(|(name, _)| name.as_ref() == "index");
        let is_of_index = index.is_some_and(|(_, index)| json::type_name(index) != "null");
        for (name, value) in members {
            if name == "fields" {
                let names = json::strings(value, "the parameter \"fields\"");
                params.fields = names.map_err(Problem::bad_parameter)?;
                continue;
            }
            let takes = match (name.as_ref(), sort_key_type) {
                // The type of an index's sort key is known once it is described.
                ("from" | "to", _)
                    if is_of_index && matches!(json::type_name(value), "string" | "number") =>
                {
                    json::type_name(value)
                }
                ("limit", _) | ("sk" | "from" | "to", SortKeyType::Number) => "number",
                ("consistent", _) => "boolean",
                (
                    "pk" | "sk" | "begins_with" | "from" | "to" | "order" | "strategy" | "cursor"
                    | "index",
                    _,
                ) => "string",
                _ => {
                    // Nobody takes it, so that it is refused as unknown.
                    params.insert(name.into_owned(), Some(value.get().to_owned()))?;
                    continue;
                }
            };
            let text = match json::type_name(value) {
                "null" => {
                    params.insert(name.into_owned(), None)?;
                    continue;
                }
                "string" if takes == "string" => serde_json::from_str(value.get()).ok(),
                "number" if takes == "number" => {
                    let whole = json::whole_number(value).map(|number| number.to_string());
                    whole.or_else(|| Some(value.get().to_owned()))
                }
                other => (other == takes).then(|| value.get().to_owned()),
            };
            let text = text.ok_or_else(|| {
                Problem::bad_parameter(format!("the parameter {} is not a {takes}", quoted(&name)))
            })?;
            params.insert(name.into_owned(), Some(text))?;
        }
        Ok(params)
    }

    /// Parameters from elsewhere than a request, each at most once.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Self {
        let given =
            pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Some(value?))));
        Self { texts: given.collect(), fields: None }
    }

    fn insert(&mut self, name: String, value: Option<String>) -> Result<(), Problem> {
        if self.texts.contains_key(&name) {
            return Err(Problem::bad_parameter(format!(
                "the parameter {} is repeated",
                quoted(&name)
            )));
        }
        self.texts.insert(name, value);
        Ok(())
    }

    /// Takes a parameter out, if it was given.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.texts.remove(name).flatten()
    }

    /// Takes a parameter out and parses it, if it was given. `takes` says what it may be.
    pub fn parse<T: FromStr>(&mut self, name: &str, takes: &str) -> Result<Option<T>, Problem> {
        self.take(name)
            .map(|text| {
                let why = || format!("the parameter {name}={text:?} is not {takes}");
                text.parse().map_err(|_| Problem::bad_parameter(why()))
            })
            .transpose()
    }

    /// Takes `pk` out, if the caller may touch it.
    pub fn partition_key(&mut self, granted: &GrantedKeys) -> Result<PartitionKey, Problem> {
        let pk = self.take("pk").ok_or_else(|| Problem::missing_parameter("pk"))?;
        let partition = PartitionKey::new(pk)?;
        granted.check(&partition)?;
        Ok(partition)
    }

    /// Takes `pk` and `sk` out, if the caller may touch the partition key.
    pub fn item_key(
        &mut self,
        sort_key_type: SortKeyType,
        granted: &GrantedKeys,
    ) -> Result<ItemKey, Problem> {
        let partition = self.partition_key(granted)?;
        let sk = self.take("sk").ok_or_else(|| Problem::missing_parameter("sk"))?;
        Ok(ItemKey::new(partition, SortKey::parse(&sk, sort_key_type)?))
    }

    /// Takes `consistent` out: eventually consistent unless it is `true`.
    pub fn consistency(&mut self) -> Result<Consistency, Problem> {
        Ok(match self.parse::<bool>("consistent", "true or false")? {
            Some(true) => Consistency::Strong,
            Some(false) | None => Consistency::Eventual,
        })
    }

    /// Takes `fields` out: names with commas between them, or an array of names in JSON.
    pub fn fields(&mut self) -> Result<Option<Fields>, Problem> {
        let in_text = self.take("fields");
        let in_text = in_text.map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
        Ok(in_text.or(self.fields.take()).map(Fields::new).transpose()?)
    }

    /// Takes the parameters of a query of this index out, if the caller may touch what it may return: the collection of its
    /// partition key, or all of them, of an index by another attribute.
    pub fn index_query(
        &mut self,
        index: &SecondaryIndex,
        granted: &GrantedKeys,
    ) -> Result<Query, Problem> {
        let [_, sort] = index.attributes()?;
        let sort_key_type = sort.map_or(SortKeyType::String, |(_, r#type)| r#type);
        if index.is_by_collection() {
            return self.query(sort_key_type, granted);
        }
        if !granted.are_all() {
            let why = format!(
                "the index {} has items of all collections, and KeyGrants does not grant the caller all",
                quoted(&index.name)
            );
            return Err(Problem::key_not_granted(why));
        }
        self.query(sort_key_type, &GrantedKeys::all())
    }

    /// Takes the parameters of a query out, if the caller may touch its partition key.
    pub fn query(
        &mut self,
        sort_key_type: SortKeyType,
        granted: &GrantedKeys,
    ) -> Result<Query, Problem> {
        let partition = self.partition_key(granted)?;
        let mut sort_key = |name: &str| {
            self.take(name).map(|text| SortKey::parse(&text, sort_key_type)).transpose()
        };
        let (from, to) = (sort_key("from")?, sort_key("to")?);
        let range = match (self.take("begins_with"), from, to) {
            (None, None, None) => SortRange::All,
            (None, Some(from), None) => SortRange::From(from),
            (None, None, Some(to)) => SortRange::To(to),
            (None, Some(from), Some(to)) => SortRange::Between(from, to),
            (Some(prefix), None, None) => SortRange::BeginsWith(prefix),
            (Some(_), _, _) => {
                let why = "begins_with does not go together with from or to";
                return Err(Problem::bad_parameter(why.to_owned()));
            }
        };
        let ascending = match self.take("order").as_deref() {
            None | Some("asc") => true,
            Some("desc") => false,
            Some(other) => {
                let why = format!("the order is asc or desc, not {other:?}");
                return Err(Problem::bad_parameter(why));
            }
        };
        let strategy = self.take("strategy").map(|name| name.parse()).transpose()?;
        let limits = format!("a whole number from 1 to {MAX_LIMIT}");
        Ok(Query {
            partition,
            range,
            ascending,
            limit: self.parse("limit", &limits)?.unwrap_or(DEFAULT_LIMIT),
            strategy: strategy.unwrap_or_default(),
            fields: self.fields()?,
            consistency: self.consistency()?,
            cursor: self.take("cursor"),
            start: None,
        })
    }

    /// Refuses what was not taken.
    pub fn finish(self) -> Result<(), Problem> {
        let fields = self.fields.map(|_| "fields".to_owned());
        match self.texts.into_keys().next().or(fields) {
            None => Ok(()),
            Some(name) => {
                Err(Problem::bad_parameter(format!("the parameter {} is unknown", quoted(&name))))
            }
        }
    }
}

fn decode(text: &str) -> Result<String, Problem> {
    let is_escape =
        |digits: &str| digits.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if let Some(malformed) = text.split('%').skip(1).find(|digits| !is_escape(digits)) {
        let shown = malformed.chars().take(2).collect::<String>();
        let why = format!(
            "the query string has the escape {:?}, and not two hexadecimal digits",
            format!("%{shown}")
        );
        return Err(Problem::bad_parameter(why));
    }
    let spaced = text.replace('+', " ");
    percent_decode(spaced.as_bytes()).decode_utf8().map(std::borrow::Cow::into_owned).map_err(
        |_| {
            Problem::bad_parameter(
                "the query string is not UTF-8 once its escapes are decoded".to_owned(),
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Result<Params, String> {
        Params::from_query_string(text).map_err(|p| p.code().to_owned())
    }

    #[test]
    fn escapes_and_plus_are_decoded() {
        let mut params = params("pk=a%2Fb+c%2B%C3%A9&sk=&flag").expect("valid");
        assert_eq!(params.take("pk").as_deref(), Some("a/b c+é"));
        assert_eq!(params.take("sk").as_deref(), Some(""));
        assert_eq!(params.take("flag").as_deref(), Some(""));
        assert!(params.finish().is_ok());
    }

    #[test]
    fn what_could_be_misread_is_refused() {
        for text in
            ["pk=a&pk=b", "pk=%FF", "pk=a&%70k=b", "pk=%zz", "pk=%", "pk=a%2", "%g1=a", "pk=%+1"]
        {
            assert_eq!(params(text), Err("bad_parameter".to_owned()), "{text}");
        }
        assert!(
            params("pk=a&typo=1")
                .and_then(|p| p.finish().map_err(|e| e.code().to_owned()))
                .is_err()
        );
    }

    #[test]
    fn a_json_object_gives_the_same_query() {
        let text =
            "pk=EWR&begins_with=2013-01-02&order=desc&limit=7&consistent=true&strategy=parallel";
        let body = br#"{"pk":"EWR","begins_with":"2013-01-02","order":"desc","limit":7,"consistent":true,"strategy":"parallel","cursor":null}"#;
        let of = |params: Result<Params, Problem>| {
            params.and_then(|mut p| {
                let query = p.query(SortKeyType::String, &GrantedKeys::all())?;
                p.finish().map(|()| query)
            })
        };
        let from_url = of(Params::from_query_string(text)).expect("url");
        assert_eq!(of(Params::from_json(body, SortKeyType::String)).expect("json"), from_url);
    }

    #[test]
    fn regression_a_limit_of_10_0_was_no_whole_number() {
        let limit = |text: &str| {
            let body = format!(r#"{{"pk":"a","limit":{text}}}"#);
            let mut params = Params::from_json(body.as_bytes(), SortKeyType::String)?;
            params.query(SortKeyType::String, &GrantedKeys::all()).map(|query| query.limit)
        };
        for text in ["10", "10.0", "1e1"] {
            assert_eq!(limit(text), Ok(10), "{text}");
        }
        for text in ["10.5", "-10.0", "1e-1", "1e99"] {
            assert_eq!(
                limit(text).map_err(|problem| problem.code()),
                Err("bad_parameter"),
                "{text}"
            );
        }
    }

    #[test]
    fn regression_a_posted_parameter_could_have_any_type() {
        let read = |name: &str, value: &str, sort_key_type| {
            let body = format!(r#"{{"{name}":{value}}}"#);
            Params::from_json(body.as_bytes(), sort_key_type).map_err(|problem| problem.code())
        };
        let values = [("string", "\"1\""), ("number", "1"), ("boolean", "true")];
        for (name, of_strings, of_numbers) in [
            ("pk", "string", "string"),
            ("cursor", "string", "string"),
            ("begins_with", "string", "string"),
            ("order", "string", "string"),
            ("strategy", "string", "string"),
            ("sk", "string", "number"),
            ("from", "string", "number"),
            ("to", "string", "number"),
            ("limit", "number", "number"),
            ("consistent", "boolean", "boolean"),
        ] {
            for (given, value) in values {
                for (sort_key_type, takes) in
                    [(SortKeyType::String, of_strings), (SortKeyType::Number, of_numbers)]
                {
                    let what = format!("{name}: {value} beside sort keys of {sort_key_type:?}");
                    match read(name, value, sort_key_type) {
                        Ok(_) => assert_eq!(given, takes, "{what}"),
                        Err(code) => {
                            assert_ne!(given, takes, "{what}");
                            assert_eq!(code, "bad_parameter", "{what}");
                        }
                    }
                }
            }
        }
    }

    /// It was "not a string", as if a string could have stood there.
    #[test]
    fn regression_an_unknown_member_of_a_posted_query_was_of_a_wrong_type() {
        for value in ["1", "true", "\"a\"", "null", "[]", "{}"] {
            let body = format!(r#"{{"pk":"a","typo":{value}}}"#);
            let mut params = Params::from_json(body.as_bytes(), SortKeyType::String).expect(value);
            params.query(SortKeyType::String, &GrantedKeys::all()).expect("a query");
            let problem = params.finish().expect_err(value);
            let why = "the parameter \"typo\" is unknown";
            assert_eq!((problem.code(), problem.log_detail()), ("bad_parameter", why), "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_query_string_makes_it_panic(text in "\\PC{0,80}", hostile in "[%&=+0-9a-fA-F]{0,40}") {
            for text in [text, hostile, ] {
                if let Ok(mut params) = Params::from_query_string(&text) {
                    let _ = params.query(SortKeyType::Number, &GrantedKeys::all());
                }
            }
        }
    }
}
