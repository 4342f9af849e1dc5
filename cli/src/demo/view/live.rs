//! The live view: some lines of the terminal that are drawn again and again, below what was there.

use console::{Alignment, Style, Term, pad_str};
use indicatif::{ProgressBar, ProgressStyle};

use super::super::history::Rates;
use super::scene::{KeyLine, Scene, squeezed};

/// The columns of a rate's name and figure, to the left of its sparkline.
const LABEL: usize = 22;

/// A view at the bottom of the terminal, without raw mode and without another screen: Ctrl-C stays
/// a signal, and what was printed before stays above.
#[derive(Debug)]
pub(super) struct LiveView {
    lines: ProgressBar,
    terminal: Term,
}

impl LiveView {
    pub(super) fn start() -> Self {
        let lines = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{msg}");
        lines.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { lines, terminal: Term::stderr() }
    }

    pub(super) fn draw(&self, scene: &Scene) {
        let (_, columns) = self.terminal.size();
        self.lines.set_message(draw(scene, usize::from(columns)).join("\n"));
    }

    pub(super) fn end(self) {
        self.lines.finish_and_clear();
    }
}

/// The lines of the view, each as wide as the terminal: a frame, three rates of two lines, a header,
/// a line for each key, and three lines more.
fn draw(scene: &Scene, columns: usize) -> Vec<String> {
    let inside = columns.saturating_sub(2);
    let most = scene.past.iter().map(|r| r.offered.max(r.absorbed).max(r.throttled));
    let most = most.fold(1.0, f64::max);
    let rate = |name, color: Style, of: fn(&Rates) -> f64| {
        let past = scene.past.iter().map(of).collect::<Vec<_>>();
        let [above, below] = columns_of(&past, most, inside.saturating_sub(LABEL));
        let figure = color.clone().bold().apply_to(format!("{:>6.0}/s", of(&scene.rates)));
        // The figure stands on the lower of the two lines, from which the columns rise.
        [
            format!("{:LABEL$}{}", "", color.apply_to(above)),
            format!("{}{figure}{:4}{}", label(name), "", color.apply_to(below)),
        ]
    };
    let mut lines = Vec::new();
    lines.extend(rate("offered", Style::new().for_stderr().white(), |rates| rates.offered));
    lines.extend(rate("absorbed", absorbed(), |rates| rates.absorbed));
    lines.extend(rate("throttled", Style::new().for_stderr().yellow(), |rates| rates.throttled));
    lines.push(dim().apply_to(table_header()).to_string());
    lines.extend(scene.keys.iter().map(table_row));
    let throttles = scene.throttles.iter().map(|(reason, count)| format!("{reason} {count}"));
    lines.push(list("throttles", throttles));
    lines.push(list("alarms", scene.alarms.iter().map(|(name, state)| format!("{name} {state}"))));
    lines.push(if let Some((read, of)) = scene.reading {
        reading(read, of, inside)
    } else {
        let Scene { written, moved, .. } = scene;
        format!("{}{written} items, {moved} of them moved since", label("written"))
    });

    let title = Style::new().for_stderr().bold().apply_to(" dynashard demo ");
    let title = format!("{title}{} s  {} ", scene.at.as_secs(), scene.doing);
    let frame = |text: &str| dim().apply_to(text).to_string();
    let edge = |left, title: &str, alignment, right| {
        let line = console::pad_str_with(title, inside, alignment, Some(""), '─');
        format!("{}{line}{}", frame(left), frame(right))
    };
    let mut drawn = vec![edge("┌", &title, Alignment::Left, "┐")];
    drawn.extend(lines.iter().map(|line| {
        let line = pad_str(line, inside, Alignment::Left, Some(""));
        format!("{}{line}{}", frame("│"), frame("│"))
    }));
    drawn.push(edge("└", " Ctrl-C ends ", Alignment::Right, "┘"));
    if columns < 2 { Vec::new() } else { drawn }
}

fn dim() -> Style {
    Style::new().for_stderr().dim()
}

fn absorbed() -> Style {
    Style::new().for_stderr().blue()
}

fn label(name: &str) -> String {
    dim().apply_to(format!("{name:<10}")).to_string()
}

fn list(name: &str, entries: impl Iterator<Item = String>) -> String {
    let entries = entries.collect::<Vec<_>>();
    let entries = if entries.is_empty() { "none".to_owned() } else { entries.join("  ") };
    format!("{}{entries}", label(name))
}

fn table_header() -> String {
    line_of(&[
        "key",
        "shards",
        "offered/s",
        "absorbed/s",
        "capacity/s",
        "phase",
        "moved",
        "counts so far",
    ])
}

fn table_row(key: &KeyLine) -> String {
    let counts = key.counts.iter().map(u32::to_string).collect::<Vec<_>>().join(" > ");
    let phase = key.to.map_or_else(|| key.phase.to_owned(), |to| format!("{} to {to}", key.phase));
    line_of(&[
        &key.name,
        &key.shards.to_string(),
        &format!("{:.0}", key.rates.offered),
        &format!("{:.0}", key.rates.absorbed),
        &format!("{:.0}", key.capacity),
        &phase,
        &key.moved.to_string(),
        &counts,
    ])
}

/// Cells side by side; the last may be as long as it is.
fn line_of(cells: &[&str; 8]) -> String {
    const WIDTHS: [usize; 8] = [8, 8, 11, 12, 12, 15, 8, 0];
    let padded = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:<width$}"));
    padded.collect::<Vec<_>>().concat()
}

/// How far the reading has come, in figures and as a bar that fills the line.
fn reading(read: usize, of: usize, columns: usize) -> String {
    let text = format!("{}{read} of {of} items, in order ", label("reading"));
    let room = columns.saturating_sub(console::measure_text_width(&text));
    let filled = (read * room).checked_div(of).unwrap_or(room).min(room);
    let rest = dim().apply_to("─".repeat(room - filled));
    format!("{text}{}{rest}", absorbed().apply_to("━".repeat(filled)))
}

/// Values as columns that stand two lines high, the upper line first: the largest possible value fills
/// both. Values that do not fit are combined.
fn columns_of(values: &[f64], most: f64, room: usize) -> [String; 2] {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let heights =
        squeezed(values, room).into_iter().map(|value| whole(value / most * 16.0).min(16));
    heights.map(|height| (EIGHTHS[height.saturating_sub(8)], EIGHTHS[height.min(8)])).fold(
        <[String; 2]>::default(),
        |[mut above, mut below], (upper, lower)| {
            above.push(upper);
            below.push(lower);
            [above, below]
        },
    )
}

/// A height in eighths of a line.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive")]
fn whole(height: f64) -> usize {
    height.round() as usize
}

#[cfg(test)]
mod tests {
    use super::super::scene::tests::scene;
    use super::*;

    fn drawn(scene: &Scene, columns: usize) -> String {
        console::strip_ansi_codes(&draw(scene, columns).join("\n")).into_owned()
    }

    #[test]
    fn rates_reasons_counts_and_alarms_are_on_the_screen() {
        let text = drawn(&scene(), 100);
        let shown = [
            "dynashard demo 17 s  growing",
            "offered     2800/s",
            "absorbed    1733/s",
            "throttled    912/s",
            "EWR     16      1600       790         800         move to 16     250     1 > 4 > 16",
            "LGA     4       1600       790         800         stable         250     1 > 4 ",
            "TableWriteKeyRangeThroughputExceeded 4321",
            "WriteThrottles ALARM",
            "23456 items, 500 of them moved since",
        ];
        for shown in shown {
            assert!(text.contains(shown), "no {shown:?} in\n{text}");
        }
    }

    #[test]
    fn a_rate_is_drawn_to_the_scale_of_the_largest_in_two_lines() {
        let drawn = columns_of(&[0.0, 25.0, 50.0, 75.0, 100.0, 6.25], 100.0, 10);
        assert_eq!(drawn, ["   ▄█ ", " ▄███▁"]);
    }

    #[test]
    fn reading_back_shows_how_far_it_is() {
        let text = drawn(&Scene { reading: Some((500, 2_000)), ..scene() }, 80);
        assert!(text.contains("reading   500 of 2000 items, in order ━━━━━━━━━━───"), "{text}");
    }

    #[test]
    fn every_line_is_as_wide_as_the_terminal_however_small_it_is() {
        for columns in [2, 10, 40, 100, 300] {
            for scene in [scene(), Scene::default()] {
                let text = drawn(&scene, columns);
                let widths = text.lines().map(|line| line.chars().count());
                assert!(widths.clone().all(|width| width == columns), "{columns}:\n{text}");
            }
        }
        assert_eq!(drawn(&scene(), 1), "");
    }
}
