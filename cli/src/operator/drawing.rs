//! What the charts of the commands have in common: their ground, their axes and their colours.

use std::fs;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::Failure;

/// Whoever shows the picture has the font.
pub(crate) const FONT: &str = "sans-serif";
pub(crate) const INK: RGBColor = RGBColor(40, 40, 40);

/// The palette of Okabe and Ito, which people with any kind of colour vision can tell apart.
pub(super) const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

pub(crate) type Failed = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'a> =
    ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The words around a chart.
pub(super) struct Words<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
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

/// An SVG of a size in CSS pixels, on a ground of its own.
pub(crate) fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Failed>,
) -> Result<String, String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
    // It ends the picture.
    drop(area);
    drawn.map_err(|error| error.to_string())?;
    Ok(text)
}

/// Axes from zero to a little above `top`, with lines across.
pub(super) fn axes<'a>(
    area: &Area<'a>,
    words: &Words<'_>,
    x: Range<f64>,
    top: f64,
) -> Result<Chart<'a>, Failed> {
    let mut chart = ChartBuilder::on(area)
        .caption(words.title, (FONT, 22).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(x, 0.0..top * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .bold_line_style(INK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style((FONT, 16).into_font().color(&INK))
        .x_desc(words.x)
        .y_desc(words.y)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{}", (y * 10.0).round() / 10.0))
        .draw()?;
    Ok(chart)
}

/// Names the lines that were drawn.
pub(super) fn legend(chart: &mut Chart<'_>) -> Result<(), Failed> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(INK.mix(0.3))
        .label_font((FONT, 16).into_font().color(&INK))
        .draw()
}

/// Names lines in a row, in an area of their own.
pub(super) fn legend_row(area: &Area<'_>, lines: &[(&str, RGBColor)]) -> Result<(), Failed> {
    const LEFT: i32 = 84;
    const TEXT_SIZE: u32 = 16;
    let font = (FONT, TEXT_SIZE).into_font().color(&INK);
    let mut at = LEFT;
    for (name, color) in lines {
        area.draw(&sample_of(*color)((at, 20)))?;
        area.draw(&Text::new(*name, (at + 30, 14), font.clone()))?;
        // Nobody knows the width of the font of whoever looks: nine pixels a letter are more than enough.
        at += 48 + 9 * i32::try_from(name.chars().count()).unwrap_or(0);
    }
    Ok(())
}

/// The sample of a line, beside its name.
pub(super) fn sample_of(color: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new([(x, y), (x + 24, y)], color.stroke_width(3))
}
