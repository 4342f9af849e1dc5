//! The live view: some lines of the terminal that are drawn again and again, below what was there.

use std::io::{self, Stderr};

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, LineGauge, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport, prelude::CrosstermBackend};

use super::super::history::Rates;
use super::scene::{KeyLine, Scene, squeezed};
use crate::logs::Logs;

/// The lines that the view takes of the terminal: a frame, three rates of two lines, a header, three
/// keys and three lines more.
const HEIGHT: u16 = 15;

const OFFERED: Color = Color::Gray;
const ABSORBED: Color = Color::Blue;
const THROTTLED: Color = Color::Yellow;

/// A view at the bottom of the terminal, without raw mode and without another screen: Ctrl-C stays
/// a signal, and what was printed before stays above.
#[derive(Debug)]
pub(super) struct LiveView {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    logs: Logs,
}

impl LiveView {
    pub(super) fn start(logs: &Logs) -> io::Result<Self> {
        let options = TerminalOptions { viewport: Viewport::Inline(HEIGHT) };
        let terminal = Terminal::with_options(CrosstermBackend::new(io::stderr()), options)?;
        logs.hold();
        Ok(Self { terminal, logs: logs.clone() })
    }

    pub(super) fn draw(&mut self, scene: &Scene) {
        // A terminal that went away is no reason to give up the run.
        let _ = self.terminal.draw(|frame| draw(frame, scene));
    }

    pub(super) fn end(mut self) {
        let top = self.terminal.get_frame().area().as_position();
        let _ = self.terminal.clear();
        // What is printed next begins where the view was.
        let _ = self.terminal.set_cursor_position(top);
        let _ = self.terminal.show_cursor();
        self.logs.release();
    }
}

fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let title = Line::from(vec![
        " dynashard demo ".bold(),
        format!("{} s  {} ", scene.at.as_secs(), scene.doing).into(),
    ]);
    let block = Block::bordered()
        .border_style(Style::new().fg(Color::DarkGray))
        .title(title)
        .title_bottom(Line::from(" Ctrl-C ends ").right_aligned());
    let area = block.inner(frame.area());
    frame.render_widget(block, frame.area());
    let keys = u16::try_from(scene.keys.len()).unwrap_or(u16::MAX).saturating_add(1);
    let [offered, absorbed, throttled, table, reasons, alarms, progress] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Length(keys),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let most = scene.past.iter().map(|r| r.offered.max(r.absorbed).max(r.throttled));
    let most = most.fold(1.0, f64::max);
    draw_rate(frame, offered, "offered", OFFERED, most, scene, |rates| rates.offered);
    draw_rate(frame, absorbed, "absorbed", ABSORBED, most, scene, |rates| rates.absorbed);
    draw_rate(frame, throttled, "throttled", THROTTLED, most, scene, |rates| rates.throttled);
    draw_keys(frame, table, &scene.keys);
    let list = |name: &'static str, entries: Vec<String>| {
        let entries = if entries.is_empty() { "none".to_owned() } else { entries.join("  ") };
        Paragraph::new(Line::from(vec![Span::from(format!("{name:<10}")).dim(), entries.into()]))
    };
    let counted = scene.throttles.iter().map(|(reason, count)| format!("{reason} {count}"));
    frame.render_widget(list("throttles", counted.collect()), reasons);
    let states = scene.alarms.iter().map(|(name, state)| format!("{name} {state}"));
    frame.render_widget(list("alarms", states.collect()), alarms);
    match scene.reading {
        Some((read, of)) => frame.render_widget(reading(read, of), progress),
        None => {
            frame.render_widget(
                list(
                    "written",
                    vec![format!("{} items, {} of them moved since", scene.written, scene.moved)],
                ),
                progress,
            );
        }
    }
}

/// A rate in figures, and as it was from the start.
fn draw_rate(
    frame: &mut Frame<'_>,
    area: Rect,
    name: &str,
    color: Color,
    most: f64,
    scene: &Scene,
    of: impl Fn(&Rates) -> f64,
) {
    let [label, line] =
        Layout::horizontal([Constraint::Length(22), Constraint::Min(0)]).areas(area);
    let text = Line::from(vec![
        Span::from(format!("{name:<10}")).dim(),
        Span::styled(format!("{:>6.0}/s", of(&scene.rates)), Style::new().fg(color).bold()),
    ]);
    // The figure stands on the lower of the two lines, from which the columns rise.
    frame.render_widget(Paragraph::new(vec![Line::default(), text]), label);
    let past = scene.past.iter().map(of).collect::<Vec<_>>();
    let columns = squeezed(&past, usize::from(line.width)).into_iter().map(whole);
    let sparkline = Sparkline::default().data(columns).max(whole(most)).style(color);
    frame.render_widget(sparkline, line);
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, keys: &[KeyLine]) {
    let header = [
        "key",
        "shards",
        "offered/s",
        "absorbed/s",
        "capacity/s",
        "phase",
        "moved",
        "counts so far",
    ];
    let rows = keys.iter().map(|key| {
        let counts = key.counts.iter().map(u32::to_string).collect::<Vec<_>>().join(" > ");
        Row::new([
            key.name.clone(),
            key.shards.to_string(),
            format!("{:.0}", key.rates.offered),
            format!("{:.0}", key.rates.absorbed),
            format!("{:.0}", key.capacity),
            key.to.map_or_else(|| key.phase.to_owned(), |to| format!("{} to {to}", key.phase)),
            key.moved.to_string(),
            counts,
        ])
    });
    let widths = [8, 8, 11, 12, 12, 15, 8].map(Constraint::Length);
    let table = Table::new(rows, widths.into_iter().chain([Constraint::Min(0)]))
        .header(Row::new(header).style(Style::new().add_modifier(Modifier::DIM)))
        .column_spacing(0);
    frame.render_widget(table, area);
}

fn reading(read: usize, of: usize) -> LineGauge<'static> {
    let percent = (read * 100).checked_div(of).unwrap_or(100).min(100);
    LineGauge::default()
        .label(format!("reading   {read} of {of} items, in order"))
        .filled_style(Style::new().fg(ABSORBED))
        .ratio(f64::from(u8::try_from(percent).unwrap_or(100)) / 100.0)
}

/// A rate in whole writes a second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive")]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::super::scene::tests::scene;
    use super::*;

    fn drawn(scene: &Scene, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, HEIGHT)).expect("a terminal");
        terminal.draw(|frame| draw(frame, scene)).expect("drawn");
        let text = terminal.backend().to_string();
        text.lines().map(|line| line.trim_matches('"').to_owned() + "\n").collect()
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
    fn reading_back_shows_how_far_it_is() {
        let text = drawn(&Scene { reading: Some((500, 2_000)), ..scene() }, 80);
        assert!(text.contains("reading   500 of 2000 items, in order"), "{text}");
    }

    #[test]
    fn a_small_terminal_and_an_empty_scene_do_no_harm() {
        for width in [1, 10, 40] {
            drawn(&scene(), width);
            drawn(&Scene::default(), width);
        }
    }
}
