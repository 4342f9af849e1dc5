//! What the demo shows while it runs: a live view on a terminal, and plain lines elsewhere.

mod live;
mod scene;

use std::io::IsTerminal;
use std::time::Duration;

use live::LiveView;
use scene::Scene;

use super::history::History;
use super::load::Stage;
use crate::logs::Logs;

/// How often a plain line is printed.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows a run on stderr. [`View::end`] leaves a terminal as it was.
#[derive(Debug)]
pub(super) struct View {
    scene: Scene,
    shown_on: ShownOn,
}

#[derive(Debug)]
enum ShownOn {
    Terminal(Box<LiveView>),
    /// Since when the latest line is out, by the run's own time.
    Lines {
        latest: Option<Duration>,
    },
}

impl View {
    /// Begins to show a run. Where there is a terminal, what is logged meanwhile is held back for
    /// the end: it would tear the view apart.
    pub(super) fn start(logs: &Logs) -> Self {
        // The position of the cursor is asked for on stdout, so that must be the terminal, too.
        let is_terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let live = if is_terminal { LiveView::start(logs).ok() } else { None };
        let shown_on =
            live.map_or(ShownOn::Lines { latest: None }, |live| ShownOn::Terminal(Box::new(live)));
        Self { scene: Scene::default(), shown_on }
    }

    /// Shows the latest sample of the load.
    pub(super) fn load(&mut self, history: &History, stage: Stage) {
        self.scene = Scene::of(history, stage);
        match &mut self.shown_on {
            ShownOn::Terminal(live) => live.draw(&self.scene),
            ShownOn::Lines { latest } => {
                if latest.is_none_or(|latest| self.scene.at >= latest + LINE_EVERY) {
                    *latest = Some(self.scene.at);
                    eprintln!("{}", self.scene.line());
                }
            }
        }
    }

    /// Says that these many items are now to be read back.
    pub(super) fn reading(&mut self, items: usize) {
        self.scene.reading = Some((0, items));
        match &mut self.shown_on {
            ShownOn::Terminal(live) => live.draw(&self.scene),
            ShownOn::Lines { .. } => eprintln!("Reading {items} items back, in order"),
        }
    }

    /// Shows that so many more items came back.
    pub(super) fn read(&mut self, items: usize) {
        if let Some((read, _)) = &mut self.scene.reading {
            *read += items;
        }
        if let ShownOn::Terminal(live) = &mut self.shown_on {
            live.draw(&self.scene);
        }
    }

    /// Takes the view away, and prints what was logged behind it.
    pub(super) fn end(self) {
        if let ShownOn::Terminal(live) = self.shown_on {
            live.end();
        }
    }
}
