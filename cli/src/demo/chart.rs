//! The run as a picture: what was offered, absorbed, throttled and moved, what the shards could take, and
//! below that the reshards of each key.

use dynashard_console::palette;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::history::{History, Rates};
use super::plan::Window;
use super::simulated::COOLDOWN_OF_ONE_MORE;
use crate::numbers::float;
use crate::operator::drawing::{Area, FONT, Failed, INK, svg};

/// Size in CSS pixels. On a page that is narrower the text is still to be read.
const SIZE: (u32, u32) = (960, 600);

const TITLE_SIZE: u32 = 22;
const TEXT_SIZE: u32 = 17;

/// About what a character of [`TEXT_SIZE`] takes of a line.
const CHAR_WIDTH: f64 = 7.2;

/// Samples further apart than this have a pause between them.
const PAUSE_SECS: f64 = 2.0;

// The palette of the console, on a light ground. The lines differ in form, too.
const OFFERED: RGBColor = color(palette::DEMAND);
const ABSORBED: RGBColor = color(palette::ABSORBED);
const THROTTLED: RGBColor = color(palette::THROTTLED);
const CAPACITY: RGBColor = color(palette::CAPACITY);
const MOVED: RGBColor = color(palette::MOVED);
const FORWARD: RGBColor = color(palette::ANNOUNCED);
const ONE_MORE: RGBColor = RGBColor(150, 110, 60);
const MEASURED: RGBColor = RGBColor(120, 120, 120);

const fn color(hue: palette::Hue) -> RGBColor {
    let (red, green, blue) = hue.light;
    RGBColor(red, green, blue)
}

/// The heights of the title with the legend, of a key's lane, and of the axis below the lanes.
const HEAD: u32 = 74;
const LANE: u32 = 26;
const TIME_AXIS: u32 = 56;

/// What the two plots leave free at either side, so that their seconds stand above one another.
const MARGIN: u32 = 10;
const LEFT_LABELS: u32 = 72;
const RIGHT_LABELS: u32 = 56;

/// What is drawn.
#[derive(Debug)]
pub(super) struct Figure<'a> {
    pub(super) history: &'a History,
    /// The part that was measured.
    pub(super) steady: Option<Window>,
    /// What another rule would have absorbed in each second, by the simulation; nothing where that is not known.
    pub(super) one_more: &'a [u64],
    pub(super) title: String,
}

/// The chart as an SVG, on a ground of its own: it is shown on light pages and on dark ones.
pub(super) fn draw(figure: &Figure<'_>) -> Result<String, String> {
    svg(SIZE, |area| draw_on(area, figure))
}

type Drawn = Result<(), Failed>;

/// One line of the chart, as it stands in the legend.
struct Series {
    name: String,
    color: RGBColor,
    width: u32,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

fn draw_on(root: &Area<'_>, figure: &Figure<'_>) -> Drawn {
    let history = figure.history;
    let (head, body) = root.split_vertically(HEAD);
    let title = (FONT, TITLE_SIZE).into_font().color(&INK);
    head.draw_text(&figure.title, &title, (18, 14))?;
    let capacity = capacity(history);
    let mut series = series(history);
    series.splice(0..0, one_more(figure.one_more));
    legend(&head, series.iter().rev().chain([&capacity]))?;

    let lanes = u32::try_from(history.keys.len()).unwrap_or(0);
    let (_, body_height) = body.dim_in_pixel();
    let (body, strip) = body.split_vertically(body_height.saturating_sub(LANE * lanes + TIME_AXIS));
    let until = history.samples.last().map_or(1.0, |last| last.at.as_secs_f64()).max(1.0);
    let points = series.iter().chain([&capacity]).flat_map(|series| &series.points);
    let top = points.map(|(_, rate)| *rate).fold(1.0, f64::max) * 1.12;
    let mut chart = ChartBuilder::on(&body)
        .margin_left(MARGIN)
        .margin_right(MARGIN)
        .margin_bottom(MARGIN)
        .y_label_area_size(LEFT_LABELS)
        .right_y_label_area_size(RIGHT_LABELS)
        .build_cartesian_2d(0.0..until, 0.0..top)?
        // A shard stands as high as what it takes.
        .set_secondary_coord(0.0..until, 0.0..top / f64::from(history.partition_wcu.max(1)));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .bold_line_style(BLACK.mix(0.12))
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(text(INK))
        .axis_desc_style(text(INK))
        .x_labels(0)
        .y_labels(8)
        .y_desc("writes a second")
        .y_label_formatter(&|rate| thousands(*rate))
        .draw()?;
    chart
        .configure_secondary_axes()
        .axis_style(CAPACITY)
        .label_style(text(CAPACITY))
        .axis_desc_style(text(CAPACITY))
        .y_labels(8)
        .y_desc("shards")
        .y_label_formatter(&|shards| whole_only(*shards))
        .draw()?;

    if let Some(Window { from, to }) = figure.steady {
        let at = |sample: usize| history.samples[sample].at.as_secs_f64();
        let (from, to) = (at(from), at(to));
        let band = Rectangle::new([(from, 0.0), (to, top)], MEASURED.mix(0.10).filled());
        chart.draw_series([band])?;
        let centred = text(INK).pos(Pos::new(HPos::Center, VPos::Top));
        let place = (f64::midpoint(from, to), top * 0.99);
        chart.draw_series([Text::new("settled: measured", place, centred)])?;
    }
    let area = AreaSeries::new(capacity.points.iter().copied(), 0.0, CAPACITY.mix(0.12));
    chart.draw_series(area.border_style(CAPACITY.stroke_width(capacity.width)))?;
    for series in &series {
        let style = series.color.stroke_width(series.width);
        let points = series.points.iter().copied();
        if series.dashed {
            chart.draw_series(DashedLineSeries::new(points, 7, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(points, style))?;
        }
    }
    draw_reshards(root, &strip, history, until)
}

/// A lane for each key: when the reshards of it were in `forward` and in `move`.
fn draw_reshards(root: &Area<'_>, strip: &Area<'_>, history: &History, until: f64) -> Drawn {
    let lanes = float(history.keys.len());
    let mut chart = ChartBuilder::on(strip)
        .margin_left(MARGIN)
        .margin_right(MARGIN + RIGHT_LABELS)
        .margin_bottom(MARGIN)
        .x_label_area_size(TIME_AXIS - MARGIN)
        .y_label_area_size(LEFT_LABELS)
        .build_cartesian_2d(0.0..until, lanes..0.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(INK)
        .label_style(text(INK))
        .axis_desc_style(text(INK))
        .x_labels(12)
        .y_labels(0)
        .x_desc("seconds since the first write. A reshard is announced (yellow), then its items move (pink)")
        .x_label_formatter(&|secs| format!("{secs:.0}"))
        .draw()?;
    let beside = text(INK).pos(Pos::new(HPos::Right, VPos::Center));
    let inside = text(INK).pos(Pos::new(HPos::Center, VPos::Center));
    let mut top = 0.0;
    for (key, (name, _)) in history.keys.iter().enumerate() {
        let middle = top + 0.5;
        let (x, y) = chart.backend_coord(&(0.0, middle));
        root.draw_text(name, &beside, (x - 8, y))?;
        for reshard in history.reshards(key) {
            let begun = reshard.decided_secs;
            let in_force = reshard.relief_secs.map_or(until, |relief| begun + relief);
            let closed = reshard.closed_secs.unwrap_or(until);
            let bar = |from, to, color: RGBColor| {
                Rectangle::new([(from, top + 0.12), (to, top + 0.88)], color.mix(0.45).filled())
            };
            let bars = [bar(begun, in_force, FORWARD), bar(in_force, closed, MOVED)];
            chart.draw_series(bars)?;
            let label = format!("{} → {}", reshard.from, reshard.to);
            let centre = f64::midpoint(begun, closed);
            chart.draw_series([Text::new(label, (centre, middle), inside.clone())])?;
        }
        top += 1.0;
    }
    Ok(())
}

fn text(color: RGBColor) -> TextStyle<'static> {
    (FONT, TEXT_SIZE).into_font().color(&color)
}

/// What the shards of all keys take together.
fn capacity(history: &History) -> Series {
    let capacity = |sample: usize| {
        (0..history.keys.len()).map(|key| history.capacity(sample, key)).sum::<f64>()
    };
    Series {
        name: format!("shards × {} WCU", history.partition_wcu),
        color: CAPACITY,
        width: 2,
        dashed: false,
        points: steps(history, capacity),
    }
}

/// The lines over time; what is most important is drawn last, on top.
fn series(history: &History) -> Vec<Series> {
    let rates = |of: fn(&Rates) -> f64| {
        let mut points = Vec::<(f64, f64)>::new();
        for (sample, seen) in history.samples.iter().enumerate() {
            let (at, rate) = (seen.at.as_secs_f64(), of(&history.rates_at(sample, None)));
            // While flights are read back nothing is sampled: the mean holds for all of that time.
            let before = points.last().map(|(before, _)| *before);
            points.extend(before.filter(|before| at - before > PAUSE_SECS).map(|at| (at, rate)));
            points.push((at, rate));
        }
        points
    };
    let line = |name: &str, color, width, dashed, points| Series {
        name: name.to_owned(),
        color,
        width,
        dashed,
        points,
    };
    vec![
        line("moved", MOVED, 2, false, rates(|rates| rates.moves)),
        line("throttled", THROTTLED, 2, false, rates(|rates| rates.throttled)),
        line("offered", OFFERED, 2, true, rates(|rates| rates.offered)),
        line("absorbed", ABSORBED, 3, false, rates(|rates| rates.absorbed)),
    ]
}

/// The line of the rule of one shard more after each cooldown, if it was simulated.
fn one_more(absorbed: &[u64]) -> Option<Series> {
    let points = absorbed.iter().scan(0.5, |middle, absorbed| {
        let at = *middle;
        *middle += 1.0;
        Some((at, float(*absorbed)))
    });
    (!absorbed.is_empty()).then(|| Series {
        name: format!("one more each {} s (simulated)", COOLDOWN_OF_ONE_MORE.as_secs()),
        color: ONE_MORE,
        width: 2,
        dashed: true,
        points: points.collect(),
    })
}

/// Something that is in force until it changes, as the corners of its steps.
fn steps(history: &History, of: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
    let mut corners = Vec::<(f64, f64)>::new();
    for (sample, seen) in history.samples.iter().enumerate() {
        let (at, value) = (seen.at.as_secs_f64(), of(sample));
        if let Some((_, before)) = corners.last().copied().filter(|(_, before)| *before < value) {
            corners.push((at, before));
        }
        corners.push((at, value));
    }
    corners
}

/// All lines in a row, below the title.
fn legend<'a>(head: &Area<'_>, series: impl Iterator<Item = &'a Series>) -> Drawn {
    const Y: i32 = 56;
    const STROKE: i32 = 30;
    let beside = text(INK).pos(Pos::new(HPos::Left, VPos::Center));
    let mut x = 18;
    for series in series {
        let stroke = series.color.stroke_width(series.width);
        let ends = [(x, Y), (x + STROKE, Y)];
        if series.dashed {
            head.draw(&DashedPathElement::new(ends, 7, 4, stroke))?;
        } else {
            head.draw(&PathElement::new(ends, stroke))?;
        }
        x += STROKE + 8;
        head.draw(&Text::new(series.name.as_str(), (x, Y), beside.clone()))?;
        x += width_of(&series.name) + 26;
    }
    Ok(())
}

/// About how wide a text of [`TEXT_SIZE`] is shown.
#[expect(clippy::cast_possible_truncation, reason = "the names of a legend are short")]
fn width_of(text: &str) -> i32 {
    (float(text.chars().count()) * CHAR_WIDTH) as i32
}

/// A whole number with its thousands set apart.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// A count, or nothing at a tick between two counts.
fn whole_only(count: f64) -> String {
    if (count - count.round()).abs() < 1e-9 { format!("{count:.0}") } else { String::new() }
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
        let history = history(30);
        let steady = Some(Window { from: 22, to: 29 });
        let title = "a title".to_owned();
        let figure = Figure { history: &history, steady, one_more: &[200, 400, 400], title };
        let svg = draw(&figure).expect("drawn");
        let words = [
            "a title",
            "offered",
            "one more each 10 s (simulated)",
            "absorbed",
            "throttled",
            "moved",
            "shards × 200 WCU",
            "writes a second",
            "seconds since the first write",
            "settled: measured",
            "A reshard is announced",
            "EWR",
            "8 → 16",
        ];
        for words in words {
            assert!(svg.contains(words), "no {words:?}");
        }
    }

    #[test]
    fn a_run_without_samples_is_an_empty_chart() {
        let history = history(0);
        let title = String::new();
        let figure = Figure { history: &history, steady: None, one_more: &[], title };
        assert!(draw(&figure).is_ok());
    }

    #[test]
    fn a_step_rises_at_the_moment_of_its_change() {
        let history = history(7);
        let capacity = capacity(&history).points;
        assert_eq!(capacity[4..], [(4.0, 200.0), (5.0, 200.0), (5.0, 400.0), (6.0, 400.0)]);
    }

    #[test]
    fn regression_a_pause_between_samples_was_drawn_as_a_slow_fall() {
        let mut history = history(3);
        let last = history.samples[2].clone();
        history.samples.push(Sample { at: Duration::from_secs(10), ..last });
        let offered = series(&history).into_iter().find(|series| series.name == "offered");
        let points = offered.expect("a line").points;
        assert_eq!(points[2..], [(2.0, 1_600.0), (2.0, 0.0), (10.0, 0.0)]);
    }

    #[test]
    fn ticks_are_readable() {
        assert_eq!(
            [0.0, 800.0, 4_000.0, 1_234_567.0].map(thousands),
            ["0", "800", "4,000", "1,234,567"]
        );
        assert_eq!([4.0, 2.5].map(whole_only), ["4", ""]);
    }
}
