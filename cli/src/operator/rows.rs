//! Reports as tables for other programs: CSV for spreadsheets, Markdown for issues and chats.

use indexmap::IndexMap;
use serde_json::value::RawValue;

/// An object of JSON, in its own order.
type Members<'a> = IndexMap<String, &'a RawValue>;

/// Values of JSON, as rows of a table.
///
/// An object is a row, and has a column for each value in it, those of nested objects by both names (`reshard.to`).
#[derive(Debug, Default)]
pub(super) struct Rows {
    columns: Vec<String>,
    /// By column. Rows from before a column came up are shorter.
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// Adds a row for this object of JSON, or for each object in its list of this name.
    pub(super) fn add(&mut self, json: &str, list: Option<&str>) {
        let Ok(members) = serde_json::from_str::<Members<'_>>(json) else { return };
        let Some(list) = list else { return self.push(members) };
        let elements = members.get(list).and_then(|list| serde_json::from_str(list.get()).ok());
        for element in elements.unwrap_or_else(Vec::new) {
            self.push(element);
        }
    }

    fn push(&mut self, members: Members<'_>) {
        let mut row = Vec::new();
        self.place(&mut row, "", members);
        self.rows.push(row);
    }

    /// As CSV with a line of names (RFC 4180).
    pub(super) fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Memory takes all that is written.
        let _ = writer.write_record(&self.columns);
        for row in &self.rows {
            let _ = writer.write_record(self.cells(row));
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// As a table of Markdown. One row alone is written downwards.
    pub(super) fn markdown(&self) -> String {
        let names = self.columns.iter().map(String::as_str);
        if let [row] = &self.rows[..] {
            let pairs = names.zip(self.cells(row)).map(|(name, cell)| line([name, cell]));
            return headed(["", "value"]) + &pairs.collect::<String>();
        }
        let lines = self.rows.iter().map(|row| line(self.cells(row)));
        headed(names.collect::<Vec<_>>()) + &lines.collect::<String>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Puts these values into a row, each below its name.
    fn place(&mut self, row: &mut Vec<String>, prefix: &str, members: Members<'_>) {
        for (name, value) in members {
            let name = format!("{prefix}{name}");
            let text = value.get();
            if text.starts_with('{')
                && let Ok(members) = serde_json::from_str(text)
            {
                self.place(row, &format!("{name}."), members);
                continue;
            }
            let cell = match text {
                "null" => String::new(),
                _ => serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned()),
            };
            let at = self.columns.iter().position(|column| *column == name).unwrap_or_else(|| {
                self.columns.push(name);
                self.columns.len() - 1
            });
            row.resize(row.len().max(at + 1), String::new());
            row[at] = cell;
        }
    }

    fn cells<'a>(&'a self, row: &'a [String]) -> impl Iterator<Item = &'a str> {
        (0..self.columns.len()).map(|at| row.get(at).map_or("", String::as_str))
    }
}

/// The line of the names of a Markdown table, and the one below it.
fn headed<'a>(names: impl AsRef<[&'a str]>) -> String {
    let names = names.as_ref();
    line(names.iter().copied()) + &line(names.iter().map(|_| "---"))
}

fn line<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let marked = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', "<br>");
    let cells = cells.into_iter().map(marked).collect::<Vec<_>>();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(reports: &[&str]) -> Rows {
        let mut rows = Rows::default();
        for report in reports {
            rows.add(report, None);
        }
        rows
    }

    #[test]
    fn an_object_is_a_row_with_the_values_of_nested_ones_in_their_order() {
        let rows = rows(&[
            r#"{"pk":"EWR","reshard":{"to":4,"from":1},"note":null}"#,
            r#"{"pk":"a,\"b\"","shards":[1,2],"reshard":{"to":8}}"#,
        ]);
        let expected = "pk,reshard.to,reshard.from,note,shards\n\
                        EWR,4,1,,\n\
                        \"a,\"\"b\"\"\",8,,,\"[1,2]\"\n";
        assert_eq!(rows.csv(), expected);
    }

    #[test]
    fn the_objects_of_a_list_are_rows() {
        let mut rows = Rows::default();
        let report = r#"{"left_out":0,"checks":[{"check":"a","seen":[{"n":1}]},{"check":"b"}]}"#;
        rows.add(report, Some("checks"));
        assert_eq!(rows.csv(), "check,seen\na,\"[{\"\"n\"\":1}]\"\nb,\n");
        rows.add(r#"{"checks":[]}"#, Some("checks"));
        assert_eq!(rows.rows.len(), 2);
    }

    #[test]
    fn a_table_of_markdown_stays_whole_whatever_a_key_is() {
        let rows = rows(&[r#"{"pk":"a|b\nc","n":1}"#, r#"{"pk":"d","n":2}"#]);
        let expected = "| pk | n |\n| --- | --- |\n| a\\|b<br>c | 1 |\n| d | 2 |\n";
        assert_eq!(rows.markdown(), expected);
    }

    #[test]
    fn one_row_alone_is_written_downwards() {
        let rows = rows(&[r#"{"pk":"d","n":2}"#]);
        assert_eq!(rows.markdown(), "|  | value |\n| --- | --- |\n| pk | d |\n| n | 2 |\n");
    }
}
