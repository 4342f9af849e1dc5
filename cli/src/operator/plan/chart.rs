//! The plan as a picture: what the hottest key is asked for, month by month, and what its shards take.

use dynashard_planning::Plan;
use dynashard_planning::capacity::Throughput;
use dynashard_planning::shards::{rounded, with_head_room};
use plotters::prelude::*;

use crate::operator::drawing::{Area, COLORS, Failed, Words, axes, legend, sample_of, svg};

/// Size in CSS pixels.
const SIZE: (u32, u32) = (960, 420);

const LOAD: RGBColor = COLORS[0];
const SHARDS: RGBColor = COLORS[1];

/// The chart as an SVG.
pub(super) fn draw(plan: &Plan) -> Result<String, String> {
    svg(SIZE, |area| draw_on(area, plan))
}

fn draw_on(area: &Area<'_>, plan: &Plan) -> Result<(), Failed> {
    let (workload, last) = (&plan.workload, f64::from(plan.later.month));
    let placement = plan.advice.placement.parse().unwrap_or_default();
    let months = 0..=plan.later.month;
    let of_key = |month: u32| workload.peak_of_hottest_key(month);
    let load = months.clone().map(|month| (f64::from(month), partitions_of(of_key(month))));
    let shards = months.map(|month| {
        let count = rounded(with_head_room(of_key(month)), placement);
        (f64::from(month), count.map_or(0.0, |count| f64::from(count.get())))
    });
    let shards = steps(&shards.collect::<Vec<_>>());
    let top = shards.iter().map(|(_, count)| *count).fold(1.0, f64::max);
    let words = Words {
        title: "The hottest key at its peak, and its shards",
        x: "months from now",
        y: "partitions' worth",
    };
    let mut chart = axes(area, &words, 0.0..last, top)?;
    chart
        .draw_series(AreaSeries::new(load, 0.0, LOAD.mix(0.3)).border_style(LOAD.stroke_width(2)))?
        .label("what it is asked for")
        .legend(sample_of(LOAD));
    chart
        .draw_series(LineSeries::new(shards, SHARDS.stroke_width(2)))?
        .label("what its shards take")
        .legend(sample_of(SHARDS));
    legend(&mut chart, SeriesLabelPosition::UpperLeft)
}

/// How many partitions this fills, by what it needs more of.
fn partitions_of(units: Throughput) -> f64 {
    let one = Throughput::of_a_partition();
    (units.write_units / one.write_units).max(units.read_units / one.read_units)
}

/// A line that rises at each month, and not on the way there.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(points.last().copied()).collect()
}
