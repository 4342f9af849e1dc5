//! `dynashard-model`: searches the model of the resharding protocol, and says what it found.
//!
//! ```text
//! cargo run --release -p dynashard-model -- [good|ext|query|random|epochs|settings|bugs|all] [--secs N] [--open-secs N] [--to-the-end] [--steps]
//! ```
//!
//! Each search of the protocol stops after `--secs`, or `--open-secs` if it is not known to end, and one for a mutation after a number of states. Each prints its row
//! of the table when it ends, and says if it was cut off. `--steps` prints every counterexample in full. The exit status
//! is 1 if a search found what it may not, did not find what it must, or did not get as far as its configuration says; 2
//! for arguments that it does not know.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use dynashard_model::check::{Limit, Progress, Report, Verdict};
use dynashard_model::config::{Configuration, Extent, Suite, limit_against};
use dynashard_model::mutation::{Expectation, Mutation};

const USAGE: &str =
    "usage: dynashard-model [good|ext|query|random|epochs|settings|bugs|all] [--secs N] [--open-secs N] [--to-the-end] [--steps]

  good      puts, deletes, conditional writes, updates and checks, with timeouts and crashes
  ext       upserts, If-Match on a version, routes over three homes
  query     queries while items move
  random    `random` collections that grow and shrink
  epochs    intervals of the sort keys that come to another count one after the other
  settings  changes of the lease term and of the lifetime of requests, the owner of a table, segments
  bugs      every mutation of the protocol, each of which must be caught
  all       all of these (the default)

  --secs N       end each search that is not of a mutation after N seconds (60)
  --open-secs N  the same for a search that is not known to end within 600 seconds (as --secs)
  --to-the-end   fail where a search is cut off that is listed as one that ends within 600 seconds
  --steps        print each counterexample in full";

/// The checker looks at the time only if it has more threads than one to share work between.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("dynashard-model: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut searches = Vec::new();
    for suite in &arguments.suites {
        let suite = suite.configurations().into_iter();
        searches.extend(suite.map(|search| {
            let (limit, expected) = (arguments.limit_of(&search), arguments.expects(&search));
            (search, limit, expected)
        }));
    }
    if arguments.mutations {
        for mutation in Mutation::ALL {
            let expected = match mutation.expectation() {
                Expectation::Caught => Expected::Violated,
                Expectation::DefenceInDepth(reason) => Expected::Uncaught(reason),
            };
            searches.push((Configuration::against(mutation), limit_against(mutation), expected));
        }
    }
    let total = searches.len();
    let (mut surprises, mut cut_off) = (0, 0);
    println!(
        "{:>11} {:>11} {:>5} {:>7}  search and verdict",
        "states", "generated", "depth", "time"
    );
    for (index, (search, limit, expected)) in searches.into_iter().enumerate() {
        let name = search.name.clone();
        let line = ProgressLine { name: &name, index: index + 1, total };
        let report = search.search(limit, &mut |progress| line.show(progress));
        ProgressLine::clear();
        let as_expected = expected.is_met_by(&report);
        cut_off += usize::from(report.verdict == Verdict::HoldsSoFar);
        surprises += usize::from(!as_expected);
        print_row(&name, &report, expected, as_expected);
        if arguments.steps || (matches!(expected, Expected::Holds { .. }) && !as_expected) {
            print_steps(&report.verdict);
        }
    }
    println!("{total} searches, {cut_off} cut off, {surprises} not as expected");
    if surprises == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Arguments {
    suites: Vec<Suite>,
    mutations: bool,
    limit: Limit,
    /// Of a search that is not known to end.
    open_limit: Limit,
    to_the_end: bool,
    steps: bool,
}

impl Arguments {
    /// Reads the command line. Nothing is returned if help was asked for.
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut what = None;
        let (mut secs, mut open_secs) = (60, None);
        let (mut to_the_end, mut steps) = (false, false);
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "-h" | "--help" => return Ok(None),
                "--steps" => steps = true,
                "--to-the-end" => to_the_end = true,
                "--secs" => secs = seconds(&argument, arguments.next())?,
                "--open-secs" => open_secs = Some(seconds(&argument, arguments.next())?),
                _ if what.is_none() => what = Some(argument),
                _ => return Err(format!("{argument:?} is one argument too many")),
            }
        }
        let (suites, mutations) = match what.as_deref().unwrap_or("all") {
            "good" => (vec![Suite::Good], false),
            "ext" => (vec![Suite::Ext], false),
            "query" => (vec![Suite::Query], false),
            "random" => (vec![Suite::Random], false),
            "epochs" => (vec![Suite::Epochs], false),
            "settings" => (vec![Suite::Settings], false),
            "bugs" => (vec![], true),
            "all" => (Suite::ALL.to_vec(), true),
            other => return Err(format!("{other:?} is not a suite")),
        };
        let [limit, open_limit] = [secs, open_secs.unwrap_or(secs)]
            .map(|secs| Limit::Time(Duration::from_secs(secs), THREADS));
        Ok(Some(Self { suites, mutations, limit, open_limit, to_the_end, steps }))
    }

    fn limit_of(&self, search: &Configuration) -> Limit {
        if search.extent == Extent::Open { self.open_limit } else { self.limit }
    }

    /// What is expected of a search of the protocol.
    fn expects(&self, search: &Configuration) -> Expected {
        Expected::Holds { ends: self.to_the_end && search.extent != Extent::Open }
    }
}

fn seconds(option: &str, value: Option<String>) -> Result<u64, String> {
    let number = value.ok_or_else(|| format!("{option} needs a number"))?;
    let secs = number.parse().ok().filter(|secs| *secs > 0);
    secs.ok_or_else(|| format!("{option} takes a number from 1 up, not {number:?}"))
}

/// What a search should end with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Holds {
        /// Whether it must come to its end.
        ends: bool,
    },
    Violated,
    /// Nothing is found, for this reason.
    Uncaught(&'static str),
}

impl Expected {
    fn is_met_by(self, report: &Report) -> bool {
        match self {
            Self::Holds { ends } => {
                let is_far_enough = !ends || report.verdict == Verdict::Holds;
                !report.verdict.is_violation() && is_far_enough && report.missing.is_empty()
            }
            Self::Violated => report.verdict.is_violation(),
            Self::Uncaught(_) => !report.verdict.is_violation() && report.missing.is_empty(),
        }
    }
}

fn print_row(name: &str, report: &Report, expected: Expected, as_expected: bool) {
    let Progress { unique, generated, depth, elapsed } = report.progress;
    let secs = elapsed.as_secs_f64();
    println!("{unique:>11} {generated:>11} {depth:>5} {secs:>6.1}s  {name}");
    let judgement = match expected {
        _ if !as_expected => "NOT AS EXPECTED: ".to_owned(),
        Expected::Violated => "caught: ".to_owned(),
        Expected::Holds { .. } | Expected::Uncaught(_) => String::new(),
    };
    println!("{:38}{judgement}{}", "", report.verdict);
    if !report.verdict.is_violation() && !report.missing.is_empty() {
        println!("{:38}no state shows {}", "", report.missing.join(", "));
    }
    if let Expected::Uncaught(reason) = expected {
        println!("{:38}defence in depth: {reason}", "");
    }
}

fn print_steps(verdict: &Verdict) {
    if let Verdict::Violated { steps, .. } = verdict {
        for (index, step) in (1..).zip(steps) {
            println!("{:38}{index:>3}. {step}", "");
        }
    }
}

/// One line on a terminal that is written over while a search runs.
struct ProgressLine<'a> {
    name: &'a str,
    index: usize,
    total: usize,
}

impl ProgressLine<'_> {
    fn show(&self, progress: Progress) {
        let Progress { unique, depth, elapsed, .. } = progress;
        let Self { name, index, total } = self;
        let secs = elapsed.as_secs();
        Self::write(&format!("[{index}/{total}] {name}: {unique} states, depth {depth}, {secs} s"));
    }

    fn clear() {
        Self::write("");
    }

    fn write(text: &str) {
        let mut terminal = std::io::stderr();
        if terminal.is_terminal() {
            // A search goes on where its line cannot be printed.
            let _ = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn everything_is_searched_unless_told_otherwise() {
        let arguments = parse("").unwrap().unwrap();
        assert_eq!(arguments.suites, Suite::ALL);
        assert!(arguments.mutations);
        assert_eq!(arguments.limit, Limit::Time(Duration::from_mins(1), THREADS));
    }

    #[test]
    fn a_suite_and_a_time_can_be_chosen() {
        let arguments = parse("good --secs 5 --steps").unwrap().unwrap();
        assert_eq!(arguments.suites, [Suite::Good]);
        assert!(!arguments.mutations && arguments.steps && !arguments.to_the_end);
        assert_eq!(arguments.limit, Limit::Time(Duration::from_secs(5), THREADS));
        assert_eq!(arguments.open_limit, arguments.limit);
        let open = parse("--secs 600 --open-secs 300").unwrap().unwrap().open_limit;
        assert_eq!(open, Limit::Time(Duration::from_mins(5), THREADS));
    }

    /// A search that was cut off passed without any statement.
    #[test]
    fn regression_a_search_that_was_cut_off_counted_as_one_that_ended() {
        let progress =
            Progress { unique: 1, generated: 1, depth: 1, elapsed: Duration::from_secs(1) };
        let cut_off = Report {
            verdict: Verdict::HoldsSoFar,
            progress,
            reached: vec!["a"],
            missing: Vec::new(),
        };
        assert!(Expected::Holds { ends: false }.is_met_by(&cut_off));
        assert!(!Expected::Holds { ends: true }.is_met_by(&cut_off));
        let short = Report { missing: vec!["b"], ..cut_off };
        assert!(!Expected::Holds { ends: false }.is_met_by(&short));
        assert!(!Expected::Uncaught("").is_met_by(&short));
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (line, problem) in [
            ("god", "\"god\" is not a suite"),
            ("good ext", "\"ext\" is one argument too many"),
            ("--secs", "--secs needs a number"),
            ("--secs 0", "--secs takes a number from 1 up, not \"0\""),
            ("--secs soon", "--secs takes a number from 1 up, not \"soon\""),
        ] {
            assert_eq!(parse(line).err().as_deref(), Some(problem), "{line}");
        }
    }
}
