//! What the demo shows while it runs: a live view on a terminal, and plain lines elsewhere.

mod live;
mod scene;

use std::time::Duration;

use live::LiveView;
use scene::Scene;

use super::history::History;
use super::plan::Stage;

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
    Terminal(LiveView),
    /// Since when the latest line is out, by the run's own time.
    Lines {
        latest: Option<Duration>,
    },
}

impl View {
    /// Begins to show a run, live if nothing else is printed on the terminal meanwhile.
    pub(super) fn start(is_live: bool) -> Self {
        let shown_on = if is_live {
            ShownOn::Terminal(LiveView::start())
        } else {
            ShownOn::Lines { latest: None }
        };
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
                    note!("{}", self.scene.line());
                }
            }
        }
    }

    /// Says that these many items are now to be read back.
    pub(super) fn reading(&mut self, items: usize) {
        self.scene.reading = Some((0, items));
        match &mut self.shown_on {
            ShownOn::Terminal(live) => live.draw(&self.scene),
            ShownOn::Lines { .. } => note!("Moment {items} items back, in order"),
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

    /// Takes the view away.
    pub(super) fn end(self) {
        if let ShownOn::Terminal(live) = self.shown_on {
            live.end();
        }
    }
}
