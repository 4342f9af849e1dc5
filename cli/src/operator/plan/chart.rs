//! The plan as a picture: the demand of the hottest key, month by month, and the capacity of its shards, for writes and for reads.

use dynashard_keys::ShardCount;
use dynashard_planning::Plan;
use dynashard_planning::capacity::Throughput;
use dynashard_planning::figure::number;
use dynashard_planning::shards::{TARGET_UTILIZATION, needed, peak_of_hottest_key, rounded};
use plotters::prelude::*;

use crate::operator::drawing::{
    Area, CAPACITY, DEMAND, Failed, Panel, X_LABELS, axes, end_labels, steps, svg, text,
};

const HEIGHT_OF_PANEL: u32 = 190;

const RIGHT: u32 = 150;

/// What the hottest key needs in one month.
struct Month {
    at: f64,
    shards: u32,
    load: Throughput,
}

/// The chart as an SVG.
pub(super) fn draw(plan: &Plan) -> Result<String, String> {
    let (workload, last) = (&plan.workload, plan.later.month);
    let placement = plan.advice.placement.parse().unwrap_or_default();
    let of_month = |month: u32| {
        let count = rounded(needed(workload, month), placement).unwrap_or(ShardCount::ONE).get();
        let load = peak_of_hottest_key(workload, month, count);
        Month { at: f64::from(month), shards: count, load }
    };
    let months = (0..=last).map(of_month).collect::<Vec<_>>();
    let shards = |month: Option<&Month>| month.map_or(1, |month| month.shards);
    let title = format!(
        "The hottest key needs {} now, and {} in month {last}",
        of_shards(shards(months.first())),
        shards(months.last())
    );
    let write_units: fn(&Throughput) -> f64 = |units| units.write_units;
    let read_units: fn(&Throughput) -> f64 = |units| units.read_units;
    let mut kinds = vec![("write units a second", write_units)];
    if months.iter().any(|month| month.load.read_units > 0.0) {
        kinds.push(("read units a second", read_units));
    }
    let height = HEIGHT_OF_PANEL * u32::try_from(kinds.len()).unwrap_or(1) + X_LABELS;
    svg(height, (&title, "At its peak: its demand, and the capacity of its shards"), |area| {
        let mut rest = area.clone();
        for (place, (heading, of)) in kinds.iter().enumerate() {
            let is_last = place + 1 == kinds.len();
            let (panel, below) =
                rest.split_vertically(HEIGHT_OF_PANEL + if is_last { X_LABELS } else { 0 });
            rest = below;
            let x = if is_last { "months from now" } else { "" };
            draw_panel(&panel, (heading, x), &months, *of)?;
        }
        Ok(())
    })
}

fn draw_panel(
    area: &Area<'_>,
    (heading, x): (&str, &str),
    months: &[Month],
    of: fn(&Throughput) -> f64,
) -> Result<(), Failed> {
    let one = of(&Throughput::of_a_partition());
    let points = |of: &dyn Fn(&Month) -> f64| {
        let points = months.iter().map(|month| (month.at, of(month)));
        // The last month is as wide as the others.
        let after = months.last().map(|month| (month.at + 1.0, of(month)));
        steps(&points.chain(after).collect::<Vec<_>>())
    };
    let (demand, capacity) =
        (points(&|month| of(&month.load)), points(&|month| f64::from(month.shards) * one));
    let part = capacity.iter().map(|(month, units)| (*month, units * TARGET_UTILIZATION));
    let part = part.collect::<Vec<_>>();
    let highest = |points: &[(f64, f64)]| points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let end = |points: &[(f64, f64)]| points.last().map_or(0.0, |(_, y)| *y);
    let until = months.last().map_or(1.0, |month| month.at + 1.0);
    let top = highest(&demand).max(highest(&capacity));
    let panel = Panel { heading, x, range: 0.0..until, top, right: RIGHT };
    let mut chart = axes(area, &panel)?;
    let area = AreaSeries::new(demand.iter().copied(), 0.0, DEMAND.mix(0.2));
    chart.draw_series(area.border_style(DEMAND.stroke_width(2)))?;
    chart.draw_series(LineSeries::new(capacity.iter().copied(), CAPACITY.stroke_width(3)))?;
    chart.draw_series(DashedLineSeries::new(
        part.iter().copied(),
        3,
        3,
        CAPACITY.stroke_width(1),
    ))?;
    // Each count stands where it begins; the last one at the end of its line.
    let last = months.last().map_or(1, |month| month.shards);
    let mut before = 0;
    for month in months.iter().filter(|month| month.shards != last) {
        if month.shards != before {
            let at = EmptyElement::at((month.at, f64::from(month.shards) * one));
            chart.draw_series([at + Text::new(of_shards(month.shards), (6, -18), text())])?;
        }
        before = month.shards;
    }
    let percent = format!("{:.0}% of capacity", TARGET_UTILIZATION * 100.0);
    let ends = vec![
        (end(&capacity), of_shards(last)),
        (end(&part), percent),
        (end(&demand), format!("demand {}", number(end(&demand)))),
    ];
    end_labels(&mut chart, ends)
}

fn of_shards(count: u32) -> String {
    format!("{count} {}", if count == 1 { "shard" } else { "shards" })
}
