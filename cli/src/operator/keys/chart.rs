//! The histogram as a picture.

use plotters::prelude::*;

use crate::numbers::float;
use crate::operator::drawing::{COLORS, Words, axes, svg};

/// Size in CSS pixels.
const SIZE: (u32, u32) = (960, 420);

const BAR: RGBColor = COLORS[0];
const SHARE: RGBColor = COLORS[1];

/// A bar for each shard, from the first on, as an SVG.
pub(super) fn draw(title: &str, first: u32, counts: &[u64]) -> Result<String, String> {
    svg(SIZE, |area| {
        let count = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let (from, until) = (f64::from(first), f64::from(first.saturating_add(count)));
        let top = float(counts.iter().copied().max().unwrap_or(0).max(1));
        let mean = float(counts.iter().sum::<u64>()) / f64::from(count.max(1));
        let words = Words { title, x: "shard", y: "rows" };
        let mut chart = axes(area, &words, from..until, top)?;
        // A gap between bars, as long as they are wide enough to be seen.
        let width = if count <= 200 { 0.85 } else { 1.0 };
        chart.draw_series(counts.iter().zip(first..).map(|(rows, shard)| {
            let left = f64::from(shard);
            Rectangle::new([(left, 0.0), (left + width, float(*rows))], BAR.filled())
        }))?;
        chart.draw_series(LineSeries::new([(from, mean), (until, mean)], SHARE.stroke_width(2)))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_its_bar() {
        let svg = draw("4 rows <&>", 1, &[1, 0, 3]).expect("it is drawn");
        let filled = svg.matches("<rect").count();
        // The ground is a rectangle, too.
        assert_eq!(filled, 1 + 3, "{svg}");
        assert!(svg.contains("4 rows &lt;&amp;&gt;"), "{svg}");
        assert!(draw("", 0, &[0]).is_ok());
    }
}
