//! Time series: tables that hold a day, a week or a month each. Which they are is read off the tables: their names and tags.

pub(super) mod read;

use std::collections::BTreeMap;

use dynashard_aws_operator::{Operator, SERIES_TAG, SeriesTable, SeriesTables};
use dynashard_core::TableSchema;
use dynashard_keys::{Separator, TablePeriod, TimeTables};

use super::Failure;
use super::patience::patiently;
use super::shell::quoted;

/// A series that is one: its tables have one period, one key, the tag, and no gap between them.
#[derive(Debug)]
pub(super) struct Series {
    /// How its tables are called.
    pub(super) tables: TimeTables,
    /// Those that there are, by the numbers of their periods; at least one.
    pub(super) members: BTreeMap<i64, SeriesTable>,
}

impl Series {
    /// Looks for the tables of a series. Those that are being deleted count as gone.
    pub(super) async fn find(operator: &Operator, name: &str) -> Result<Self, Failure> {
        let tables = SeriesTables::of(operator);
        let prefix = format!("{name}-");
        let names = patiently(async || tables.names().await).await?;
        let mut found = Vec::new();
        for table in names.iter().filter(|table| table.starts_with(&prefix)) {
            found.extend(patiently(async || tables.table(table).await).await?);
        }
        Self::of(name, found)
    }

    /// The series that these tables are, whose names begin with its own.
    pub(super) fn of(name: &str, found: Vec<SeriesTable>) -> Result<Self, Failure> {
        let (mut members, mut period) = (BTreeMap::new(), None);
        for table in found {
            let what = format!("table {}", table.name);
            let is_tagged = table.series.as_deref() == Some(name);
            let Some((of, number)) = period_of(name, &table.name)? else {
                if is_tagged {
                    let why = "has the tag, and its name does not end in a period as in 2026-11, 2026-W47 or 2026-11-22: take \
                               the tag off it";
                    return Err(no_series(name, &format!("{what} {why}")));
                }
                continue;
            };
            if !is_tagged {
                let tag = format!("Key={SERIES_TAG},Value={name}");
                return Err(no_series(
                    name,
                    &format!(
                        "{what} is called like one of its tables and lacks the tag: call it otherwise, or run aws dynamodb \
                         tag-resource --resource-arn {} --tags {}",
                        quoted(&table.state.arn),
                        quoted(&tag)
                    ),
                ));
            }
            if !(table.state.replicas.is_empty() && table.state.vector_indexes.is_empty()) {
                let why = "has replicas or vector indexes, which a series cannot have";
                return Err(no_series(name, &format!("{what} {why}")));
            }
            let before = *period.get_or_insert(of);
            if before != of {
                let (before, of) = (before.as_str(), of.as_str());
                let why = format!("{what} holds a {of}, and others a {before}: a series has one");
                return Err(no_series(name, &why));
            }
            members.insert(number, table);
        }
        let Some(period) = period else {
            let why = "there is no table with its name and a period, as in NAME-2026-11, NAME-2026-W47 or NAME-2026-11-22: make \
                       the first one with the tag";
            return Err(no_series(name, &format!("{why} {SERIES_TAG}={name}")));
        };
        let series = Self { tables: named(name, period)?, members };
        series.check(name)?;
        Ok(series)
    }

    /// The newest table that is not behind this period, or else the oldest one.
    pub(super) fn at(&self, number: i64) -> (i64, &SeriesTable) {
        let mut upto = self.members.range(..=number);
        let found = upto.next_back().or_else(|| self.members.first_key_value());
        let (number, table) = found.expect("a series has a table");
        (*number, table)
    }

    /// Whether the table of this period cannot be used yet.
    pub(super) fn is_being_made(&self, number: i64) -> bool {
        self.members.get(&number).is_some_and(|table| table.state.status == "CREATING")
    }

    /// The number of the newest table.
    pub(super) fn newest(&self) -> i64 {
        self.at(i64::MAX).0
    }

    /// How its tables call and type their keys. Only those can be queried that a main table may have.
    pub(super) fn schema(&self, name: &str) -> Result<TableSchema, Failure> {
        schema_of(self.at(i64::MAX).1).ok_or_else(|| {
            let why = "its tables cannot be queried: that takes a partition key of the type S and a sort key of the type S or N";
            no_series(name, why)
        })
    }

    /// Refuses tables with other keys, and gaps.
    fn check(&self, name: &str) -> Result<(), Failure> {
        let key =
            |table: &SeriesTable| (table.state.partition_key.clone(), table.state.sort_key.clone());
        let mut before: Option<(i64, &SeriesTable)> = None;
        for (number, table) in &self.members {
            if let Some((number_before, table_before)) = before {
                let names = format!("{} and {}", table_before.name, table.name);
                if key(table_before) != key(table) {
                    return Err(no_series(name, &format!("{names} have other keys")));
                }
                if number_before + 1 != *number {
                    let why = "there is a gap: make the tables that are missing, or take the tag off those before it and call \
                               them otherwise";
                    return Err(no_series(name, &format!("between {names} {why}")));
                }
            }
            before = Some((*number, table));
        }
        Ok(())
    }
}

/// The schema by which a table can be read as a main table is, if it can.
pub(super) fn schema_of(table: &SeriesTable) -> Option<TableSchema> {
    let partition_key = table.state.partition_key.as_ref().filter(|key| key.letter == "S")?;
    let sort_key = table.state.sort_key.as_ref()?;
    Some(TableSchema {
        partition_key_name: partition_key.name.clone(),
        sort_key_name: sort_key.name.clone(),
        sort_key_type: sort_key.letter.parse().ok()?,
        separator: Separator::default(),
    })
}

/// The period that a table is called after, and its number.
fn period_of(series: &str, table: &str) -> Result<Option<(TablePeriod, i64)>, Failure> {
    for period in TablePeriod::ALL {
        if let Some(number) = named(series, period)?.number_of(table) {
            return Ok(Some((period, number)));
        }
    }
    Ok(None)
}

fn named(series: &str, period: TablePeriod) -> Result<TimeTables, Failure> {
    TimeTables::new(series, period)
        .map_err(|error| Failure::bad_argument(format!("--series {series:?}: {error}")))
}

/// What was found is not a series.
fn no_series(name: &str, why: &str) -> Failure {
    Failure { code: "not_a_series", detail: format!("{name:?} cannot be used: {why}") }
}

#[cfg(test)]
pub(super) mod tests {
    use dynashard_aws_operator::{KeyAttribute, TableState};

    use super::*;

    /// An active table of the series `events`, on demand.
    pub(in crate::operator) fn table(name: &str) -> SeriesTable {
        let key = |name: &str| Some(KeyAttribute { name: name.to_owned(), letter: "S".to_owned() });
        SeriesTable {
            name: name.to_owned(),
            state: TableState {
                is_active: true,
                status: "ACTIVE".to_owned(),
                class: "STANDARD".to_owned(),
                partition_key: key("pk"),
                sort_key: key("sk"),
                ..TableState::default()
            },
            series: Some("events".to_owned()),
        }
    }

    fn refused(tables: Vec<SeriesTable>) -> String {
        let failure = Series::of("events", tables).expect_err("it is not a series");
        assert_eq!(failure.code, "not_a_series");
        failure.detail
    }

    #[test]
    fn a_series_is_told_by_names_and_tags() {
        let archive = SeriesTable { series: None, ..table("events-archive") };
        let other =
            SeriesTable { series: Some("events-eu".to_owned()), ..table("events-eu-2026-11") };
        let tables = vec![table("events-2026-11"), archive, other, table("events-2026-10")];
        let series = Series::of("events", tables).expect("a series");
        let names = series.members.values().map(|table| table.name.as_str()).collect::<Vec<_>>();
        assert_eq!(
            (series.tables.period(), names),
            (TablePeriod::Month, vec!["events-2026-10", "events-2026-11"])
        );
        let weeks = vec![table("events-2026-W53"), table("events-2027-W01")];
        assert_eq!(
            Series::of("events", weeks).expect("a series").members.len(),
            2,
            "across a year"
        );
    }

    #[test]
    fn tables_that_are_no_series_are_refused() {
        let november = || table("events-2026-11");
        assert!(refused(Vec::new()).contains("dynashard:series=events"));
        assert!(
            refused(vec![november(), table("events-latest")]).contains("events-latest has the tag")
        );
        assert!(refused(vec![november(), table("events-2026-13")]).contains("2026-13 has the tag"));
        let untagged = SeriesTable { series: None, ..table("events-2026-10") };
        assert!(refused(vec![november(), untagged]).contains("tag-resource"));
        assert!(
            refused(vec![november(), table("events-2026-11-01")])
                .contains("a day, and others a month")
        );
        assert!(refused(vec![november(), table("events-2026-09")]).contains("there is a gap"));
        let mut numbers = table("events-2026-10");
        numbers.state.sort_key.as_mut().expect("a key").letter = "N".to_owned();
        assert!(refused(vec![november(), numbers]).contains("other keys"));
        let mut global = table("events-2026-10");
        global.state.replicas.push("eu-west-1".to_owned());
        assert!(refused(vec![november(), global]).contains("replicas"));
        let name = Series::of("a b", vec![november()]).expect_err("no table is called so");
        assert_eq!(name.code, "bad_parameter");
    }
}
