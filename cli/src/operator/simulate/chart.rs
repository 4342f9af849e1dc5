//! What was offered, and what came of it under each strategy, as a picture: one panel below the other.

use dynashard_planning::cost::Prices;
use dynashard_planning::simulation::{Run, Second};
use plotters::prelude::*;

use crate::numbers::float;
use crate::operator::drawing::{Area, COLORS, Failed, INK, Words, axes, legend_row, svg};

/// Size in CSS pixels.
const WIDTH: u32 = 960;
const HEIGHT_OF_LEGEND: u32 = 32;
const HEIGHT_OF_PANEL: u32 = 240;

/// Points of a line, at most. Each is a mean.
const POINTS: usize = 300;

/// What a panel shows of a second.
struct Panel<'a> {
    title: &'a str,
    y: &'a str,
    of: &'a dyn Fn(&Second) -> f64,
    /// Whether it adds up over time.
    is_sum: bool,
}

/// The chart as an SVG. The runs are of one load.
pub(super) fn draw(names: &[String], runs: &[Run], prices: &Prices) -> Result<String, String> {
    let usd = |second: &Second| second.usd(prices);
    let panel = |title, y, of| Panel { title, y, of, is_sum: false };
    let mut panels = vec![
        panel("Writes that each strategy absorbs", "writes a second", &|it| float(it.absorbed)),
        panel("Writes that DynamoDB throttles", "writes a second", &|it| float(it.throttled)),
        panel("Shards of all keys", "shards", &|it| f64::from(it.shards)),
        Panel { title: "Cost so far", y: "USD", of: &usd, is_sum: true },
    ];
    if runs.iter().any(|run| run.p99_wait_seconds > 0) {
        let title = "Latency: what 99% of the written items waited at most";
        panels.insert(2, panel(title, "seconds", &|it| f64::from(it.p99_wait_seconds)));
    }
    let colors = || COLORS.into_iter().cycle();
    let lines = names.iter().map(String::as_str).zip(colors());
    let lines = [("offered", INK)].into_iter().chain(lines).collect::<Vec<_>>();
    let height = HEIGHT_OF_PANEL * u32::try_from(panels.len()).unwrap_or(1);
    svg((WIDTH, HEIGHT_OF_LEGEND + height), |area| {
        let (top, rest) = area.split_vertically(HEIGHT_OF_LEGEND);
        legend_row(&top, &lines)?;
        for (place, (area, panel)) in
            rest.split_evenly((panels.len(), 1)).iter().zip(&panels).enumerate()
        {
            // What was offered is what the first panel's lines fall short of.
            let offered = runs.first().filter(|_| place == 0);
            let offered = offered.map(|run| line(run, &|second| float(second.offered), false));
            let lines = runs.iter().map(|run| line(run, panel.of, panel.is_sum)).zip(colors());
            draw_panel(area, panel, &offered.unwrap_or_default(), &lines.collect::<Vec<_>>())?;
        }
        Ok(())
    })
}

fn draw_panel(
    area: &Area<'_>,
    panel: &Panel<'_>,
    offered: &[(f64, f64)],
    lines: &[(Vec<(f64, f64)>, RGBColor)],
) -> Result<(), Failed> {
    let points = || lines.iter().map(|(line, _)| line.as_slice()).chain([offered]).flatten();
    let until = points().map(|(at, _)| *at).fold(1.0, f64::max);
    let top = points().map(|(_, height)| *height).fold(0.0, f64::max);
    let (unit, x) = match until {
        0.0..=1_200.0 => (1.0, "seconds"),
        1_200.0..=10_800.0 => (60.0, "minutes"),
        _ => (3_600.0, "hours"),
    };
    let scaled = |line: &[(f64, f64)]| {
        line.iter().map(|(at, height)| (at / unit, *height)).collect::<Vec<_>>()
    };
    let words = Words { title: panel.title, x, y: panel.y };
    let mut chart = axes(area, &words, 0.0..until / unit, if top > 0.0 { top } else { 1.0 })?;
    chart.draw_series(DashedLineSeries::new(scaled(offered), 7, 4, INK.stroke_width(2)))?;
    for (line, color) in lines {
        chart.draw_series(LineSeries::new(scaled(line), color.stroke_width(2)))?;
    }
    Ok(())
}

/// A figure over time, as means of as many seconds as keep the line short, or added up.
fn line(run: &Run, of: &dyn Fn(&Second) -> f64, is_sum: bool) -> Vec<(f64, f64)> {
    let each = run.seconds.len().div_ceil(POINTS).max(1);
    let mut so_far = 0.0;
    let point = |(place, seconds): (usize, &[Second])| {
        let sum = seconds.iter().map(of).sum::<f64>();
        let count = float(seconds.len());
        so_far += sum;
        let at = float(u64::try_from(place * each).unwrap_or_default());
        (at, if is_sum { so_far } else { sum / count })
    };
    run.seconds.chunks(each).enumerate().map(point).collect()
}
