//! Time series: tables that hold a day, a week or a month each. Which they are is read off the tables: their names and tags.

pub(super) mod read;

use std::collections::BTreeMap;

use dynashard_aws_operator::{SERIES_TAG, SeriesTable, SeriesTables};
use dynashard_core::TableSchema;
use dynashard_keys::{Separator, TablePeriod, TimeTables};

use super::Failure;
use super::patience::patiently;
use super::shell::quoted;

/// A series: its tables have one period, one key, the tag, and no gap between them.
#[derive(Debug)]
pub(super) struct Series {
    /// How its tables are called.
    pub(super) tables: TimeTables,
    /// Those that there are, by the numbers of their periods; at least one. New ones may lack the tag, while it does not show.
    pub(super) members: BTreeMap<i64, SeriesTable>,
    /// Why other tables, which are older or have other names, are not among them, and should be.
    pub(super) wrong: Vec<Failure>,
}

impl Series {
    /// Looks for the tables of a series. Those that are being deleted count as gone.
    pub(super) async fn find(tables: &SeriesTables, name: &str) -> Result<Self, Failure> {
        let prefix = format!("{name}-");
        let names = patiently(async || tables.names().await).await?;
        let mut found = Vec::new();
        for table in names.iter().filter(|table| table.starts_with(&prefix)) {
            found.extend(patiently(async || tables.table(table).await).await?);
        }
        Self::of(name, found)
    }

    /// The series that these tables are, whose names begin with its own. Fails if its newest tables, which the next ones are made
    /// like, are not told for certain.
    pub(super) fn of(name: &str, found: Vec<SeriesTable>) -> Result<Self, Failure> {
        let (mut members, mut wrong) = (BTreeMap::new(), Vec::new());
        let (mut others, mut period) = (Vec::new(), None);
        for table in found {
            let is_tagged = table.series.as_deref() == Some(name);
            match period_of(name, &table.name)? {
                Some((of, number)) if is_tagged => {
                    let before = *period.get_or_insert(of);
                    if before != of {
                        let (table, before, of) = (&table.name, before.as_str(), of.as_str());
                        let why = format!(
                            "table {table} holds a {of}, and others a {before}: a series has one"
                        );
                        return Err(no_series(name, &why));
                    }
                    members.insert(number, table);
                }
                Some((of, number)) => others.push((of, number, table)),
                None if is_tagged => {
                    let why = "has the tag, and its name does not end in a period as in 2026-11, 2026-W47 or 2026-11-22: take \
                               the tag off it";
                    wrong.push(no_series(name, &format!("table {} {why}", table.name)));
                }
                None => {}
            }
        }
        let newest = members.keys().next_back().copied();
        for (of, number, table) in others {
            let is_of_period = period == Some(of);
            if is_of_period && table.series.is_none() && table.state.status == "CREATING" {
                members.insert(number, table);
                continue;
            }
            let lacks_tag = no_series(name, &lacks_tag(name, &table));
            if period.is_none() || is_of_period && Some(number) > newest {
                return Err(lacks_tag);
            }
            if table.series.is_none() {
                wrong.push(lacks_tag);
            }
        }
        let Some(period) = period else {
            let why = "no table is called by its name and a period, as in NAME-2026-11, NAME-2026-W47 or NAME-2026-11-22: make \
                       the first one with the tag";
            return Err(no_series(name, &format!("{why} {SERIES_TAG}={name}")));
        };
        let mut series = Self { tables: named(name, period)?, members, wrong };
        series.check(name)?;
        Ok(series)
    }

    /// The series, if nothing is wrong with it.
    pub(super) fn whole(mut self) -> Result<Self, Failure> {
        self.wrong.pop().map_or(Ok(self), Err)
    }

    /// The newest table that is not behind this period, or else the oldest one.
    pub(super) fn at(&self, number: i64) -> (i64, &SeriesTable) {
        let mut upto = self.members.range(..=number);
        let found = upto.next_back().or_else(|| self.members.first_key_value());
        let (number, table) = found.expect("a series has a table");
        (*number, table)
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

    /// Leaves out what is older than a gap, or than a table that cannot be one of a series with those behind it.
    fn check(&mut self, name: &str) -> Result<(), Failure> {
        let key = |table: &SeriesTable| {
            let state = &table.state;
            (state.partition_key.clone(), state.sort_key.clone())
        };
        let mut newer: Option<(i64, &SeriesTable)> = None;
        let mut from = i64::MIN;
        for (number, table) in self.members.iter().rev() {
            let names = newer.map(|(_, newer)| format!("{} and {}", table.name, newer.name));
            let names = names.unwrap_or_default();
            let why = if !(table.state.replicas.is_empty() && table.state.vector_indexes.is_empty())
            {
                let why = "has replicas or vector indexes, which a series cannot have";
                format!("table {} {why}", table.name)
            } else if newer.is_some_and(|(_, newer)| key(newer) != key(table)) {
                format!("{names} have other keys")
            } else if newer.is_some_and(|(newer, _)| newer - 1 != *number) {
                format!("between {names} there is a gap: make the tables that are missing")
            } else {
                newer = Some((*number, table));
                continue;
            };
            self.wrong.push(no_series(name, &why));
            from = number + 1;
            break;
        }
        self.members = self.members.split_off(&from);
        if self.members.is_empty() { Err(self.wrong.remove(0)) } else { Ok(()) }
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

/// A table is called like one of a series and is not.
fn lacks_tag(name: &str, table: &SeriesTable) -> String {
    format!(
        "table {} is called like one of its tables and lacks the tag: run aws dynamodb tag-resource --resource-arn {} --tags {}, or \
         with another value if it is to be left out",
        table.name,
        quoted(&table.state.arn),
        quoted(&format!("Key={SERIES_TAG},Value={name}"))
    )
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
            like: None,
        }
    }

    fn refused(tables: Vec<SeriesTable>) -> String {
        let series = Series::of("events", tables).and_then(Series::whole);
        let failure = series.expect_err("it is not a series");
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
    #[test]
    fn regression_one_wrong_old_table_kept_the_next_one_from_being_made() {
        let tables = |others: Vec<SeriesTable>| {
            let tables = ["events-2026-10", "events-2026-11"].map(table);
            let series = Series::of("events", tables.into_iter().chain(others).collect());
            series.map(|series| (series.members.into_keys().count(), series.wrong.len()))
        };
        let untagged = |name| SeriesTable { series: None, ..table(name) };
        assert_eq!(tables(vec![table("events-2026-08")]), Ok((2, 1)), "a gap");
        assert_eq!(tables(vec![untagged("events-2026-09")]), Ok((2, 1)));
        assert_eq!(tables(vec![table("events-latest")]), Ok((2, 1)));
        let left_out = SeriesTable { series: Some("kept".to_owned()), ..table("events-2026-09") };
        assert_eq!(tables(vec![left_out]), Ok((2, 0)));
        assert!(tables(vec![untagged("events-2026-12")]).is_err(), "it is in the way");
    }

    #[test]
    fn regression_a_table_that_is_being_made_was_refused_while_its_tags_did_not_show() {
        let mut new = SeriesTable { series: None, ..table("events-2026-12") };
        new.state.status = "CREATING".to_owned();
        let series = Series::of("events", vec![table("events-2026-11"), new]).expect("a series");
        assert_eq!((series.members.len(), series.wrong.len()), (2, 0));
    }
}
