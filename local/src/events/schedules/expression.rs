//! `rate()` and `cron()` expressions, after "Cron expressions reference" and "Rate expressions
//! reference" of `EventBridge`'s user guide. All times are UTC.

use std::time::{Duration, SystemTime};
use time::{Date, OffsetDateTime, Time};

/// When a schedule fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// At equal distances, the first one such distance after the schedule was made.
    Rate(Duration),
    /// At the minutes that all fields agree on.
    Cron(Cron),
}

impl Expression {
    /// Reads `rate(5 minutes)` or `cron(0 10 * * ? *)`.
    ///
    /// # Errors
    /// A sentence that says what is wrong, or what the local stack does not know.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let argument = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(rate) = argument("rate") {
            return parse_rate(rate).map(Self::Rate);
        }
        if let Some(cron) = argument("cron") {
            return Cron::parse(cron).map(Self::Cron);
        }
        Err(format!("the local stack knows rate(...) and cron(...) expressions, and not {text}"))
    }

    /// The first time after `after` at which a schedule fires that was made at `made`; none if
    /// there is none before the year 2200.
    pub(crate) fn next(&self, made: SystemTime, after: SystemTime) -> Option<SystemTime> {
        match self {
            Self::Rate(period) => {
                let elapsed = after.duration_since(made).unwrap_or_default();
                let periods = elapsed.as_secs() / period.as_secs() + 1;
                made.checked_add(Duration::from_secs(periods.checked_mul(period.as_secs())?))
            }
            Self::Cron(cron) => cron.next(after.into()).map(SystemTime::from),
        }
    }
}

/// A cron expression: minutes, hours, days of the month or of the week, months and years.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cron {
    minutes: Field,
    hours: Field,
    days: Days,
    months: Field,
    years: Field,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Days {
    OfMonth(Field),
    /// Sunday is 1.
    OfWeek(Field),
}

impl Cron {
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, of_month, months, of_week, years] = fields.as_slice() else {
            return Err(format!(
                "a cron expression has six fields, and {text} has {}",
                fields.len()
            ));
        };
        let days = match (*of_month, *of_week) {
            ("?", of_week) if of_week != "?" => Days::OfWeek(Field::parse(of_week, &WEEKDAYS)?),
            (of_month, "?") if of_month != "?" => Days::OfMonth(Field::parse(of_month, &DAYS)?),
            _ => {
                return Err(
                    "one of day-of-month and day-of-week must be ?, and not both".to_owned()
                );
            }
        };
        Ok(Self {
            minutes: Field::parse(minutes, &MINUTES)?,
            hours: Field::parse(hours, &HOURS)?,
            days,
            months: Field::parse(months, &MONTHS)?,
            years: Field::parse(years, &YEARS)?,
        })
    }

    fn next(&self, after: OffsetDateTime) -> Option<OffsetDateTime> {
        let earliest = after.truncate_to_minute().checked_add(time::Duration::MINUTE)?;
        let mut date = earliest.date();
        let mut from = earliest.time();
        while date.year() <= i32::from(YEARS.last) {
            if self.includes(date)
                && let Some(time) = self.time_from(from)
            {
                return Some(date.with_time(time).assume_utc());
            }
            date = date.next_day()?;
            from = Time::MIDNIGHT;
        }
        None
    }

    fn includes(&self, date: Date) -> bool {
        let year = u16::try_from(date.year()).unwrap_or_default();
        self.years.contains(year)
            && self.months.contains(u16::from(u8::from(date.month())))
            && match &self.days {
                Days::OfMonth(days) => days.contains(date.day().into()),
                Days::OfWeek(days) => {
                    days.contains(u16::from(date.weekday().number_days_from_sunday()) + 1)
                }
            }
    }

    /// The first time of a day that is not before `from`.
    fn time_from(&self, from: Time) -> Option<Time> {
        let hours = (from.hour()..24).filter(|hour| self.hours.contains((*hour).into()));
        let mut times = hours.flat_map(|hour| {
            let first = if hour == from.hour() { from.minute() } else { 0 };
            let minutes = (first..60).filter(|minute| self.minutes.contains((*minute).into()));
            minutes.map(move |minute| (hour, minute))
        });
        let (hour, minute) = times.next()?;
        Time::from_hms(hour, minute, 0).ok()
    }
}

/// The values of one field: ranges with a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field(Vec<Steps>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Steps {
    first: u16,
    last: u16,
    step: u16,
}

impl Field {
    fn parse(text: &str, kind: &FieldKind) -> Result<Self, String> {
        text.split(',').map(|part| kind.steps(part)).collect::<Result<_, _>>().map(Self)
    }

    fn contains(&self, value: u16) -> bool {
        self.0.iter().any(|steps| {
            (steps.first..=steps.last).contains(&value)
                && (value - steps.first).is_multiple_of(steps.step)
        })
    }
}

/// What a field may hold.
struct FieldKind {
    name: &'static str,
    first: u16,
    last: u16,
    /// Names of the values from `first` on.
    names: &'static [&'static str],
}

const MINUTES: FieldKind = FieldKind { name: "minutes", first: 0, last: 59, names: &[] };
const HOURS: FieldKind = FieldKind { name: "hours", first: 0, last: 23, names: &[] };
const DAYS: FieldKind = FieldKind { name: "day-of-month", first: 1, last: 31, names: &[] };
const MONTHS: FieldKind = FieldKind {
    name: "month",
    first: 1,
    last: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
const WEEKDAYS: FieldKind = FieldKind {
    name: "day-of-week",
    first: 1,
    last: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};
const YEARS: FieldKind = FieldKind { name: "year", first: 1970, last: 2199, names: &[] };

impl FieldKind {
    /// `*`, `5`, `1-5`, and each of them with a step: `1/10`.
    fn steps(&self, part: &str) -> Result<Steps, String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                let step = step.parse().ok().filter(|step| *step > 0);
                (range, Some(step.ok_or_else(|| self.unknown(part))?))
            }
            None => (part, None),
        };
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (self.first, self.last),
            (_, Some((first, last))) => (self.value(first)?, self.value(last)?),
            // With a step, a value is where the steps begin.
            (value, None) if step.is_some() => (self.value(value)?, self.last),
            (value, None) => (self.value(value)?, self.value(value)?),
        };
        if first > last {
            return Err(self.unknown(part));
        }
        Ok(Steps { first, last, step: step.unwrap_or(1) })
    }

    fn value(&self, text: &str) -> Result<u16, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|index| u16::try_from(index).ok());
        let value = named.map(|index| index + self.first).or_else(|| text.parse().ok());
        let value = value.filter(|value| (self.first..=self.last).contains(value));
        value.ok_or_else(|| self.unknown(text))
    }

    fn unknown(&self, text: &str) -> String {
        format!(
            "{} of a cron expression takes values from {} to {}, with , - * / and without L, W \
             and #, which the local stack does not know; not {text}",
            self.name, self.first, self.last
        )
    }
}

/// `5 minutes`: the unit of one is singular, that of more is plural.
fn parse_rate(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("a rate is such as 1 minute, 5 minutes, 2 hours or 1 day, and not {text}");
    let (value, unit) = text.split_once(' ').ok_or_else(wrong)?;
    let value: u32 = value.parse().ok().filter(|value| *value > 0).ok_or_else(wrong)?;
    let singular = if value == 1 { Some(unit) } else { unit.strip_suffix('s') };
    let unit = match singular {
        Some("minute") => Duration::from_mins(1),
        Some("hour") => Duration::from_hours(1),
        Some("day") => Duration::from_hours(24),
        _ => return Err(wrong()),
    };
    unit.checked_mul(value).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    fn times(expression: &str, made: OffsetDateTime, count: usize) -> Vec<String> {
        let expression = Expression::parse(expression).expect(expression);
        let made = SystemTime::from(made);
        let next = |after: &SystemTime| expression.next(made, *after);
        let times = std::iter::successors(next(&made), next).take(count);
        times.map(|time| crate::events::timestamp_secs(time)[..16].to_owned()).collect()
    }

    #[test]
    fn rates_count_from_the_making_of_the_schedule() {
        let made = datetime!(2026-11-20 10:10:40 UTC);
        assert_eq!(times("rate(1 minute)", made, 2), ["2026-11-20T10:11", "2026-11-20T10:12"]);
        assert_eq!(times("rate(5 minutes)", made, 2), ["2026-11-20T10:15", "2026-11-20T10:20"]);
        assert_eq!(times("rate(12 hours)", made, 2), ["2026-11-20T22:10", "2026-11-21T10:10"]);
        assert_eq!(times("rate(1 day)", made, 1), ["2026-11-21T10:10"]);
        // What was missed, as by a machine that slept, is not made up for.
        let made = SystemTime::from(made);
        let rate = Expression::parse("rate(1 minute)").expect("a rate");
        let late = made + Duration::from_secs(150);
        assert_eq!(rate.next(made, late), Some(made + Duration::from_mins(3)));
    }

    #[test]
    fn cron_expressions_fire_at_the_times_of_the_reference() {
        // A Friday.
        let made = datetime!(2026-11-20 10:10:40 UTC);
        for (expression, expected) in [
            ("cron(0 10 * * ? *)", ["2026-11-21T10:00", "2026-11-22T10:00"]),
            ("cron(15 12 * * ? *)", ["2026-11-20T12:15", "2026-11-21T12:15"]),
            ("cron(0 18 ? * MON-FRI *)", ["2026-11-20T18:00", "2026-11-23T18:00"]),
            ("cron(0 8 1 * ? *)", ["2026-12-01T08:00", "2027-01-01T08:00"]),
            ("cron(0/15 * * * ? *)", ["2026-11-20T10:15", "2026-11-20T10:30"]),
            ("cron(1/10 * * * ? *)", ["2026-11-20T10:11", "2026-11-20T10:21"]),
            ("cron(*/10 * ? * MON-FRI *)", ["2026-11-20T10:20", "2026-11-20T10:30"]),
            ("cron(0/30 20-23/3 ? * mon,4 *)", ["2026-11-23T20:00", "2026-11-23T20:30"]),
            ("cron(0 0 29 FEB ? *)", ["2028-02-29T00:00", "2032-02-29T00:00"]),
            ("cron(59 23 31 12 ? 2030-2032/2)", ["2030-12-31T23:59", "2032-12-31T23:59"]),
            ("cron(0 0 ? * 1 *)", ["2026-11-22T00:00", "2026-11-29T00:00"]),
        ] {
            assert_eq!(times(expression, made, 2), expected, "{expression}");
        }
        assert!(times("cron(0 0 30 2 ? *)", made, 1).is_empty(), "there is no such day");
        assert!(times("cron(0 0 1 1 ? 2020)", made, 1).is_empty(), "that year is over");
    }

    #[test]
    fn expressions_that_would_not_fire_as_on_aws_are_refused() {
        for (expression, expected) in [
            ("every minute", "rate(...) and cron(...) expressions, and not every minute"),
            ("at(2026-11-20T10:00:00)", "and not at(2026-11-20T10:00:00)"),
            ("rate(1 minutes)", "not 1 minutes"),
            ("rate(5 minute)", "not 5 minute"),
            ("rate(0 minutes)", "not 0 minutes"),
            ("rate(1 second)", "not 1 second"),
            ("rate(4294967295 days)", ""),
            ("cron(* * * * *)", "has six fields"),
            ("cron(* * * * * *)", "must be ?"),
            ("cron(* * ? * ? *)", "must be ?"),
            ("cron(60 * * * ? *)", "minutes of a cron expression takes values from 0 to 59"),
            ("cron(0 0 L * ? *)", "L, W and #"),
            ("cron(0 0 3W * ? *)", "not 3W"),
            ("cron(0 0 ? * 3#2 *)", "not 3#2"),
            ("cron(0 0 ? * SAT-SUN *)", "not SAT-SUN"),
            ("cron(0/0 * * * ? *)", "not 0/0"),
            ("cron(1,,2 * * * ? *)", "minutes"),
        ] {
            match Expression::parse(expression) {
                Err(problem) => assert!(problem.contains(expected), "{expression}: {problem}"),
                Ok(parsed) => assert!(expected.is_empty(), "{expression}: {parsed:?}"),
            }
        }
    }
}
