//! The histogram as a picture.

use dynashard_planning::figure::number;
use plotters::prelude::*;

use crate::numbers::float;
use crate::operator::drawing::{ABSORBED, CAPACITY, DEMAND, Panel, axes, end_labels, svg};

const HEIGHT: u32 = 300;

/// What is drawn.
pub(super) struct Histogram<'a> {
    pub(super) title: &'a str,
    pub(super) shows: &'a str,
    pub(super) first_shard: u32,
    /// The rows of each shard.
    pub(super) counts: &'a [u64],
    /// The different items of all shards.
    pub(super) items: u64,
}

/// A bar for each shard, from the first on, as an SVG.
pub(super) fn draw(histogram: &Histogram<'_>) -> Result<String, String> {
    let Histogram { title, shows, first_shard, counts, items } = *histogram;
    let count = u32::try_from(counts.len()).unwrap_or(u32::MAX);
    // The name of a shard stands below the middle of its bar.
    let from = f64::from(first_shard) - 0.5;
    let until = from + f64::from(count);
    let rows = float(counts.iter().sum::<u64>());
    let mean = rows / f64::from(count.max(1));
    // Twice the standard deviation of a fair rule, whose items have as many rows each as they have in the mean.
    let chance = 2.0 * (mean * rows / float(items.max(1))).sqrt();
    let highest = float(counts.iter().copied().max().unwrap_or(0).max(1));
    svg(HEIGHT, (title, shows), |area| {
        let top = highest.max(mean + chance);
        let panel = Panel { heading: "rows", x: "shard", range: from..until, top, right: 130 };
        let mut chart = axes(area, &panel)?;
        // A gap between bars, as long as they are wide enough to be seen.
        let half = if count <= 200 { 0.42 } else { 0.5 };
        chart.draw_series(counts.iter().zip(first_shard..).map(|(rows, shard)| {
            let middle = f64::from(shard);
            Rectangle::new([(middle - half, 0.0), (middle + half, float(*rows))], ABSORBED.filled())
        }))?;
        let band = [(from, (mean - chance).max(0.0)), (until, mean + chance)];
        chart.draw_series([Rectangle::new(band, CAPACITY.mix(0.3).filled())])?;
        chart
            .draw_series(LineSeries::new([(from, mean), (until, mean)], DEMAND.stroke_width(2)))?;
        let ends = vec![
            (mean, format!("mean {}", number(mean))),
            (mean + chance, format!("chance ±{}", number(chance.round()))),
        ];
        end_labels(&mut chart, ends)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(first_shard: u32, counts: &[u64]) -> String {
        let histogram = Histogram {
            title: "4 rows",
            shows: "as even as chance would have it",
            first_shard,
            counts,
            items: counts.iter().sum(),
        };
        draw(&histogram).expect("it is drawn")
    }

    #[test]
    fn each_shard_has_its_bar() {
        let svg = drawn(1, &[1, 0, 3]);
        // The ground and the band of chance are rectangles, too.
        assert_eq!(svg.matches("<rect").count(), 2 + 3, "{svg}");
        assert!(svg.contains("mean 1.3") && svg.contains("chance"), "{svg}");
        drawn(0, &[0]);
    }

    #[test]
    fn regression_the_axis_named_a_shard_that_does_not_exist() {
        let svg = drawn(0, &[40; 16]);
        let is_named = |shard: u32| svg.contains(&format!(">\n{shard}\n</text>"));
        assert!(is_named(0) && is_named(14) && !is_named(16), "{svg}");
    }
}
