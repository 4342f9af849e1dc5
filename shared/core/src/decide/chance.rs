//! With which chance an environment reports to a ledger, so that few of many do.

/// The reports a second that are meant for one collection while it is throttled.
const REPORTS_PER_SEC: f64 = 15.0;

/// The reports that one bucket of a minute is meant to take.
const REPORTS_PER_MINUTE: f64 = 120.0;

/// How many times what is granted a collection has to be asked for before more environments report than are meant to.
const OVERLOAD: f64 = 32.0;

/// The chance with which an environment reports that it was asked for so many units a second and DynamoDB granted it so
/// many, when all environments together are granted `capacity`, which are throttled.
///
/// What is granted to all of them is known, since the shards give no more. So if each reports with a chance
/// proportional to what it was granted, the number of reports is the same however many environments
/// there are and however much they ask for. Where a few are granted everything, the others report by what they are asked for.
/// An environment that was granted nothing counts as if it had been granted
/// a part of a unit in its first second, and less in each further one: three thousand of them send as many reports as all
/// that were granted something.
pub fn under_throttle((asked, granted): (f64, f64), capacity: f64, throttled_secs: f64) -> f64 {
    let least = 0.3 / throttled_secs.clamp(1.0, 4.0);
    let counts = granted.max(asked / OVERLOAD) + least;
    (REPORTS_PER_SEC * counts / capacity.max(1.0)).clamp(0.0, 1.0)
}

/// By how much more or less often an environment reports than [`under_throttle`] says, after it has seen how many reports
/// a second there were. That chance is too small where throttled requests are not granted all that the shards
/// give: beside a hot key.
///
/// All environments see the same number, and follow it a few seconds late. So it has to be far from what is meant.
pub(crate) fn gain(before: f64, reports_per_sec: f64) -> f64 {
    const BOUNDS: (f64, f64) = (0.01, 1_000.0);
    let factor = match reports_per_sec {
        few if few < 1.0 => REPORTS_PER_SEC,
        few if few < REPORTS_PER_SEC / 3.0 => 2.0,
        many if many > REPORTS_PER_SEC * 2.0 => REPORTS_PER_SEC / many,
        _ => 1.0,
    };
    (before * factor).clamp(BOUNDS.0, BOUNDS.1)
}

/// The chance with which an environment reports at rest, if the minute before took so many reports.
pub(crate) fn at_rest(reports: f64, environments: f64) -> f64 {
    let expected = environments.max(reports).max(1.0);
    (REPORTS_PER_MINUTE / expected).clamp(0.0, 1.0)
}

/// Whether a uniformly random number falls within a chance.
pub(crate) fn is_drawn(chance: f64, draw: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a chance needs no more")]
    let draw = draw as f64 / u64::MAX as f64;
    chance >= 1.0 || draw < chance
}
