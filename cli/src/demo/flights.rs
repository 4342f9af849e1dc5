//! The real input: every flight that left New York's airports in January 2013 (see data/README.md).

use std::collections::BTreeMap;

use flate2::read::GzDecoder;
use serde_json::{Map, Number, Value};
use thiserror::Error;

static FLIGHTS: &[u8] = include_bytes!("../../../data/flights-2013-01.csv.gz");

/// One flight: the key that it is stored under, and its item as the API takes and returns it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flight {
    /// The airport of departure: one of three hot partition keys.
    pub(crate) pk: String,
    /// `<time_hour>#<carrier><flight>`: unique, and growing with time.
    pub(crate) sk: String,
    /// All columns that are not empty, with `pk` and `sk`.
    pub(crate) item: Value,
}

#[derive(Debug, Error)]
#[error("the flights that ship with dynashard cannot be read: {0}")]
pub(crate) struct BadData(String);

/// All flights in the order of the file.
pub(crate) fn load() -> Result<Vec<Flight>, BadData> {
    let mut reader = csv::Reader::from_reader(GzDecoder::new(FLIGHTS));
    let headers = reader.headers().map_err(|e| BadData(e.to_string()))?.clone();
    reader
        .records()
        .map(|record| {
            let record = record.map_err(|e| BadData(e.to_string()))?;
            let column = headers.iter().zip(record.iter()).collect::<BTreeMap<_, _>>();
            let get = |name: &str| {
                column.get(name).copied().ok_or_else(|| BadData(format!("no column {name}")))
            };
            let pk = get("origin")?.to_owned();
            let sk = format!("{}#{}{}", get("time_hour")?, get("carrier")?, get("flight")?);
            let mut item = Map::new();
            item.insert("pk".to_owned(), Value::from(pk.clone()));
            item.insert("sk".to_owned(), Value::from(sk.clone()));
            // An empty field is a missing value.
            for (name, text) in column.iter().filter(|(_, text)| !text.is_empty()) {
                let value =
                    text.parse::<Number>().map_or_else(|_| Value::from(*text), Value::Number);
                item.insert((*name).to_owned(), value);
            }
            Ok(Flight { pk, sk, item: Value::Object(item) })
        })
        .collect()
}

/// The flights of each airport by sort key, as they must come back.
pub(crate) fn by_key(flights: &[Flight]) -> BTreeMap<&str, BTreeMap<&str, &Value>> {
    let mut collections = BTreeMap::<_, BTreeMap<_, _>>::new();
    for flight in flights {
        collections.entry(flight.pk.as_str()).or_default().insert(flight.sk.as_str(), &flight.item);
    }
    collections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flight_has_a_key_of_its_own() {
        let flights = load().expect("data");
        assert_eq!(flights.len(), 27_004);
        let collections = by_key(&flights);
        assert_eq!(collections.keys().copied().collect::<Vec<_>>(), ["EWR", "JFK", "LGA"]);
        assert_eq!(collections.values().map(BTreeMap::len).sum::<usize>(), flights.len());
    }

    #[test]
    fn numbers_are_numbers_and_empty_fields_are_missing() {
        let flights = load().expect("data");
        let first = &flights[0];
        assert_eq!((first.pk.as_str(), first.sk.as_str()), ("EWR", "2013-01-01T10:00:00Z#UA1545"));
        assert_eq!(first.item["distance"], 1_400);
        assert_eq!(first.item["tailnum"], "N14228");
        assert!(
            flights.iter().any(|flight| flight.item.get("dep_time").is_none()),
            "cancelled flights"
        );
    }
}
