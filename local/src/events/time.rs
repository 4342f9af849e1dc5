//! Times as AWS writes them in events.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

/// To the second: `2026-11-20T10:10:10Z`.
pub(super) fn timestamp_secs(time: SystemTime) -> String {
    const FORMAT: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::from(time).format(FORMAT).unwrap_or_default()
}

/// To the millisecond: `2026-11-20T10:10:10.123Z`.
pub(super) fn timestamp_millis(time: SystemTime) -> String {
    const FORMAT: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::from(time).format(FORMAT).unwrap_or_default()
}
