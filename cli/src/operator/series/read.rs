//! Reads a collection over the tables of a series, one table after the other.

use dynashard_aws_operator::{owner, world_of_plain_table};
use dynashard_core::query::QueryPage;
use dynashard_core::{Code, Directory, Error, Reader, Settings, TableSchema};

use super::Series;
use crate::operator::Failure;
use crate::operator::connect::ConnectArgs;
use crate::operator::patience::patiently;

/// Where a query of a series goes on: a table, and the cursor of the query there, if that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::operator) struct SeriesCursor {
    number: i64,
    of_table: Option<String>,
}

/// The tables of a series that a query has yet to read.
pub(in crate::operator) struct Tables<'a> {
    series: &'a Series,
    schema: TableSchema,
    is_ascending: bool,
    at: Option<SeriesCursor>,
    /// Of the table that is being read.
    reader: Option<Reader>,
}

impl<'a> Tables<'a> {
    /// All of them, in the order of time or against it, or those from a cursor on.
    pub(in crate::operator) fn from(
        series: &'a Series,
        schema: TableSchema,
        is_ascending: bool,
        cursor: Option<&str>,
    ) -> Result<Self, Failure> {
        let at = match cursor {
            None => Some(SeriesCursor::first(series, is_ascending)),
            Some(text) => SeriesCursor::read(text, series, is_ascending)?,
        };
        Ok(Self { series, schema, is_ascending, at, reader: None })
    }

    /// What reads the next page, and the cursor to read it from; `None` at the end of the series.
    pub(in crate::operator) async fn next(
        &mut self,
        connect: &ConnectArgs,
    ) -> Result<Option<(&Reader, Option<String>)>, Failure> {
        // One that is being made holds nothing, and cannot be read yet.
        let is_being_made =
            |at: &SeriesCursor| self.series.members[&at.number].state.status == "CREATING";
        while self.at.as_ref().is_some_and(is_being_made) {
            self.advance();
        }
        let Some(at) = &self.at else { return Ok(None) };
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => reader_of(&self.series.members[&at.number].name, &self.schema, connect).await?,
        };
        Ok(Some((self.reader.insert(reader), at.of_table.clone())))
    }

    /// Takes note of a page that was read. Its cursor becomes one of the series.
    pub(in crate::operator) fn read(&mut self, page: &mut QueryPage) {
        let Some(at) = &mut self.at else { return };
        at.of_table = page.cursor.take();
        if at.of_table.is_none() {
            self.advance();
        }
        page.cursor = self.at.as_ref().map(|at| at.text(self.series));
    }

    /// Goes to the next table, if there is one.
    fn advance(&mut self) {
        self.reader = None;
        let step = if self.is_ascending { 1 } else { -1 };
        let next = self.at.take().map(|at| at.number + step);
        let next = next.filter(|number| self.series.members.contains_key(number));
        self.at = next.map(|number| SeriesCursor { number, of_table: None });
    }
}

impl SeriesCursor {
    fn first(series: &Series, is_ascending: bool) -> Self {
        let number = if is_ascending { series.at(i64::MIN).0 } else { series.newest() };
        Self { number, of_table: None }
    }

    /// No name of a table has a colon.
    fn text(&self, series: &Series) -> String {
        let table = &series.members[&self.number].name;
        format!("{table}:{}", self.of_table.as_deref().unwrap_or_default())
    }

    /// Reads its text; `None` if nothing is left to read. An old table that was deleted since is passed over, and with it
    /// everything before it. The newest one stays.
    fn read(text: &str, series: &Series, is_ascending: bool) -> Result<Option<Self>, Failure> {
        let parts = text.split_once(':');
        let parts = parts.and_then(|(table, rest)| Some((series.tables.number_of(table)?, rest)));
        let Some((number, rest)) = parts else {
            let why = "the cursor is not one of a query of this series";
            return Err(Error::new(Code::BadCursor, why).into());
        };
        if series.members.contains_key(&number) {
            let of_table = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
            return Ok(Some(Self { number, of_table }));
        }
        if number > series.newest() {
            let why = "the cursor is of a table that is newer than all of this series";
            return Err(Error::new(Code::BadCursor, why).into());
        }
        Ok(is_ascending.then(|| Self::first(series, true)))
    }
}

/// What reads a table: as the main table of its stack, if it is one, and by itself if not.
async fn reader_of(
    table: &str,
    schema: &TableSchema,
    connect: &ConnectArgs,
) -> Result<Reader, Failure> {
    let operator = connect.caller.connect().await?;
    let owner = patiently(async || owner(&operator, table, schema).await).await?;
    if let Some(owner) = owner {
        return Ok(connect.of_tables(table, &owner.metadata_table).connect().await?.reader());
    }
    let settings = Settings { schema: schema.clone(), ..Settings::default() };
    let world = world_of_plain_table(&operator, table, schema);
    Ok(Reader::new(Directory::new(world, settings)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::series::tests::table;

    #[test]
    fn a_cursor_goes_on_where_it_was_also_behind_tables_that_are_gone() {
        let tables = ["events-2026-10", "events-2026-11", "events-2026-12"].map(table);
        let series = Series::of("events", tables.to_vec()).expect("a series");
        let read = |text: &str, is_ascending| {
            let cursor = SeriesCursor::read(text, &series, is_ascending)?;
            Ok::<_, Failure>(cursor.map(|cursor| cursor.text(&series)))
        };
        let same = |text: &str| assert_eq!(read(text, true), Ok(Some(text.to_owned())));
        same("events-2026-11:AbC_-");
        same("events-2026-12:");
        let oldest = Ok(Some("events-2026-10:".to_owned()));
        assert_eq!(read("events-2026-08:AbC", true), oldest);
        assert_eq!(read("events-2026-08:AbC", false), Ok(None), "older ones are gone, too");
        for wrong in ["AbC", "other-2026-11:", "events-2026-W11:", ""] {
            assert_eq!(read(wrong, true).map_err(|e| e.code), Err("bad_cursor"), "{wrong}");
        }
        assert_eq!(SeriesCursor::first(&series, false).text(&series), "events-2026-12:");
    }

    #[test]
    fn regression_a_cursor_beyond_the_newest_table_ended_a_query_in_silence() {
        let series = Series::of("events", vec![table("events-2026-11")]).expect("a series");
        for is_ascending in [true, false] {
            let beyond = SeriesCursor::read("events-2026-12:AbC", &series, is_ascending);
            assert_eq!(beyond.map_err(|e| e.code), Err("bad_cursor"));
        }
    }
}
