//! A request, apart from the way that it came.

use std::collections::BTreeMap;

use crate::grants::GrantedKeys;
use crate::json;
use crate::params::Params;
use crate::problem::Problem;

/// A request for the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path of the API's route that the request came by.
    pub path: String,
    /// The query string as the client sent it.
    pub raw_query: String,
    /// The headers, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// The partition keys that the caller may touch.
    pub granted: GrantedKeys,
}

impl Request {
    /// The query parameters.
    pub fn params(&self) -> Result<Params, Problem> {
        Params::from_query_string(&self.raw_query)
    }

    /// The partition key and the sort key that the request names in its URL or else in its body, as they came, for the log.
    pub fn named_key(&self) -> [Option<String>; 2] {
        let mut in_url = self.params().unwrap_or_default();
        let in_body = json::object(&self.body).unwrap_or_default();
        ["pk", "sk"].map(|name| {
            let in_body = || match in_body.get(name)? {
                number if json::type_name(number) == "number" => Some(number.get().to_owned()),
                text => serde_json::from_str(text.get()).ok(),
            };
            in_url.take(name).or_else(in_body)
        })
    }

    /// A header's value, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}
