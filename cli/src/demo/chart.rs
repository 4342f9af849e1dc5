//! The run as a picture: what was offered, absorbed, throttled and moved, the shards over time, and
//! below that the reshards of each key.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};
use thiserror::Error;

use super::history::{History, Rates};
use super::load::Window;

/// Size in CSS pixels. The PNG has [`PNG_SCALE`] times as many, for screens that show them.
const SIZE: (u32, u32) = (1_120, 720);
const PNG_SCALE: u32 = 2;

/// The names of the two files in the directory that was asked for.
const SVG_NAME: &str = "demo.svg";
const PNG_NAME: &str = "demo.png";

/// An SVG takes it from whoever shows it; in the PNG it is the font that comes with the command, so
/// that a machine without fonts draws the same.
const FONT: &str = "sans-serif";

// The palette of Okabe and Ito, which people with any kind of colour vision can tell apart. The
// lines differ in form, too.
const INK: RGBColor = RGBColor(40, 40, 40);
const OFFERED: RGBColor = RGBColor(90, 90, 90);
const ABSORBED: RGBColor = RGBColor(0, 114, 178);
const THROTTLED: RGBColor = RGBColor(213, 94, 0);
const CAPACITY: RGBColor = RGBColor(204, 121, 167);
const SHARDS: RGBColor = RGBColor(0, 158, 115);
const MOVED: RGBColor = RGBColor(86, 180, 233);
const FORWARD: RGBColor = RGBColor(230, 159, 0);
const MEASURED: RGBColor = RGBColor(120, 120, 120);

/// The height of the strip with a lane for each key, and that of the axis below it.
const LANE: u32 = 26;
const TIME_AXIS: u32 = 56;

/// What the two plots leave free at either side, so that their seconds stand above one another.
const MARGIN: u32 = 10;
const LEFT_LABELS: u32 = 76;
const RIGHT_LABELS: u32 = 60;

#[derive(Debug, Error)]
pub(crate) enum ChartError {
    #[error("the chart cannot be drawn: {0}")]
    Draw(String),
    #[error("the chart cannot be written to {path}: {error}; choose another --chart-dir")]
    Write { path: PathBuf, error: io::Error },
}

/// What is drawn.
#[derive(Debug)]
pub(super) struct Figure<'a> {
    pub(super) history: &'a History,
    /// The part that was measured.
    pub(super) steady: Option<Window>,
    pub(super) title: String,
}

/// Whether a directory for the chart is there, or could be made: what is wrong with it should not
/// be found out after the run.
pub(super) fn prepare(dir: &Path) -> Result<(), ChartError> {
    fs::create_dir_all(dir).map_err(|error| ChartError::Write { path: dir.to_owned(), error })
}

/// Writes `demo.svg` and `demo.png`, and returns their paths.
pub(super) fn save(dir: &Path, figure: &Figure<'_>) -> Result<[PathBuf; 2], ChartError> {
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        match fs::write(&path, bytes) {
            Ok(()) => Ok(path),
            Err(error) => Err(ChartError::Write { path, error }),
        }
    };
    Ok([write(SVG_NAME, svg(figure)?.as_bytes())?, write(PNG_NAME, &png(figure)?)?])
}

fn svg(figure: &Figure<'_>) -> Result<String, ChartError> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(&root, figure, 1)?;
    drop(root);
    Ok(text)
}

fn png(figure: &Figure<'_>) -> Result<Vec<u8>, ChartError> {
    let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
    let pixels = usize::try_from(u64::from(width) * u64::from(height)).map_err(said)?;
    let mut pixels = vec![0; pixels * 3];
    let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
    draw(&root, figure, PNG_SCALE)?;
    drop(root);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(said)?;
    writer.write_image_data(&pixels).map_err(said)?;
    writer.finish().map_err(said)?;
    Ok(file)
}

fn said(error: impl std::fmt::Display) -> ChartError {
    ChartError::Draw(error.to_string())
}

/// One line of the chart, as it stands in the legend.
struct Series {
    name: String,
    color: RGBColor,
    width: u32,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

fn draw<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    figure: &Figure<'_>,
    scale: u32,
) -> Result<(), ChartError> {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| said("its font is broken"))?;
    let unit = scale.cast_signed();
    let history = figure.history;
    root.fill(&WHITE).map_err(said)?;
    let series = series(history);
    let shards = steps(history, |sample| f64::from(history.samples[sample].shards()));
    let (head, body) = root.split_vertically(74 * scale);
    let title = (FONT, 19 * scale).into_font().color(&INK);
    head.draw_text(&figure.title, &title, (18 * unit, 14 * unit)).map_err(said)?;
    legend(&head, &series, scale)?;

    let lanes = u32::try_from(history.keys.len()).map_err(said)?;
    let strip_height = (LANE * lanes + TIME_AXIS) * scale;
    let body_height = body.dim_in_pixel().1;
    let (body, strip) = body.split_vertically(body_height.saturating_sub(strip_height));
    let until = history.samples.last().map_or(1.0, |last| last.at.as_secs_f64()).max(1.0);
    let highest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(1.0, f64::max);
    let top = series.iter().map(|series| highest(&series.points)).fold(1.0, f64::max) * 1.12;
    // The shards end lower than the capacity that they amount to, so that both can be seen.
    let most_shards = highest(&shards) * 1.6;
    let mut chart = ChartBuilder::on(&body)
        .margin_left(MARGIN * scale)
        .margin_right(MARGIN * scale)
        .margin_bottom(MARGIN * scale)
        .y_label_area_size(LEFT_LABELS * scale)
        .right_y_label_area_size(RIGHT_LABELS * scale)
        .build_cartesian_2d(0.0..until, 0.0..top)
        .map_err(said)?
        .set_secondary_coord(0.0..until, 0.0..most_shards);
    let label = (FONT, 13 * scale).into_font().color(&INK);
    let description = (FONT, 14 * scale).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .bold_line_style(BLACK.mix(0.12).stroke_width(scale))
        .light_line_style(TRANSPARENT)
        .axis_style(INK.stroke_width(scale))
        .set_all_tick_mark_size(5 * scale)
        .label_style(label.clone())
        .axis_desc_style(description.clone())
        .x_labels(0)
        .y_labels(8)
        .y_desc("writes a second")
        .y_label_formatter(&|rate| thousands(*rate))
        .draw()
        .map_err(said)?;
    chart
        .configure_secondary_axes()
        .axis_style(SHARDS.stroke_width(scale))
        .set_all_tick_mark_size(5 * scale)
        .label_style((FONT, 13 * scale).into_font().color(&SHARDS))
        .axis_desc_style((FONT, 14 * scale).into_font().color(&SHARDS))
        .y_labels(8)
        .y_desc("shards")
        .y_label_formatter(&|shards| whole_only(*shards))
        .draw()
        .map_err(said)?;

    if let Some(Window { from, to }) = figure.steady {
        let at = |sample: usize| history.samples[sample].at.as_secs_f64();
        let (from, to) = (at(from), at(to));
        let band = Rectangle::new([(from, 0.0), (to, top)], MEASURED.mix(0.10).filled());
        chart.draw_series([band]).map_err(said)?;
        let centred = label.clone().pos(Pos::new(HPos::Center, VPos::Top));
        let text = Text::new("settled: measured", (f64::midpoint(from, to), top * 0.99), centred);
        chart.draw_series([text]).map_err(said)?;
    }
    let area = AreaSeries::new(shards.iter().copied(), 0.0, SHARDS.mix(0.10));
    let area = area.border_style(SHARDS.stroke_width(2 * scale));
    chart.draw_secondary_series(area).map_err(said)?;
    for series in &series {
        let style = series.color.stroke_width(series.width * scale);
        let points = series.points.iter().copied();
        if series.dashed {
            let line = DashedLineSeries::new(points, 7 * scale, 4 * scale, style);
            chart.draw_series(line).map_err(said)?;
        } else {
            chart.draw_series(LineSeries::new(points, style)).map_err(said)?;
        }
    }
    draw_reshards(root, &strip, history, until, scale)?;
    root.present().map_err(said)
}

/// A lane for each key: when the reshards of it were in `forward` and in `move`.
fn draw_reshards<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    strip: &DrawingArea<DB, Shift>,
    history: &History,
    until: f64,
    scale: u32,
) -> Result<(), ChartError> {
    let lanes = u32::try_from(history.keys.len()).map_or(0.0, f64::from);
    let mut chart = ChartBuilder::on(strip)
        .margin_left(MARGIN * scale)
        .margin_right((MARGIN + RIGHT_LABELS) * scale)
        .margin_bottom(MARGIN * scale)
        .x_label_area_size((TIME_AXIS - MARGIN) * scale)
        .y_label_area_size(LEFT_LABELS * scale)
        .build_cartesian_2d(0.0..until, lanes..0.0)
        .map_err(said)?;
    let label = (FONT, 13 * scale).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(INK.stroke_width(scale))
        .set_all_tick_mark_size(5 * scale)
        .label_style(label.clone())
        .axis_desc_style((FONT, 14 * scale).into_font().color(&INK))
        .x_labels(12)
        .y_labels(0)
        .x_desc("seconds since the first write; bars: a reshard in forward, then in move")
        .x_label_formatter(&|secs| format!("{secs:.0}"))
        .draw()
        .map_err(said)?;
    let beside = label.clone().pos(Pos::new(HPos::Right, VPos::Center));
    let inside = (FONT, 12 * scale).into_font().color(&INK);
    let inside = inside.pos(Pos::new(HPos::Center, VPos::Center));
    let mut top = 0.0;
    for (key, (name, _)) in history.keys.iter().enumerate() {
        let middle = top + 0.5;
        let (x, y) = chart.backend_coord(&(0.0, middle));
        let gap = 8 * scale.cast_signed();
        root.draw_text(name, &beside, (x - gap, y)).map_err(said)?;
        for reshard in history.reshards(key) {
            let at = |moment: Option<Duration>| moment.map_or(until, |at| at.as_secs_f64());
            let (begun, in_force) = (reshard.begun.as_secs_f64(), at(reshard.in_force));
            let bar = |from, to, color: RGBColor| {
                Rectangle::new([(from, top + 0.15), (to, top + 0.85)], color.mix(0.45).filled())
            };
            let bars = [bar(begun, in_force, FORWARD), bar(in_force, at(reshard.closed), MOVED)];
            chart.draw_series(bars).map_err(said)?;
            let text = format!("{} → {}", reshard.from, reshard.to);
            let centre = f64::midpoint(begun, at(reshard.closed));
            chart.draw_series([Text::new(text, (centre, middle), inside.clone())]).map_err(said)?;
        }
        top += 1.0;
    }
    Ok(())
}

/// The lines that are measured in writes a second; what is most important is drawn last, on top.
fn series(history: &History) -> Vec<Series> {
    let rates = |of: fn(&Rates) -> f64| {
        let samples = 0..history.samples.len();
        let points = samples.map(|sample| {
            (history.samples[sample].at.as_secs_f64(), of(&history.rates_at(sample, None)))
        });
        points.collect::<Vec<_>>()
    };
    let capacity = |sample: usize| {
        (0..history.keys.len()).map(|key| history.capacity(sample, key)).sum::<f64>()
    };
    let line = |name: &str, color, width, dashed, points| Series {
        name: name.to_owned(),
        color,
        width,
        dashed,
        points,
    };
    let capacity_name = format!("capacity: shards × {} WCU", history.partition_wcu);
    vec![
        line(&capacity_name, CAPACITY, 2, true, steps(history, capacity)),
        line("moved", MOVED, 2, false, rates(|rates| rates.moves)),
        line("throttled", THROTTLED, 2, false, rates(|rates| rates.throttled)),
        line("offered", OFFERED, 2, true, rates(|rates| rates.offered)),
        line("absorbed", ABSORBED, 3, false, rates(|rates| rates.absorbed)),
    ]
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
fn legend<DB: DrawingBackend>(
    head: &DrawingArea<DB, Shift>,
    series: &[Series],
    scale: u32,
) -> Result<(), ChartError> {
    let unit = scale.cast_signed();
    let style = (FONT, 14 * scale).into_font().color(&INK);
    let (y, dash) = (56 * unit, 30 * unit);
    let mut x = 18 * unit;
    let shards = Series {
        name: "shards (right axis)".to_owned(),
        color: SHARDS,
        width: 2,
        dashed: false,
        points: Vec::new(),
    };
    for series in series.iter().rev().chain([&shards]) {
        let stroke = series.color.stroke_width(series.width * scale);
        let ends = [(x, y), (x + dash, y)];
        if series.dashed {
            let line = DashedPathElement::new(ends, 7 * scale, 4 * scale, stroke);
            head.draw(&line).map_err(said)?;
        } else {
            head.draw(&PathElement::new(ends, stroke)).map_err(said)?;
        }
        x += dash + 8 * unit;
        let text = style.clone().pos(Pos::new(HPos::Left, VPos::Center));
        head.draw(&Text::new(series.name.as_str(), (x, y), text)).map_err(said)?;
        let (width, _) = head.estimate_text_size(&series.name, &style).map_err(said)?;
        x += width.cast_signed() + 26 * unit;
    }
    Ok(())
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
    fn both_pictures_are_written_and_say_what_they_show() {
        let dir = tempfile::tempdir().expect("a directory");
        let history = history(30);
        let steady = Some(Window { from: 22, to: 29 });
        let figure = Figure { history: &history, steady, title: "a title".to_owned() };
        let [svg, png] = save(dir.path(), &figure).expect("written");
        let svg = fs::read_to_string(svg).expect("text");
        let words = [
            "a title",
            "offered",
            "absorbed",
            "throttled",
            "capacity: shards × 200 WCU",
            "shards (right axis)",
            "writes a second",
            "seconds since the first write",
            "settled: measured",
            "moved",
            "a reshard in forward, then in move",
            "EWR",
            "8 → 16",
        ];
        for words in words {
            assert!(svg.contains(words), "no {words:?}");
        }
        let decoder = png::Decoder::new(io::BufReader::new(fs::File::open(png).expect("a file")));
        let info = decoder.read_info().expect("a PNG").info().clone();
        assert_eq!((info.width, info.height), (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE));
    }

    #[test]
    fn a_run_without_samples_is_an_empty_chart() {
        let history = history(0);
        let figure = Figure { history: &history, steady: None, title: String::new() };
        assert!(svg(&figure).is_ok() && png(&figure).is_ok());
    }

    #[test]
    fn a_step_rises_at_the_moment_of_its_change() {
        let history = history(7);
        let shards = steps(&history, |sample| f64::from(history.samples[sample].shards()));
        assert_eq!(shards[4..], [(4.0, 1.0), (5.0, 1.0), (5.0, 2.0), (6.0, 2.0)]);
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
