//! Runs the checker on a configuration, within limits, and judges what it found.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::time::Duration;

use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, DiscoveryClassification, HasDiscoveries, Model};

/// Where a search ends at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this many generated states, on one thread: breadth first, so a counterexample is a shortest one, and the
    /// same each time.
    States(usize),
    /// After this time, on this many threads. One is not enough: the checker looks at the time when it shares work.
    Time(Duration, usize),
}

/// What a search has come to so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// States that differ.
    pub unique: usize,
    /// States generated, those included that had been seen.
    pub generated: usize,
    /// The most steps from the start.
    pub depth: usize,
    /// The time that it took.
    pub elapsed: Duration,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All states were visited, and all properties hold.
    Holds,
    /// The limit was reached, and no state until there breaks a property.
    HoldsSoFar,
    /// A property is broken.
    Violated {
        /// Which.
        property: &'static str,
        /// What happens until then.
        steps: Vec<String>,
    },
}

/// A search that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it found.
    pub verdict: Verdict,
    /// What it took.
    pub progress: Progress,
    /// The "sometimes" properties that some state showed.
    pub reached: Vec<&'static str>,
    /// Those that some state should have shown.
    pub missing: Vec<&'static str>,
}

/// Searches a model until a property is broken, the limit is reached, or nothing is left.
///
/// # Panics
///
/// If the model itself panics.
pub fn search<M>(model: M, limit: Limit, on_progress: &mut (dyn FnMut(Progress) + Send)) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = match limit {
        Limit::States(count) => checker.target_state_count(count),
        Limit::Time(time, threads) => checker.timeout(time).threads(threads.max(2)),
    };
    let mut observer = Observer { on_progress, last: None, found: BTreeMap::new() };
    drop(checker.spawn_bfs().join_and_report(&mut observer));
    let progress = observer.last.expect("the checker reports its end");
    let (violated, reached) = observer
        .found
        .into_iter()
        .partition::<Vec<_>, _>(|(_, discovery)| discovery.is_counterexample);
    let shortest = violated.into_iter().min_by_key(|(_, discovery)| discovery.steps.len());
    let verdict = match shortest {
        Some((property, discovery)) => Verdict::Violated { property, steps: discovery.steps },
        None if limit.is_reached_by(progress) => Verdict::HoldsSoFar,
        None => Verdict::Holds,
    };
    let reached = reached.into_iter().map(|(name, _)| name).collect();
    Report { verdict, progress, reached, missing: Vec::new() }
}

impl Limit {
    fn is_reached_by(self, progress: Progress) -> bool {
        match self {
            Self::States(count) => progress.generated >= count,
            Self::Time(time, _) => progress.elapsed >= time,
        }
    }
}

impl Verdict {
    /// Whether a property is broken.
    pub fn is_violation(&self) -> bool {
        matches!(self, Self::Violated { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => formatter.write_str("holds, searched to the end"),
            Self::HoldsSoFar => formatter.write_str("CUT OFF, holds as far as searched"),
            Self::Violated { property, steps } => {
                write!(formatter, "not {property}, after {} steps", steps.len())
            }
        }
    }
}

/// Keeps what the checker reports.
struct Observer<'a> {
    on_progress: &'a mut (dyn FnMut(Progress) + Send),
    last: Option<Progress>,
    found: BTreeMap<&'static str, Discovery>,
}

struct Discovery {
    is_counterexample: bool,
    steps: Vec<String>,
}

impl<M: Model> Reporter<M> for Observer<'_> {
    fn report_checking(&mut self, data: ReportData) {
        let progress = Progress {
            unique: data.unique_states,
            generated: data.total_states,
            depth: data.max_depth,
            elapsed: data.duration,
        };
        if data.done {
            self.last = Some(progress);
        } else {
            (self.on_progress)(progress);
        }
    }

    fn report_discoveries(
        &mut self,
        _model: &M,
        discoveries: BTreeMap<&'static str, ReportDiscovery<M>>,
    ) where
        M::Action: Debug + PartialEq,
        M::State: Debug + Hash + PartialEq,
    {
        let discovery = |found: ReportDiscovery<M>| Discovery {
            is_counterexample: matches!(
                found.classification,
                DiscoveryClassification::Counterexample
            ),
            steps: found.path.into_actions().iter().map(|step| format!("{step:?}")).collect(),
        };
        self.found =
            discoveries.into_iter().map(|(name, found)| (name, discovery(found))).collect();
    }

    /// How long the end of a search may go unnoticed.
    fn delay(&self) -> Duration {
        Duration::from_millis(50)
    }
}
