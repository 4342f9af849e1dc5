//! The plan as a picture: what the hottest key is asked for, month by month, and what its shards take.

use dynashard_keys::ShardCount;
use dynashard_planning::Plan;
use dynashard_planning::capacity::Throughput;
use dynashard_planning::shards::{needed, peak_of_hottest_key, rounded};
use plotters::prelude::*;

use crate::operator::drawing::{COLORS, Words, axes, legend, sample_of, svg};

/// Size in CSS pixels.
const SIZE: (u32, u32) = (960, 420);

const LOAD: RGBColor = COLORS[0];
const SHARDS: RGBColor = COLORS[1];

/// The chart as an SVG.
pub(super) fn draw(plan: &Plan) -> Result<String, String> {
    let (workload, last) = (&plan.workload, f64::from(plan.later.month));
    let placement = plan.advice.placement.parse().unwrap_or_default();
    let of_month = |month: u32| {
        let count = rounded(needed(workload, month), placement).unwrap_or(ShardCount::ONE).get();
        let load = partitions_of(peak_of_hottest_key(workload, month, count));
        (f64::from(month), load, f64::from(count))
    };
    let months = (0..=plan.later.month).map(of_month).collect::<Vec<_>>();
    let load = months.iter().map(|(month, load, _)| (*month, *load));
    let shards = months.iter().map(|(month, _, count)| (*month, *count)).collect::<Vec<_>>();
    let shards = steps(&shards);
    let top = months.iter().map(|(_, load, count)| load.max(*count)).fold(1.0, f64::max);
    let words = Words {
        title: "The hottest key at its peak, and its shards",
        x: "months from now",
        y: "partitions' worth",
    };
    svg(SIZE, |area| {
        let mut chart = axes(area, &words, 0.0..last, top)?;
        chart
            .draw_series(
                AreaSeries::new(load, 0.0, LOAD.mix(0.3)).border_style(LOAD.stroke_width(2)),
            )?
            .label("what it is asked for")
            .legend(sample_of(LOAD));
        chart
            .draw_series(LineSeries::new(shards, SHARDS.stroke_width(2)))?
            .label("what its shards take")
            .legend(sample_of(SHARDS));
        legend(&mut chart)
    })
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
