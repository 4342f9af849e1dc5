//! What the charts of the commands have in common: their ground, their axes, their colours, and how they are named.

use std::fs;
use std::ops::Range;
use std::path::Path;

use dynashard_console::palette::{self, Hue, Rgb};
use dynashard_planning::figure::number;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Failure;
use crate::wrap::wrapped;

/// The width of every chart, in CSS pixels. A page that is narrower scales it, and its text stays legible on a phone.
pub(crate) const WIDTH: u32 = 640;

/// What the labels of the x axis take below a panel.
pub(crate) const X_LABELS: u32 = 48;

pub(crate) const INK: RGBColor = color(INK_HUE);
pub(crate) const DEMAND: RGBColor = color(palette::DEMAND);
pub(crate) const ABSORBED: RGBColor = color(palette::ABSORBED);
pub(crate) const REFUSED: RGBColor = color(palette::THROTTLED);
pub(crate) const CAPACITY: RGBColor = color(palette::CAPACITY);

/// Texts and axes.
const INK_HUE: Hue = Hue { name: "ink", light: (40, 40, 40), dark: (224, 224, 224) };
const GROUND: Hue = Hue { name: "ground", light: (255, 255, 255), dark: (22, 26, 31) };

/// Whoever shows the picture has the font.
const FONT: &str = "sans-serif";
const TITLE_PIXELS: f64 = 19.0;
const TEXT_PIXELS: f64 = 15.0;

/// A title has so many characters in a line.
const TITLE_CHARS: usize = 54;

/// Labels beside one another stand so far apart.
const LINE: i32 = 17;

pub(crate) type Failed = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Chart<'a> =
    ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A chart or a part of one, which has its own y axis.
pub(crate) struct Panel<'a> {
    /// What is shown, with its unit: it stands above the axis.
    pub(crate) heading: &'a str,
    /// The name of the x axis, or nothing where a panel below has it.
    pub(crate) x: &'a str,
    pub(crate) range: Range<f64>,
    /// The highest value.
    pub(crate) top: f64,
    /// What is left free beside it for [`end_labels`].
    pub(crate) right: u32,
}

/// Refuses a chart of a form that is not drawn, before anything else is done.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    match path.filter(|path| path.extension().is_none_or(|end| end != "svg")) {
        None => Ok(()),
        Some(path) => {
            let detail = format!("the chart {} has to end in .svg", path.display());
            Err(Failure { code: "bad_parameter", detail })
        }
    }
}

/// Writes a chart that was drawn.
pub(super) fn write(path: &Path, drawn: Result<String, String>) -> Result<(), Failure> {
    let failed = |detail| Failure { code: "output_failed", detail };
    fs::write(path, drawn.map_err(failed)?)
        .map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))
}

/// An SVG on a ground of its own, with what it finds as its title and what it shows below, above a body of a height in CSS
/// pixels. Where pages are dark, so is the chart.
pub(crate) fn svg(
    height: u32,
    (title, shows): (&str, &str),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Failed>,
) -> Result<String, String> {
    const TITLE_LINE: u32 = 24;
    let lines = wrapped(title, TITLE_CHARS);
    let lines = lines.lines().zip((10..).step_by(24)).collect::<Vec<_>>();
    let below = 14 + TITLE_LINE * u32::try_from(lines.len()).unwrap_or(1);
    let head = below + 30;
    let mut drawing = String::new();
    let area = SVGBackend::with_string(&mut drawing, (WIDTH, head + height)).into_drawing_area();
    let heading = || {
        let font = (FONT, shown(TITLE_PIXELS)).into_font().style(FontStyle::Bold).color(&INK);
        for (line, y) in &lines {
            area.draw_text(line, &font, (14, *y))?;
        }
        area.draw_text(shows, &text(), (14, below.cast_signed()))
    };
    let drawn = area.fill(&color(GROUND)).and_then(|()| heading()).and_then(|()| {
        draw(&area.split_vertically(head).1)?;
        area.present()
    });
    // It ends the picture.
    drop(area);
    drawn.map_err(|error| error.to_string())?;
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let (title, shows) = (escaped(title), escaped(shows));
    let about = format!(">\n<title>{title}</title>\n<desc>{shows}</desc>\n{}", dark());
    Ok(drawing.replacen('>', &about, 1).replacen("<svg ", "<svg role=\"img\" lang=\"en\" ", 1))
}

/// Axes from zero to a little above the highest value, with lines across.
pub(crate) fn axes<'a>(area: &Area<'a>, panel: &Panel<'_>) -> Result<Chart<'a>, Failed> {
    area.draw_text(panel.heading, &text(), (14, 4))?;
    let is_last = !panel.x.is_empty();
    let top = if panel.top > 0.0 { panel.top * 1.08 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .margin_top(28)
        .margin_left(4)
        .margin_right(panel.right)
        .x_label_area_size(if is_last { X_LABELS } else { 8 })
        .y_label_area_size(64)
        .build_cartesian_2d(panel.range.clone(), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .bold_line_style(INK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(text())
        .axis_desc_style(text())
        .x_labels(if is_last { 16 } else { 0 })
        .y_labels(5)
        .x_desc(panel.x)
        .x_label_formatter(&|x| if x.fract() == 0.0 { number(*x) } else { String::new() })
        .y_label_formatter(&|y| number(*y))
        .draw()?;
    Ok(chart)
}

/// Names lines at their ends, to the right of them, as far apart as they have to be.
pub(crate) fn end_labels(
    chart: &mut Chart<'_>,
    mut ends: Vec<(f64, String)>,
) -> Result<(), Failed> {
    let right = chart.x_range().end;
    let beside = text().pos(Pos::new(HPos::Left, VPos::Center));
    ends.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut below = i32::MAX;
    for (value, name) in ends {
        let (_, y) = chart.backend_coord(&(right, value));
        let up = (y - below + LINE).max(0);
        below = y - up;
        let label = EmptyElement::at((right, value)) + Text::new(name, (6, -up), beside.clone());
        chart.draw_series([label])?;
    }
    Ok(())
}

/// Names colours in a row, in an area of their own.
pub(crate) fn legend_row(area: &Area<'_>, names: &[(&str, RGBColor)]) -> Result<(), Failed> {
    let mut left = 14;
    for (name, color) in names {
        area.draw(&Rectangle::new([(left, 6), (left + 24, 16)], color.filled()))?;
        area.draw(&Text::new(*name, (left + 32, 3), text()))?;
        // Nobody knows the width of the font of whoever looks: nine pixels a letter are more than enough.
        left += 56 + 9 * i32::try_from(name.chars().count()).unwrap_or(0);
    }
    Ok(())
}

/// A line that rises at each change, and not on the way there.
pub(crate) fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(points.last().copied()).collect()
}

/// The style of every text but the title.
pub(crate) fn text() -> TextStyle<'static> {
    (FONT, shown(TEXT_PIXELS)).into_font().color(&INK)
}

/// The size of a font that is shown as high as that: plotters makes fonts smaller by this.
fn shown(pixels: f64) -> f64 {
    pixels * 1.24
}

const fn color(hue: Hue) -> RGBColor {
    let (red, green, blue) = hue.light;
    RGBColor(red, green, blue)
}

/// The colours of the palette on a dark ground, for whoever shows the chart there.
fn dark() -> String {
    let hex = |(red, green, blue): Rgb| format!("#{red:02X}{green:02X}{blue:02X}");
    let rule = |hue: &Hue| {
        let (light, dark) = (hex(hue.light), hex(hue.dark));
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    };
    let rules = [GROUND, INK_HUE].iter().chain(&palette::HUES).map(rule).collect::<String>();
    format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_says_what_it_shows_and_has_a_dark_form() {
        let svg = svg(200, ("a <title> & more", "what it shows"), |_| Ok(())).expect("drawn");
        assert!(svg.starts_with("<svg role=\"img\" lang=\"en\" width=\"640\""), "{svg}");
        assert!(svg.contains("<title>a &lt;title> &amp; more</title>"), "{svg}");
        assert!(svg.contains("<desc>what it shows</desc>"), "{svg}");
        assert!(svg.contains("[fill=\"#FFFFFF\"]{fill:#161A1F}"), "{svg}");
        assert!(svg.contains("font-size=\"15"), "legible on a phone: {svg}");
    }

    #[test]
    fn regression_labels_of_lines_that_meet_lay_on_one_another() {
        let drawn = svg(300, ("", ""), |area| {
            let panel = Panel { heading: "", x: "x", range: 0.0..1.0, top: 8.0, right: 99 };
            let ends = [(8.0, "above"), (8.0, "below")].map(|(y, name)| (y, name.to_owned()));
            end_labels(&mut axes(area, &panel)?, ends.into())
        });
        let drawn = drawn.expect("drawn");
        let y = |name: &str| {
            let text = drawn[..drawn.find(&format!("\n{name}\n"))?].rsplit(" y=\"").next()?;
            text.split('"').next()?.parse::<i32>().ok()
        };
        assert_eq!(y("below").expect("a label") - y("above").expect("a label"), -LINE);
    }

    #[test]
    fn a_step_rises_at_the_moment_of_its_change() {
        let steps = steps(&[(4.0, 200.0), (5.0, 400.0), (6.0, 400.0)]);
        assert_eq!(steps, [(4.0, 200.0), (5.0, 200.0), (5.0, 400.0), (6.0, 400.0), (6.0, 400.0)]);
    }
}
