//! The tables of a time series.

use dynashard_keys::{KeyError, TablePeriod, TimeTables};
use proptest::prelude::*;
use time::macros::date;
use time::{Date, Duration};

fn tables(period: TablePeriod) -> TimeTables {
    TimeTables::new("clicks", period).expect("a prefix")
}

fn between(period: TablePeriod, first: Date, last: Date) -> Vec<String> {
    tables(period).between(first, last).expect("a range").collect()
}

/// `date -u -d 2014-07-09T12:00Z +%F`, `+%G-W%V` and `+%Y-%m`.
#[test]
fn an_instant_has_one_table_of_each_period() {
    for (period, table) in [
        (TablePeriod::Day, "clicks-2014-07-09"),
        (TablePeriod::Week, "clicks-2014-W28"),
        (TablePeriod::Month, "clicks-2014-07"),
    ] {
        assert_eq!(tables(period).at(1_404_907_200).as_deref(), Ok(table));
    }
    let days = tables(TablePeriod::Day);
    for (epoch_secs, table) in
        [(0, "clicks-1970-01-01"), (-1, "clicks-1969-12-31"), (86_399, "clicks-1970-01-01")]
    {
        assert_eq!(days.at(epoch_secs).as_deref(), Ok(table), "{epoch_secs}");
    }
}

/// ISO 8601: the year of a week is that of its Thursday.
#[test]
fn weeks_belong_to_the_year_of_their_thursday() {
    let weeks = tables(TablePeriod::Week);
    for (day, table) in [
        (date!(2014 - 12 - 28), "clicks-2014-W52"),
        (date!(2014 - 12 - 29), "clicks-2015-W01"),
        (date!(2016 - 01 - 03), "clicks-2015-W53"),
        (date!(2016 - 01 - 04), "clicks-2016-W01"),
        (date!(0001 - 01 - 01), "clicks-0001-W01"),
        (date!(9999 - 12 - 31), "clicks-9999-W52"),
    ] {
        assert_eq!(weeks.of(day).as_deref(), Ok(table), "{day}");
    }
}

#[test]
fn a_range_has_the_tables_of_its_first_and_its_last_day() {
    let (first, last) = (date!(2016 - 02 - 28), date!(2016 - 03 - 01));
    assert_eq!(
        between(TablePeriod::Day, first, last),
        ["clicks-2016-02-28", "clicks-2016-02-29", "clicks-2016-03-01"]
    );
    assert_eq!(between(TablePeriod::Week, first, last), ["clicks-2016-W08", "clicks-2016-W09"]);
    assert_eq!(between(TablePeriod::Month, first, last), ["clicks-2016-02", "clicks-2016-03"]);
    assert_eq!(between(TablePeriod::Month, last, last), ["clicks-2016-03"]);
    // The end of what a date can be ends a range, too.
    let end = date!(9999 - 12 - 31);
    assert_eq!(between(TablePeriod::Month, end, end), ["clicks-9999-12"]);
}

#[test]
fn names_that_no_period_has_are_of_no_series() {
    for (period, names) in [
        (
            TablePeriod::Day,
            ["clicks-2014-02-29", "clicks-2014-7-09", "clicks-2014-07", "clicks2014-07-09"],
        ),
        (
            TablePeriod::Week,
            ["clicks-2014-W53", "clicks-2014-W1", "clicks-2014-w28", "clicks-2014-W00"],
        ),
        (
            TablePeriod::Month,
            ["clicks-2014-13", "clicks-+014-07", "clicks-2014-07-09", "click-2014-07"],
        ),
    ] {
        for name in names.into_iter().chain(["clicks", "clicks-", "clicks-archive", "clicks-é", ""])
        {
            assert_eq!(tables(period).number_of(name), None, "{name}");
        }
    }
    for number in [i64::MIN, i64::MAX, -1] {
        for period in TablePeriod::ALL {
            assert_eq!(tables(period).numbered(number), Err(KeyError::DateOutOfRange), "{number}");
        }
    }
}

#[test]
fn bad_prefixes_dates_and_ranges_have_errors() {
    for prefix in ["", "a b", "é", "a/b", &"x".repeat(245)] {
        let error = KeyError::BadTableName { text: prefix.to_owned() };
        assert_eq!(TimeTables::new(prefix, TablePeriod::Day), Err(error));
    }
    assert!(TimeTables::new(&"x".repeat(244), TablePeriod::Day).is_ok());
    let days = tables(TablePeriod::Day);
    for epoch_secs in [i64::MIN, i64::MAX, -62_135_596_801] {
        assert_eq!(days.at(epoch_secs), Err(KeyError::DateOutOfRange), "{epoch_secs}");
    }
    assert_eq!(days.of(date!(0000 - 12 - 31)), Err(KeyError::DateOutOfRange));
    let reversed = days.between(date!(2014 - 07 - 10), date!(2014 - 07 - 09)).map(drop);
    assert_eq!(reversed, Err(KeyError::DatesReversed));
}

proptest! {
    #[test]
    fn the_table_of_each_day_of_a_range_is_in_the_range(
        from in -700_000_i64..2_900_000, days in 0..800_i64, of in 0..800_i64,
        period in proptest::sample::select(&[TablePeriod::Day, TablePeriod::Week, TablePeriod::Month][..]),
    ) {
        let first = date!(1970 - 01 - 01) + Duration::days(from);
        let last = first + Duration::days(days);
        let found = between(period, first, last);
        let of_day = tables(period).of(first + Duration::days(of.min(days))).expect("a day");
        prop_assert!(found.contains(&of_day));
        prop_assert_eq!(found.first().cloned(), tables(period).of(first).ok());
        prop_assert_eq!(found.last().cloned(), tables(period).of(last).ok());
        prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "names sort as time does");
        let numbers = found.iter().map(|name| tables(period).number_of(name).expect("a number"));
        let numbers = numbers.collect::<Vec<_>>();
        prop_assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "neighbours differ by 1");
        for (name, number) in found.iter().zip(&numbers) {
            prop_assert_eq!(&tables(period).numbered(*number).expect("a name"), name);
        }
        let at = (first - date!(1970 - 01 - 01)).whole_seconds();
        prop_assert_eq!(tables(period).number_at(at).ok(), numbers.first().copied());
    }
}
