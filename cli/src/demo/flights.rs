//! The real input: every flight that left New York's airports in January 2013 (see data/README.md),
//! and the same month again and again for runs that need more.

use std::collections::BTreeMap;

use flate2::read::GzDecoder;
use serde_json::{Map, Number, Value};
use thiserror::Error;
use time::macros::format_description;
use time::{Date, Duration};

static FLIGHTS: &[u8] = include_bytes!("../../../data/flights-2013-01.csv.gz");

/// Days from a flight to its repetition: the file covers less, so that no sort key repeats.
const MONTH_DAYS: i64 = 31;

/// One flight: the key that it is stored under, and its item as the API takes and returns it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flight {
    /// `<time_hour>#<carrier><flight>`: unique at its airport, and growing with time.
    pub(crate) sk: String,
    /// All columns that are not empty, with `pk` and `sk`.
    pub(crate) item: Map<String, Value>,
}

/// All departures of one airport, without an end: one hot partition key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Airport {
    /// The partition key.
    pub(crate) code: String,
    /// Those of the file, by sort key.
    flights: Vec<Departure>,
}

/// A flight of the file, ready to be moved to another month.
#[derive(Debug, Clone, PartialEq)]
struct Departure {
    date: Date,
    /// What follows the date in `time_hour`.
    hour: String,
    /// What follows `time_hour` in the sort key.
    number: String,
    item: Map<String, Value>,
}

#[derive(Debug, Error)]
#[error("the flights that ship with dynashard cannot be read: {0}")]
pub(crate) struct BadData(String);

impl Airport {
    /// Flight number `number`, from 0, in the order of sort keys. Behind the end of the file its
    /// month begins again, [`MONTH_DAYS`] later.
    pub(crate) fn flight(&self, number: usize) -> Flight {
        let departure = &self.flights[number % self.flights.len()];
        let months = i64::try_from(number / self.flights.len()).unwrap_or(i64::MAX);
        let days = Duration::days(months.saturating_mul(MONTH_DAYS));
        let date = departure.date.saturating_add(days);
        let time_hour = format!("{date}{}", departure.hour);
        let sk = format!("{time_hour}{}", departure.number);
        let mut item = departure.item.clone();
        item.insert("time_hour".to_owned(), Value::from(time_hour));
        item.insert("sk".to_owned(), Value::from(sk.clone()));
        Flight { sk, item }
    }
}

/// The airports of the file, the busiest first.
pub(crate) fn load() -> Result<Vec<Airport>, BadData> {
    let mut reader = csv::Reader::from_reader(GzDecoder::new(FLIGHTS));
    let headers = reader.headers().map_err(|e| BadData(e.to_string()))?.clone();
    let mut airports = BTreeMap::<String, Vec<Departure>>::new();
    for record in reader.records() {
        let record = record.map_err(|e| BadData(e.to_string()))?;
        let columns = headers.iter().zip(record.iter()).collect::<BTreeMap<_, _>>();
        let (origin, departure) = departure(&columns)?;
        airports.entry(origin).or_default().push(departure);
    }
    let mut airports = airports
        .into_iter()
        .map(|(code, mut flights)| {
            flights.sort_by_cached_key(|flight| flight.item["sk"].to_string());
            Airport { code, flights }
        })
        .collect::<Vec<_>>();
    airports.sort_by_key(|airport| std::cmp::Reverse(airport.flights.len()));
    Ok(airports)
}

/// One line of the file, and its airport.
fn departure(columns: &BTreeMap<&str, &str>) -> Result<(String, Departure), BadData> {
    let get =
        |name: &str| columns.get(name).copied().ok_or_else(|| BadData(format!("no column {name}")));
    let (origin, time_hour) = (get("origin")?, get("time_hour")?);
    let (date, hour) = time_hour.split_at_checked(10).unwrap_or((time_hour, ""));
    let date = Date::parse(date, format_description!("[year]-[month]-[day]"))
        .map_err(|e| BadData(format!("time_hour {time_hour}: {e}")))?;
    let number = format!("#{}{}", get("carrier")?, get("flight")?);
    let mut item = Map::new();
    item.insert("pk".to_owned(), Value::from(origin));
    item.insert("sk".to_owned(), Value::from(format!("{time_hour}{number}")));
    // An empty field is a missing value.
    for (name, text) in columns.iter().filter(|(_, text)| !text.is_empty()) {
        let value = text.parse::<Number>().map_or_else(|_| Value::from(*text), Value::Number);
        item.insert((*name).to_owned(), value);
    }
    Ok((origin.to_owned(), Departure { date, hour: hour.to_owned(), number, item }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sort_keys_grow_and_never_repeat_through_three_months() {
        for airport in load().expect("data") {
            let keys = (0..3 * airport.flights.len()).map(|n| airport.flight(n).sk);
            let keys = keys.collect::<Vec<_>>();
            assert!(keys.is_sorted_by(|a, b| a < b), "{}", airport.code);
        }
    }

    #[test]
    fn the_first_month_is_the_file_itself() {
        let airports = load().expect("data");
        let sizes = airports.iter().map(|airport| (airport.code.as_str(), airport.flights.len()));
        assert_eq!(sizes.collect::<Vec<_>>(), [("EWR", 9_893), ("JFK", 9_161), ("LGA", 7_950)]);
        for airport in &airports {
            for (number, departure) in airport.flights.iter().enumerate() {
                assert_eq!(airport.flight(number).item, departure.item);
            }
        }
    }

    #[test]
    fn a_repeated_flight_leaves_a_month_later_and_is_the_same_otherwise() {
        let airports = load().expect("data");
        let (first, again) = (airports[0].flight(0), airports[0].flight(airports[0].flights.len()));
        assert_eq!(first.sk, "2013-01-01T10:00:00Z#UA1545");
        assert_eq!(again.sk, "2013-02-01T10:00:00Z#UA1545");
        assert_eq!(again.item["time_hour"], "2013-02-01T10:00:00Z");
        assert_eq!(again.item["sk"], again.sk.as_str());
        assert_eq!(again.item["dep_time"], first.item["dep_time"]);
    }

    #[test]
    fn numbers_are_numbers_and_empty_fields_are_missing() {
        let airports = load().expect("data");
        let first = airports[0].flight(0);
        assert_eq!(first.item["distance"], 1_400);
        assert_eq!(first.item["tailnum"], "N14228");
        assert!(
            airports[0].flights.iter().any(|flight| !flight.item.contains_key("dep_time")),
            "cancelled flights"
        );
    }
}
