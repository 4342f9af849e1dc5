//! The rows of another table, which are copied to a file beside the state: from there they are imported as any others.

use std::num::NonZeroU32;

use dynashard_aws_operator::{Inspector, KeyAttribute, TableState};
use dynashard_core::Attributes;
use dynashard_keys::SortKeyType;
use futures_util::TryStreamExt;
use futures_util::stream::Stream;

use super::files::INPUT_FAILED;
use super::row::Keys;
use crate::operator::Failure;
use crate::operator::connect::Connection;
use crate::operator::scan::{ReadRate, TableScan, all_segments};

/// Parts of the table that are read side by side.
const SEGMENTS: u32 = 8;

/// A table whose items are copied.
pub(super) struct SourceTable {
    /// What tells it from any other table.
    pub(super) identity: String,
    pub(super) keys: Keys,
    scan: TableScan,
}

impl SourceTable {
    /// Looks at the table's keys.
    pub(super) async fn find(
        connection: &Connection,
        name: &str,
        read_units: Option<NonZeroU32>,
    ) -> Result<Self, Failure> {
        let bad =
            |what: &str| Failure { code: INPUT_FAILED, detail: format!("table {name} {what}") };
        if name == connection.place.main_table {
            return Err(bad("is the main table itself"));
        }
        let (identity, table) = look_at(connection, name).await?;
        let schema = connection.schema().clone();
        let name_of = |key: Option<KeyAttribute>, letter: &str| {
            key.filter(|key| key.letter == letter).map(|key| key.name)
        };
        let partition = name_of(table.partition_key, "S")
            .ok_or_else(|| bad("has a partition key that is not a string"))?;
        let letter = match schema.sort_key_type {
            SortKeyType::String => "S",
            SortKeyType::Number => "N",
        };
        let sort = name_of(table.sort_key, letter).ok_or_else(|| {
            bad(&format!("has no sort key of the type {letter}, as the main table has"))
        })?;
        let scan = TableScan::new(&connection.place.operator, name, ReadRate::new(read_units));
        Ok(Self { identity, keys: Keys { partition, sort, schema }, scan })
    }

    /// All items, page by page.
    pub(super) fn pages(
        &self,
        is_strong: bool,
    ) -> impl Stream<Item = Result<Vec<Attributes>, Failure>> + Unpin + '_ {
        self.scan.pages(all_segments(SEGMENTS).collect(), is_strong).map_ok(|(_, page)| page.items)
    }
}

/// A table, and what tells it from any other: one of another account, and one that had its name before. Servers that
/// stand in for AWS may give all tables one account, so the place is a part of it.
pub(super) async fn look_at(
    connection: &Connection,
    name: &str,
) -> Result<(String, TableState), Failure> {
    let operator = &connection.place.operator;
    let table = Inspector::of(operator).table(name).await;
    let table =
        table.map_err(|e| Failure::connection(format!("DescribeTable of table {name}: {e}")))?;
    Ok((identity_of(name, &operator.place_of_tables(), &table), table))
}

fn identity_of(name: &str, place: &str, table: &TableState) -> String {
    format!("{name} in {place}: {} {}", table.arn, table.identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state was taken for that of any table of the name, so that after a table was made anew the rows
    /// of the one before counted as written.
    #[test]
    fn regression_a_table_that_was_made_anew_was_taken_for_the_one_before() {
        let table = |arn: &str, identity: &str| {
            let (arn, identity) = (arn.to_owned(), identity.to_owned());
            identity_of("Main", "eu-west-1", &TableState { arn, identity, ..TableState::default() })
        };
        let one = table("arn:1", "id-1 100");
        assert_eq!(one, table("arn:1", "id-1 100"));
        assert_ne!(one, table("arn:1", "id-2 200"), "dropped and made again");
        assert_ne!(one, table("arn:2", "id-1 100"), "of another account");
    }
}
