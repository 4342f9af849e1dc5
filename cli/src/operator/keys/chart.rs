//! The histogram as a picture.

use plotters::prelude::*;

use crate::numbers::float;
use crate::operator::drawing::{Area, COLORS, Failed, Words, axes, svg};

/// Size in CSS pixels.
const SIZE: (u32, u32) = (960, 420);

const BAR: RGBColor = COLORS[0];
const SHARE: RGBColor = COLORS[1];

/// What is drawn: a bar for each shard.
#[derive(Debug)]
pub(super) struct Bars<'a> {
    pub(super) title: String,
    /// The number of the first shard.
    pub(super) first: u32,
    pub(super) counts: &'a [u64],
}

/// The chart as an SVG.
pub(super) fn draw(bars: &Bars<'_>) -> Result<String, String> {
    svg(SIZE, |area| draw_on(area, bars))
}

fn draw_on(area: &Area<'_>, bars: &Bars<'_>) -> Result<(), Failed> {
    let count = u32::try_from(bars.counts.len()).unwrap_or(u32::MAX);
    let (from, until) = (f64::from(bars.first), f64::from(bars.first.saturating_add(count)));
    let top = float(bars.counts.iter().copied().max().unwrap_or(0).max(1));
    let mean = float(bars.counts.iter().sum::<u64>()) / f64::from(count.max(1));
    let words = Words { title: &bars.title, x: "shard", y: "rows" };
    let mut chart = axes(area, &words, from..until, top)?;
    // A gap between bars, as long as they are wide enough to be seen.
    let width = if count <= 200 { 0.85 } else { 1.0 };
    chart.draw_series(bars.counts.iter().zip(bars.first..).map(|(rows, shard)| {
        let left = f64::from(shard);
        Rectangle::new([(left, 0.0), (left + width, float(*rows))], BAR.filled())
    }))?;
    chart.draw_series(LineSeries::new([(from, mean), (until, mean)], SHARE.stroke_width(2)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_its_bar() {
        let bars = Bars { title: "4 rows <&>".to_owned(), first: 1, counts: &[1, 0, 3] };
        let svg = draw(&bars).expect("it is drawn");
        let filled = svg.matches("<rect").count();
        // The ground is a rectangle, too.
        assert_eq!(filled, 1 + 3, "{svg}");
        assert!(svg.contains("4 rows &lt;&amp;&gt;"), "{svg}");
        assert!(draw(&Bars { title: String::new(), first: 0, counts: &[0] }).is_ok());
    }
}
