//! Tables that each hold a period of a time series.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;

use time::{Date, Month, OffsetDateTime, Weekday};

use crate::KeyError;

/// What one table of a series holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TablePeriod {
    /// A day: `2014-07-09`.
    Day,
    /// A week from Monday to Sunday, by its number in ISO 8601: `2014-W28`. Its year is that of its Thursday.
    Week,
    /// A calendar month: `2014-07`.
    Month,
}

/// A series of tables, each for a period of time: ["Understand Access Patterns for Time Series
/// Data"](https://github.com/awsdocs/amazon-dynamodb-developer-guide/blob/2c0c02836e6acca1b832f33e3534347fbb159e95/doc_source/GuidelinesForTables.md#GuidelinesForTables.TimeSeriesDataAccessPatterns)
/// (an older Amazon DynamoDB Developer Guide). The newest table gets the throughput, and the oldest is deleted as
/// a whole, which costs no write units.
///
/// A table is called `<prefix>-<period>`, days are those of UTC, and names sort as their periods do.
///
/// ```
/// use dynashard_keys::{TablePeriod, TimeTables};
/// use time::macros::date;
///
/// let clicks = TimeTables::new("clicks", TablePeriod::Week)?;
/// assert_eq!(clicks.at(1_404_864_000)?, "clicks-2014-W28"); // 2014-07-09T00:00:00Z
/// let tables = clicks.between(date!(2014 - 12 - 27), date!(2015 - 01 - 05))?;
/// assert_eq!(tables.collect::<Vec<_>>(), ["clicks-2014-W52", "clicks-2015-W01", "clicks-2015-W02"]);
/// # Ok::<(), dynashard_keys::KeyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TimeTables {
    prefix: String,
    period: TablePeriod,
}

impl TablePeriod {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// Its name: `day`, `week` or `month`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

impl TimeTables {
    /// The most characters of a table's name.
    const MAX_NAME: usize = 255;
    /// What `-2014-07-09` adds to the prefix.
    const PERIOD: usize = 11;

    /// Checks that the prefix makes names that DynamoDB takes.
    pub fn new(prefix: &str, period: TablePeriod) -> Result<Self, KeyError> {
        let is_taken = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let lengths = 1..=Self::MAX_NAME - Self::PERIOD;
        if !lengths.contains(&prefix.len()) || !prefix.bytes().all(is_taken) {
            return Err(KeyError::BadTableName { text: prefix.to_owned() });
        }
        Ok(Self { prefix: prefix.to_owned(), period })
    }

    /// The table of an instant, in seconds since the epoch.
    pub fn at(&self, epoch_secs: i64) -> Result<String, KeyError> {
        let instant = OffsetDateTime::from_unix_timestamp(epoch_secs);
        self.of(instant.map_err(|_| KeyError::DateOutOfRange)?.date())
    }

    /// The table of a day.
    pub fn of(&self, day: Date) -> Result<String, KeyError> {
        checked(day).map(|day| self.name(day))
    }

    /// What each of the tables holds.
    pub fn period(&self) -> TablePeriod {
        self.period
    }

    /// The number of the period of an instant, in seconds since the epoch. The numbers of neighbours differ by 1.
    pub fn number_at(&self, epoch_secs: i64) -> Result<i64, KeyError> {
        let instant = OffsetDateTime::from_unix_timestamp(epoch_secs);
        checked(instant.map_err(|_| KeyError::DateOutOfRange)?.date()).map(|day| self.number(day))
    }

    /// The number of the period that a table holds; `None` if its name is not one of this series.
    pub fn number_of(&self, table: &str) -> Option<i64> {
        let text = table.strip_prefix(&*self.prefix)?.strip_prefix('-')?;
        let (year, rest) = (text.get(..4)?.parse().ok()?, text.get(4..)?);
        let month = |text: &str| Month::try_from(text.parse::<u8>().ok()?).ok();
        let begin = match self.period {
            TablePeriod::Day => {
                let (in_year, day) = rest.strip_prefix('-')?.split_once('-')?;
                Date::from_calendar_date(year, month(in_year)?, day.parse().ok()?)
            }
            TablePeriod::Week => {
                let week = rest.strip_prefix("-W")?.parse().ok()?;
                Date::from_iso_week_date(year, week, Weekday::Monday)
            }
            TablePeriod::Month => {
                Date::from_calendar_date(year, month(rest.strip_prefix('-')?)?, 1)
            }
        };
        // A period has one name, and `2014-7` and `+014-07` can be read, too.
        let begin = begin.ok().filter(|begin| self.of(*begin).as_deref() == Ok(table))?;
        Some(self.number(begin))
    }

    /// The table of the period with this number.
    pub fn numbered(&self, number: i64) -> Result<String, KeyError> {
        self.of(self.begin_of(number)?)
    }

    /// When the period with this number begins, in seconds since the epoch: the one before it has ended then.
    pub fn begins_at(&self, number: i64) -> Result<i64, KeyError> {
        Ok(self.begin_of(number)?.midnight().assume_utc().unix_timestamp())
    }

    fn begin_of(&self, number: i64) -> Result<Date, KeyError> {
        let julian = |day: i64| Date::from_julian_day(i32::try_from(day).ok()?).ok();
        let begin = match self.period {
            TablePeriod::Day => julian(number),
            TablePeriod::Week => number.checked_mul(7).and_then(julian),
            TablePeriod::Month => {
                let month = u8::try_from(number.rem_euclid(12) + 1).ok();
                let month = month.and_then(|month| Month::try_from(month).ok());
                let year = i32::try_from(number.div_euclid(12)).ok();
                year.zip(month)
                    .and_then(|(year, month)| Date::from_calendar_date(year, month, 1).ok())
            }
        };
        begin.ok_or(KeyError::DateOutOfRange)
    }

    /// The tables from one day to another, both included, in the order of time.
    pub fn between(
        &self,
        first: Date,
        last: Date,
    ) -> Result<impl Iterator<Item = String>, KeyError> {
        let (first, last) = (checked(first)?, checked(last)?);
        if first > last {
            return Err(KeyError::DatesReversed);
        }
        let (first, last) = (self.number(first), self.number(last));
        Ok((first..=last).filter_map(|number| self.numbered(number).ok()))
    }

    fn number(&self, day: Date) -> i64 {
        match self.period {
            TablePeriod::Day => day.to_julian_day().into(),
            // Day 0 is a Monday.
            TablePeriod::Week => day.to_julian_day().div_euclid(7).into(),
            TablePeriod::Month => i64::from(day.year()) * 12 + i64::from(u8::from(day.month())) - 1,
        }
    }

    fn name(&self, day: Date) -> String {
        let period = fmt::from_fn(|f| match self.period {
            TablePeriod::Day => {
                write!(f, "{:04}-{:02}-{:02}", day.year(), u8::from(day.month()), day.day())
            }
            TablePeriod::Week => {
                let (year, week, _) = day.to_iso_week_date();
                write!(f, "{year:04}-W{week:02}")
            }
            TablePeriod::Month => write!(f, "{:04}-{:02}", day.year(), u8::from(day.month())),
        });
        format!("{}-{period}", self.prefix)
    }
}

/// A day whose year has at most four digits and no sign.
fn checked(day: Date) -> Result<Date, KeyError> {
    if (1..=9_999).contains(&day.year()) { Ok(day) } else { Err(KeyError::DateOutOfRange) }
}
