//! The live view: some lines of the terminal that are drawn again and again, below what was there.

use console::{Alignment, Style, Term, pad_str};
use dynashard_planning::figure::number;
use indicatif::{ProgressBar, ProgressStyle};

use super::super::history::Rates;
use super::scene::{KeyLine, Scene, squeezed};
use crate::numbers::float;

/// The columns of a name, to the left of what it names.
const LABEL: usize = 10;

/// The rows of the chart. One that is lower says nothing.
const MOST_CHART_ROWS: usize = 16;
const LEAST_CHART_ROWS: usize = 3;

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
        let (rows, columns) = self.terminal.size();
        self.lines.set_message(draw(scene, rows.into(), columns.into()).join("\n"));
    }

    pub(super) fn end(self) {
        self.lines.finish_and_clear();
    }
}

/// The lines of the view, each as wide as the terminal: a frame, the rates, a header, a line for each key, and what was
/// refused. What the terminal has left is for a chart.
fn draw(scene: &Scene, rows: usize, columns: usize) -> Vec<String> {
    let inside = columns.saturating_sub(2);
    let Scene { past, rates, written, moved, .. } = scene;
    let room = inside.saturating_sub(LABEL);
    let mut below = vec![dim().apply_to(table_header(inside)).to_string()];
    below.extend(scene.keys.iter().map(|key| table_row(key, inside)));
    let refused = past.iter().map(|rates| rates.throttled).collect::<Vec<_>>();
    let most = refused.iter().copied().fold(1.0, f64::max);
    let refused = red().apply_to(columns_of(&refused, most, 1, room).concat()).to_string();
    below.push(label("refused") + &refused);
    let throttles = scene.throttles.iter().map(|(reason, count)| format!("{reason} {count}"));
    below.push(list("throttles", throttles));
    below.push(list("alarms", scene.alarms.iter().map(|(name, state)| format!("{name} {state}"))));
    below.push(if let Some((read, of)) = scene.reading {
        reading(read, of, inside)
    } else {
        format!("{}{written} items, {moved} of them moved since", label("written"))
    });
    let figure = |rate: f64| bold().apply_to(format!("{}/s", number(rate.round()))).to_string();
    let mut lines = vec![format!(
        "{} {}   {} {}   {} {}",
        dim().apply_to("─ offered"),
        figure(rates.offered),
        blue().apply_to("█ absorbed"),
        figure(rates.absorbed),
        red().apply_to("refused tries"),
        figure(rates.throttled)
    )];
    // The frame, the line above, the axis, and the line of the cursor.
    let spare = rows.saturating_sub(below.len() + 5).min(MOST_CHART_ROWS);
    if spare >= LEAST_CHART_ROWS {
        lines.extend(chart(scene, spare, room));
    }
    lines.extend(below);
    lines.truncate(rows.saturating_sub(3));

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

// Colours that stand out from light grounds and from dark ones, beside the terminal's own.

fn bold() -> Style {
    Style::new().for_stderr().bold()
}

fn blue() -> Style {
    Style::new().for_stderr().blue()
}

fn red() -> Style {
    Style::new().for_stderr().red()
}

fn label(name: &str) -> String {
    dim().apply_to(format!("{name:<10}")).to_string()
}

fn list(name: &str, entries: impl Iterator<Item = String>) -> String {
    let entries = entries.collect::<Vec<_>>();
    let entries = if entries.is_empty() { "none".to_owned() } else { entries.join("  ") };
    format!("{}{entries}", label(name))
}

fn table_header(inside: usize) -> String {
    let bar = "█ absorbed ░ unmet │ capacity";
    row_of(["key", "shards", "", bar, "absorbed of offered"], inside)
}

fn table_row(key: &KeyLine, inside: usize) -> String {
    let first = key.counts.first().copied().unwrap_or(key.shards);
    let now = key.to.unwrap_or(key.shards);
    let shards = if first == now { now.to_string() } else { format!("{first}→{now}") };
    let state = match key.phase {
        "forward" => "announced",
        "move" => "moving",
        _ => "",
    };
    let rates = format!("{:.0} of {:.0}/s", key.rates.absorbed, key.rates.offered);
    row_of([&key.name, &shards, state, &bar(key, bar_room(inside)), &rates], inside)
}

/// Cells side by side. The bar takes what the terminal has left.
fn row_of(cells: [&str; 5], inside: usize) -> String {
    let widths = [8, 9, 10, bar_room(inside) + 2, 0];
    let padded = cells.iter().zip(widths).map(|(cell, width)| match width {
        0 => (*cell).into(),
        _ => pad_str(cell, width, Alignment::Left, Some("")),
    });
    padded.collect::<String>()
}

/// What is left for bars beside the other cells.
fn bar_room(inside: usize) -> usize {
    const OTHERS: usize = 8 + 9 + 10 + 2 + 20;
    inside.saturating_sub(OTHERS).min(60)
}

/// What is absorbed of what is offered, and with a mark the capacity of the shards.
fn bar(key: &KeyLine, room: usize) -> String {
    let Rates { offered, absorbed, .. } = key.rates;
    let most = offered.max(absorbed).max(key.capacity).max(1.0);
    let at = |rate: f64| whole(rate / most * float(room)).min(room);
    let (absorbed, offered) = (at(absorbed), at(offered));
    let mark = at(key.capacity).saturating_sub(1);
    let cell = |place: usize| match place {
        _ if place == mark => bold().apply_to("│").to_string(),
        _ if place < absorbed => blue().apply_to("█").to_string(),
        _ if place < offered => red().apply_to("░").to_string(),
        _ => " ".to_owned(),
    };
    (0..room).map(cell).collect()
}

/// What was absorbed over time as columns, below a line of what was offered.
fn chart(scene: &Scene, rows: usize, room: usize) -> Vec<String> {
    let of = |of: fn(&Rates) -> f64| scene.past.iter().map(of).collect::<Vec<_>>();
    let (offered, absorbed) = (of(|rates| rates.offered), of(|rates| rates.absorbed));
    let most = offered.iter().chain(&absorbed).copied().fold(1.0, f64::max);
    let offered = squeezed(&offered, room);
    let drawn = columns_of(&absorbed, most, rows, room);
    let mut lines = Vec::with_capacity(rows + 1);
    for (line, above) in drawn.iter().zip((1..=rows).rev()) {
        let cells = line.chars().zip(&offered).map(|(cell, offered)| match cell {
            ' ' if whole(offered / most * float(rows)).max(1) == above => "─".to_owned(),
            ' ' => " ".to_owned(),
            _ => blue().apply_to(cell).to_string(),
        });
        let name =
            if above == rows { format!("{}/s", number(most.round())) } else { String::new() };
        lines.push(format!("{}{}", label(&name), cells.collect::<String>()));
    }
    let time = format!("0 s{:>1$}", format!("{} s", scene.at.as_secs()), offered.len().max(10) - 3);
    lines.push(format!("{}{}", label(""), dim().apply_to(time)));
    lines
}

/// How far the reading has come, in figures and as a bar that fills the line.
fn reading(read: usize, of: usize, columns: usize) -> String {
    let text = format!("{}{read} of {of} items, in order ", label("reading"));
    let room = columns.saturating_sub(console::measure_text_width(&text));
    let filled = (read * room).checked_div(of).unwrap_or(room).min(room);
    let rest = dim().apply_to("─".repeat(room - filled));
    format!("{text}{}{rest}", blue().apply_to("━".repeat(filled)))
}

/// Values as columns that stand so many lines high, the upper line first: the largest possible value fills all of them.
/// Values that do not fit are combined.
fn columns_of(values: &[f64], most: f64, rows: usize, room: usize) -> Vec<String> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let heights =
        squeezed(values, room).into_iter().map(|value| whole(value / most * float(8 * rows)));
    let heights = heights.collect::<Vec<_>>();
    let line = |above: usize| {
        heights.iter().map(|height| EIGHTHS[height.saturating_sub(8 * above).min(8)]).collect()
    };
    (0..rows).rev().map(line).collect()
}

/// So many whole cells, or eighths of them.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive")]
fn whole(height: f64) -> usize {
    height.round() as usize
}

#[cfg(test)]
mod tests {
    use super::super::scene::tests::scene;
    use super::*;

    fn drawn(scene: &Scene, rows: usize, columns: usize) -> String {
        console::strip_ansi_codes(&draw(scene, rows, columns).join("\n")).into_owned()
    }

    #[test]
    fn rates_reasons_counts_and_alarms_are_on_the_screen() {
        let text = drawn(&scene(), 40, 100);
        let shown = [
            "dynashard demo 17 s  growing",
            "─ offered 2,800/s   █ absorbed 1,733/s   refused tries 912/s",
            "EWR     1→16     moving    ████████████████████████│░░░░░░░░░░░░░░░░░░░░░░░░  790 of 1600/s",
            "LGA     1→4                █████",
            "2,800/s   ──────",
            "refused   ██████",
            &format!("0 s{:27}17 s", ""),
            "TableWriteKeyRangeThroughputExceeded 4321",
            "WriteThrottles ALARM",
            "23456 items, 500 of them moved since",
        ];
        for shown in shown {
            assert!(text.contains(shown), "no {shown:?} in\n{text}");
        }
    }

    #[test]
    fn regression_a_small_terminal_cut_the_counts() {
        for (rows, columns) in [(24, 80), (12, 60)] {
            let text = drawn(&scene(), rows, columns);
            assert!(text.contains("1→16") && text.contains("790 of 1600/s"), "{text}");
            assert!(text.lines().count() < rows, "{text}");
        }
    }

    #[test]
    fn regression_half_of_a_high_terminal_stayed_empty() {
        assert_eq!(drawn(&scene(), 40, 120).lines().count(), 27);
    }

    #[test]
    fn regression_colours_took_the_ground_for_black() {
        let style = |style: Style| style.force_styling(true).apply_to("x").to_string();
        let [blue, red] = [blue(), red()].map(style);
        assert_eq!((blue.as_str(), red.as_str()), ("\u{1b}[34mx\u{1b}[0m", "\u{1b}[31mx\u{1b}[0m"));
    }

    #[test]
    fn a_rate_is_drawn_to_the_scale_of_the_largest() {
        let drawn = columns_of(&[0.0, 25.0, 50.0, 75.0, 100.0, 6.25], 100.0, 2, 10);
        assert_eq!(drawn, ["   ▄█ ", " ▄███▁"]);
    }

    #[test]
    fn reading_back_shows_how_far_it_is() {
        let text = drawn(&Scene { reading: Some((500, 2_000)), ..scene() }, 24, 80);
        assert!(text.contains("reading   500 of 2000 items, in order ━━━━━━━━━━───"), "{text}");
    }

    #[test]
    fn every_line_is_as_wide_as_the_terminal_however_small_it_is() {
        for columns in [2, 10, 20, 40, 100, 300] {
            for (rows, scene) in [(5, scene()), (24, Scene::default()), (60, scene())] {
                let text = drawn(&scene, rows, columns);
                let widths = text.lines().map(|line| line.chars().count());
                assert!(widths.clone().all(|width| width == columns), "{columns}:\n{text}");
            }
        }
        assert_eq!(drawn(&scene(), 24, 1), "");
        assert!(draw(&scene(), 0, 0).is_empty());
    }
}
