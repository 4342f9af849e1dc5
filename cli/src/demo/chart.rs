//! The run as a picture: for each key what was offered and absorbed, and what its shards could take; and below that what
//! was refused.

use dynashard_planning::figure::number;
use plotters::prelude::*;

use super::history::{History, Rates};
use crate::numbers::float;
use crate::operator::drawing::{
    ABSORBED, Area, CAPACITY, DEMAND, Failed, Panel, REFUSED, X_LABELS, axes, end_labels, steps,
    svg,
};

const HEIGHT_OF_KEY: u32 = 130;
const HEIGHT_OF_REFUSED: u32 = 100;

/// What is left free beside the panels for the names of the lines.
const RIGHT: u32 = 130;

/// Samples further apart than this have a pause between them.
const PAUSE_SECS: f64 = 2.0;

/// What is shown of the time after the last offer.
const AFTER_LOAD_SECS: f64 = 3.0;

/// The chart as an SVG, with a line below its title.
pub(super) fn draw(history: &History, shows: &str) -> Result<String, String> {
    let until = until(history);
    let keys = u32::try_from(history.keys.len()).unwrap_or(0);
    let height = HEIGHT_OF_KEY * keys + HEIGHT_OF_REFUSED + X_LABELS;
    svg(height, (&title(history), shows), |area| {
        let mut rest = area.clone();
        for key in 0..history.keys.len() {
            let (panel, below) = rest.split_vertically(HEIGHT_OF_KEY);
            rest = below;
            draw_key(&panel, history, key, until)?;
        }
        draw_refused(&rest, history, until)
    })
}

/// When the last sample is shown.
fn until(history: &History) -> f64 {
    seen(history, history.load_secs() + AFTER_LOAD_SECS).last().map_or(1.0, |(at, _)| at.max(1.0))
}

/// What the run shows.
fn title(history: &History) -> String {
    let offered = history.keys.iter().map(|(_, rate)| f64::from(*rate)).sum::<f64>();
    let offered = number(offered);
    match history.relieved_secs() {
        Some(secs) => {
            format!("{secs:.0} s after the first write all {offered} writes/s are absorbed")
        }
        None => format!("Not all of the {offered} writes/s are absorbed in the end"),
    }
}

fn draw_key(area: &Area<'_>, history: &History, key: usize, until: f64) -> Result<(), Failed> {
    let offered = rates(history, until, Some(key), |rates| rates.offered);
    let absorbed = rates(history, until, Some(key), |rates| rates.absorbed);
    let capacity = seen(history, until).map(|(at, sample)| (at, history.capacity(sample, key)));
    let capacity = steps(&capacity.collect::<Vec<_>>());
    let top = [&offered, &absorbed, &capacity].into_iter().flatten();
    let top = top.map(|(_, rate)| *rate).fold(0.0, f64::max);
    let end = capacity.last().map_or(0.0, |(_, rate)| *rate);
    let (name, wanted) = &history.keys[key];
    let heading = format!("{name}: {}", growth(history, key));
    let panel = Panel { heading: &heading, x: "", range: 0.0..until, top, right: RIGHT };
    let mut chart = axes(area, &panel)?;
    chart.draw_series(AreaSeries::new(absorbed, 0.0, ABSORBED.mix(0.75)))?;
    chart.draw_series(LineSeries::new(capacity, CAPACITY.stroke_width(3)))?;
    chart.draw_series(DashedLineSeries::new(offered, 7, 4, DEMAND.stroke_width(2)))?;
    let wanted = f64::from(*wanted);
    let ends = vec![
        (end, format!("capacity {}", number(end))),
        (wanted, format!("offered {}", number(wanted))),
        (wanted / 3.0, "absorbed".to_owned()),
    ];
    end_labels(&mut chart, ends)
}

/// How the shards of a key came, in words.
fn growth(history: &History, key: usize) -> String {
    let steps = history.steps(key);
    let counts = steps.iter().map(|step| step.shards.to_string()).collect::<Vec<_>>();
    let at = steps.last().filter(|_| steps.len() > 1);
    let at = at.map_or_else(String::new, |last| format!(" at {:.0} s", last.at_secs));
    let reshards = history.reshards(key);
    let moved = reshards.iter().map(|reshard| reshard.items_moved).sum::<u64>();
    let closed = reshards.last().and_then(|last| last.closed_secs).filter(|_| moved > 0);
    let moved = closed.map_or_else(String::new, |closed| {
        format!("; {} items moved by {closed:.0} s", number(float(moved)))
    });
    format!("{} shards{at}{moved}", counts.join(" → "))
}

/// What DynamoDB refused, which is more than was offered: each try counts.
fn draw_refused(area: &Area<'_>, history: &History, until: f64) -> Result<(), Failed> {
    let refused = rates(history, until, None, |rates| rates.throttled);
    let top = refused.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let panel = Panel {
        heading: "All keys: refused tries a second, to a scale of their own",
        x: "seconds since the first write",
        range: 0.0..until,
        top,
        right: RIGHT,
    };
    let mut chart = axes(area, &panel)?;
    chart.draw_series(AreaSeries::new(refused, 0.0, REFUSED))?;
    Ok(())
}

/// The samples that are shown, and when each was taken.
fn seen(history: &History, until: f64) -> impl Iterator<Item = (f64, usize)> {
    let all = history.samples.iter().enumerate();
    all.map(|(sample, seen)| (seen.at.as_secs_f64(), sample))
        .take_while(move |(at, _)| *at <= until)
}

/// A rate of one key or of all over time.
fn rates(
    history: &History,
    until: f64,
    key: Option<usize>,
    of: fn(&Rates) -> f64,
) -> Vec<(f64, f64)> {
    let mut points = Vec::<(f64, f64)>::new();
    for (at, sample) in seen(history, until) {
        let rate = of(&history.rates_at(sample, key));
        // While flights are read back nothing is sampled: the mean holds for all of that time.
        let before = points.last().map(|(before, _)| *before);
        points.extend(before.filter(|before| at - before > PAUSE_SECS).map(|at| (at, rate)));
        points.push((at, rate));
    }
    points
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use dynashard_core::Phase;
    use dynashard_keys::ShardCount;

    use super::super::history::{Collection, KeySample, Sample};
    use super::super::offer::Counts;
    use super::*;

    fn count(n: u32) -> ShardCount {
        ShardCount::new(n).expect("a count")
    }

    /// A key whose shards double every five seconds.
    fn history(seconds: u32) -> History {
        let samples = (0..seconds).map(|second| {
            let shards = 1 << (second / 5).min(4);
            let offered = u64::from(second) * 1_600;
            let counts = Counts { offered, absorbed: offered / 2, ..Counts::default() };
            let phase = match second % 5 {
                3 => Phase::Forward { from: count(shards), to: count(2 * shards) },
                4 => Phase::Move { from: count(shards), to: count(2 * shards) },
                _ => Phase::Stable,
            };
            let collection = Collection { shards, phase, moved: 0 };
            Sample {
                at: Duration::from_secs(u64::from(second)),
                keys: vec![KeySample { counts, collection }],
                throttles: BTreeMap::from([("hot".to_owned(), u64::from(second) * 900)]),
                operations: BTreeMap::new(),
                alarms: BTreeMap::new(),
            }
        });
        History {
            partition_wcu: 200,
            keys: vec![("EWR".to_owned(), 1_600)],
            samples: samples.collect(),
        }
    }

    #[test]
    fn the_picture_says_what_it_shows() {
        let svg = draw(&history(30), "three <keys>").expect("drawn");
        let words = [
            "Not all of the 1,600 writes/s are absorbed in the end",
            "three &lt;keys&gt;",
            "EWR: 1 → 2 → 4 → 8 → 16 shards at 20 s",
            "capacity 3,200",
            "offered 1,600",
            "absorbed",
            "refused tries a second",
            "seconds since the first write",
        ];
        for words in words {
            assert!(svg.contains(words), "no {words:?} in {svg}");
        }
    }

    #[test]
    fn a_run_without_samples_is_an_empty_chart() {
        assert!(draw(&history(0), "").is_ok());
    }

    #[test]
    fn regression_half_of_the_picture_was_time_without_a_load() {
        let mut history = history(10);
        let last = history.samples[9].clone();
        let later =
            (10..90).map(|second| Sample { at: Duration::from_secs(second), ..last.clone() });
        history.samples.extend(later);
        assert!((until(&history) - 12.0).abs() < 1e-9);
    }

    #[test]
    fn regression_a_pause_between_samples_was_drawn_as_a_slow_fall() {
        let mut history = history(3);
        let last = history.samples[2].clone();
        history.samples.push(Sample { at: Duration::from_secs(10), ..last });
        let points = rates(&history, 10.0, None, |rates| rates.offered);
        assert_eq!(points[2..], [(2.0, 1_600.0), (2.0, 0.0), (10.0, 0.0)]);
    }
}
