//! What was offered, and what each strategy absorbed, as a picture.

use dynashard_planning::simulation::{Run, Second};
use plotters::prelude::*;

use crate::operator::drawing::{Area, COLORS, Failed, INK, Words, axes, legend, sample_of, svg};
use crate::operator::keys::spread::float;

/// Size in CSS pixels.
const SIZE: (u32, u32) = (960, 460);

/// Points of a line, at most. Each is a mean.
const POINTS: usize = 300;

/// The chart as an SVG. The runs are of one load.
pub(super) fn draw(names: &[String], runs: &[Run]) -> Result<String, String> {
    svg(SIZE, |area| draw_on(area, names, runs))
}

fn draw_on(area: &Area<'_>, names: &[String], runs: &[Run]) -> Result<(), Failed> {
    let offered = runs.first().map_or_else(Vec::new, |run| means(run, |second| second.offered));
    let until = offered.last().map_or(1.0, |(at, _)| *at).max(1.0);
    let top = offered.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let words =
        Words { title: "Writes that each strategy absorbs", x: "seconds", y: "writes a second" };
    let mut chart = axes(area, &words, 0.0..until, top)?;
    chart
        .draw_series(DashedLineSeries::new(offered, 7, 4, INK.stroke_width(2)))?
        .label("offered")
        .legend(sample_of(INK));
    for ((name, run), color) in names.iter().zip(runs).zip(COLORS.iter().cycle()) {
        let absorbed = means(run, |second| second.absorbed);
        chart
            .draw_series(LineSeries::new(absorbed, color.stroke_width(2)))?
            .label(name.as_str())
            .legend(sample_of(*color));
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

/// The rate over time, as means of as many seconds as keep the line short.
fn means(run: &Run, of: fn(&Second) -> u64) -> Vec<(f64, f64)> {
    let each = run.seconds.len().div_ceil(POINTS).max(1);
    let mean = |(place, seconds): (usize, &[Second])| {
        let (place, count) = (u64::try_from(place * each), u64::try_from(seconds.len()));
        let sum = seconds.iter().map(of).sum::<u64>();
        (float(place.unwrap_or_default()), float(sum) / float(count.unwrap_or(1)))
    };
    run.seconds.chunks(each).enumerate().map(mean).collect()
}
