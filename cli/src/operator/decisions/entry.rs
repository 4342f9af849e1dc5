//! A decision as a line, for `dynashard decisions`.

use std::cmp::Ordering;

use dynashard_api::view::DecisionView;
use dynashard_core::{DecisionHistory, DecisionRecord};
use dynashard_keys::PartitionKey;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::operator::output::in_line;

/// One decision, and the collection that it is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) partition: PartitionKey,
    pub(super) record: DecisionRecord,
    /// Its place in the history of the collection, of which the last is the newest.
    place: usize,
}

impl Entry {
    pub(super) fn of(
        partition: &PartitionKey,
        history: &DecisionHistory,
    ) -> impl Iterator<Item = Self> {
        let records = history.records.iter().cloned().enumerate();
        records.map(|(place, record)| Self { partition: partition.clone(), record, place })
    }

    pub(super) fn newest_first(&self, other: &Self) -> Ordering {
        let of = |entry: &Self| (entry.record.last_secs, entry.place);
        of(other).cmp(&of(self)).then_with(|| self.partition.cmp(&other.partition))
    }

    /// All of it, for machines.
    pub(super) fn view(&self) -> DecisionView<'_> {
        DecisionView::new(&self.partition, &self.record)
    }

    /// One line that stands alone.
    pub(super) fn line(&self) -> String {
        self.cells().join("  ")
    }

    fn cells(&self) -> [String; 7] {
        let DecisionRecord { last_secs, diagnosis, demand, capacity, .. } = &self.record;
        let cells = [
            time(*last_secs),
            self.partition.to_string(),
            counts(&self.record),
            done(&self.record),
            diagnosis.clone(),
            format!("{demand}/{capacity}"),
            why(&self.record),
        ];
        // Keys may hold any characters, and each entry is one line.
        cells.map(|text| in_line(&text))
    }
}

/// The entries as lines under a heading, column by column.
pub(super) fn table(entries: &[Entry]) -> Vec<String> {
    let heading = ["TIME", "KEY", "SHARDS", "DONE", "DIAGNOSIS", "DEMAND/CAPACITY", "WHY"];
    let heading = heading.map(str::to_owned);
    let rows = std::iter::once(heading).chain(entries.iter().map(Entry::cells));
    let rows = rows.collect::<Vec<_>>();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = std::array::from_fn::<_, 7, _>(|column| width(column).unwrap_or_default());
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn time(epoch_secs: u64) -> String {
    let moment = i64::try_from(epoch_secs).ok();
    let moment = moment.and_then(|secs| OffsetDateTime::from_unix_timestamp(secs).ok());
    let text = moment.and_then(|moment| moment.format(&Rfc3339).ok());
    // Somebody has edited it by hand.
    text.unwrap_or_else(|| epoch_secs.to_string())
}

fn counts(record: &DecisionRecord) -> String {
    match record.to {
        Some(to) => format!("{} > {to}", record.from),
        None => record.from.to_string(),
    }
}

/// What became of it, in a word or two.
fn done(record: &DecisionRecord) -> String {
    match record.outcome.as_str() {
        "begun" => record.action.clone(),
        "dry_run" => format!("dry_run {}", record.action),
        "nothing_to_do" => record.hindrance.clone().unwrap_or_else(|| "nothing".to_owned()),
        other => other.to_owned(),
    }
}

fn why(record: &DecisionRecord) -> String {
    let DecisionRecord { reason, times, at_secs, .. } = record;
    if *times < 2 {
        return reason.clone();
    }
    format!("{reason} (noted {times} times since {})", time(*at_secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pk: &str, record: DecisionRecord) -> Entry {
        Entry { partition: PartitionKey::new(pk).expect("a key"), record, place: 0 }
    }

    fn record() -> DecisionRecord {
        DecisionRecord {
            at_secs: 1_795_374_531,
            last_secs: 1_795_374_531,
            times: 1,
            diagnosis: "hot_key".to_owned(),
            action: "grow".to_owned(),
            outcome: "begun".to_owned(),
            from: 1,
            to: Some(16),
            demand: 8_000,
            capacity: 1_000,
            reason: "clients ask".to_owned(),
            ..DecisionRecord::default()
        }
    }

    #[test]
    fn a_line_says_when_what_and_why() {
        let line = entry("EWR", record()).line();
        assert_eq!(
            line,
            "2026-11-22T19:08:51Z  EWR  1 > 16  grow  hot_key  8000/1000  clients ask"
        );
        let again = DecisionRecord { times: 3, last_secs: 1_795_374_671, ..record() };
        let line = entry("EWR", again).line();
        assert!(line.starts_with("2026-11-22T19:11:11Z  EWR"), "{line}");
        assert!(line.ends_with("clients ask (noted 3 times since 2026-11-22T19:08:51Z)"), "{line}");
    }

    #[test]
    fn what_was_done_is_a_word_or_two() {
        let of = |outcome: &str, hindrance: Option<&str>| {
            let (outcome, hindrance) = (outcome.to_owned(), hindrance.map(str::to_owned));
            done(&DecisionRecord { outcome, hindrance, ..record() })
        };
        assert_eq!(of("begun", None), "grow");
        assert_eq!(of("dry_run", None), "dry_run grow");
        assert_eq!(of("nothing_to_do", Some("cooldown")), "cooldown");
        assert_eq!(of("nothing_to_do", None), "nothing");
        assert_eq!(of("overtaken", None), "overtaken");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = table(&[entry("EWR", record()), entry("a longer key", record())]);
        let at = |line: &str, text: &str| line.find(text).expect("it is there");
        assert_eq!(at(&lines[0], "SHARDS"), at(&lines[1], "1 > 16"));
        assert_eq!(at(&lines[0], "WHY"), at(&lines[2], "clients"));
        assert!(lines.iter().all(|line| line.trim_end() == line));
    }

    #[test]
    fn a_key_commands_no_terminal_and_begins_no_line() {
        let line = entry("a\n\u{1b}[2Jb", record()).line();
        assert!(line.contains(r"a\n\u{1b}[2Jb") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn a_time_that_no_calendar_has_is_shown_as_it_is() {
        assert_eq!(time(u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn of_two_decisions_in_one_second_the_later_is_newer() {
        let (one, two) = (entry("EWR", record()), Entry { place: 1, ..entry("EWR", record()) });
        assert_eq!(two.newest_first(&one), Ordering::Less);
    }
}
