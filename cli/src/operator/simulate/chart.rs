//! What was offered, and what came of it under each strategy, as a picture: one panel below the other, to the same scale.

use dynashard_planning::cost::Prices;
use dynashard_planning::figure::{count, dollars};
use dynashard_planning::simulation::{Run, Second};
use plotters::prelude::*;

use crate::numbers::float;
use crate::operator::drawing::{
    ABSORBED, Area, DEMAND, Failed, Panel, REFUSED, X_LABELS, axes, legend_row, svg,
};

const HEIGHT_OF_LEGEND: u32 = 28;
const HEIGHT_OF_PANEL: u32 = 120;

/// Points of a line, at most. Each is a mean.
const POINTS: usize = 300;

/// The chart as an SVG. The runs are of one load.
pub(super) fn draw(names: &[String], runs: &[Run], prices: &Prices) -> Result<String, String> {
    let strategies = names.iter().zip(runs).collect::<Vec<_>>();
    let by_share = |one: &&(&String, &Run), other: &&(&String, &Run)| {
        one.1.absorbed_share().total_cmp(&other.1.absorbed_share())
    };
    let told = |found: Option<&(&String, &Run)>| {
        found.map_or_else(String::new, |(name, run)| format!("{name} absorbs {}", percent(run)))
    };
    let most = told(strategies.iter().max_by(by_share));
    let least = told(strategies.iter().min_by(by_share));
    let title = if most == least { most } else { format!("{most}, {least}") };
    let offered = runs.first().map_or(0, |run| run.offered);
    let shows = format!("Writes a second, of {} in all, under each strategy", count(offered));
    let until = runs.iter().map(|run| run.seconds.len()).max().map_or(1.0, float);
    let (unit, x) = match until {
        0.0..=1_200.0 => (1.0, "seconds"),
        1_200.0..=10_800.0 => (60.0, "minutes"),
        _ => (3_600.0, "hours"),
    };
    let top = runs.iter().flat_map(|run| {
        [line(run, unit, |it| it.offered), line(run, unit, |it| it.absorbed)].concat()
    });
    let top = top.map(|(_, rate)| rate).fold(1.0, f64::max);
    let height = HEIGHT_OF_PANEL * u32::try_from(runs.len()).unwrap_or(1);
    svg(HEIGHT_OF_LEGEND + height + X_LABELS, (&title, &shows), |area| {
        let (legend, mut rest) = area.split_vertically(HEIGHT_OF_LEGEND);
        legend_row(&legend, &[("offered", DEMAND), ("absorbed", ABSORBED), ("refused", REFUSED)])?;
        for (place, (name, run)) in strategies.iter().enumerate() {
            let x = if place + 1 == runs.len() { x } else { "" };
            let below = if x.is_empty() { 0 } else { X_LABELS };
            let (panel, left) = rest.split_vertically(HEIGHT_OF_PANEL + below);
            rest = left;
            let heading = heading(name, run, prices);
            let range = 0.0..until / unit;
            draw_run(&panel, &Panel { heading: &heading, x, range, top, right: 24 }, run, unit)?;
        }
        Ok(())
    })
}

fn draw_run(area: &Area<'_>, panel: &Panel<'_>, run: &Run, unit: f64) -> Result<(), Failed> {
    let offered = line(run, unit, |second| second.offered);
    let absorbed = line(run, unit, |second| second.absorbed);
    let mut chart = axes(area, panel)?;
    // What the blue does not cover of it was refused, and lost unless its client was patient.
    chart.draw_series(AreaSeries::new(offered.iter().copied(), 0.0, REFUSED))?;
    chart.draw_series(AreaSeries::new(absorbed, 0.0, ABSORBED))?;
    chart.draw_series(LineSeries::new(offered, DEMAND.stroke_width(2)))?;
    Ok(())
}

/// What a strategy came to. Cheap is what absorbs much for its money, and not what drops most.
fn heading(name: &str, run: &Run, prices: &Prices) -> String {
    let usd = run.usd(prices);
    let of_a_million = usd * 1e6 / float(run.absorbed.max(1));
    format!(
        "{name}: {} absorbed, throttled {} s, {}, {} per million",
        percent(run),
        count(run.throttled_seconds.into()),
        dollars(usd),
        dollars(of_a_million)
    )
}

fn percent(run: &Run) -> String {
    format!("{:.2}%", 100.0 * run.absorbed_share())
}

/// A figure over time, as means of as many seconds as keep the line short.
fn line(run: &Run, unit: f64, of: fn(&Second) -> u64) -> Vec<(f64, f64)> {
    let each = run.seconds.len().div_ceil(POINTS).max(1);
    let point = |(place, seconds): (usize, &[Second])| {
        let mean = float(seconds.iter().map(of).sum::<u64>()) / float(seconds.len());
        (float(u64::try_from(place * each).unwrap_or_default()) / unit, mean)
    };
    run.seconds.chunks(each).enumerate().map(point).collect()
}
