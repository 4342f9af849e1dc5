//! What is decided in situations that are written down: each file of `situations` says what is known, and
//! below that the decision and its sentence. `UPDATE_DECISIONS=1 cargo test -p dynashard-core --test decisions`
//! writes the answers anew: read every one that has changed.

mod laws;
mod regressions;
mod situation;

use std::collections::BTreeSet;
use std::path::PathBuf;

use situation::Situation;

/// The answer is behind this line.
const ANSWER: &str = "--";

struct File {
    path: PathBuf,
    text: String,
}

fn files() -> Vec<File> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/decisions/situations");
    let entries = std::fs::read_dir(dir).expect("the situations");
    let mut paths =
        entries.map(|entry| entry.expect("a situation").path()).collect::<Vec<PathBuf>>();
    paths.sort();
    let files = paths.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).expect("a text");
        File { path, text }
    });
    files.collect()
}

impl File {
    /// The situations: their title, what is known, and the expected answer.
    fn situations(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.text.split("\n== ").skip(1).map(|part| {
            let (title, rest) = part.split_once('\n').expect("a title");
            let (known, answer) = rest.split_once(&format!("{ANSWER}\n")).unwrap_or((rest, ""));
            (title, known.trim(), answer.trim())
        })
    }

    /// The table of situations with these answers.
    fn with(&self, answers: &[String]) -> String {
        let (head, _) = self.text.split_once("\n== ").expect("a situation");
        let parts = self.situations().zip(answers).map(|((title, known, _), answer)| {
            format!("\n== {title}\n{known}\n{ANSWER}\n{answer}\n")
        });
        format!("{head}{}", parts.collect::<String>())
    }
}

#[test]
fn every_situation_gets_the_decision_that_is_written_down() {
    let updates = std::env::var_os("UPDATE_DECISIONS").is_some();
    let mut wrong = Vec::new();
    for file in files() {
        let mut answers = Vec::new();
        for (title, known, expected) in file.situations() {
            let answer = Situation::of(known).answer();
            if answer != expected {
                wrong.push(format!("{title}\n  expected\n{expected}\n  decided\n{answer}"));
            }
            answers.push(answer);
        }
        if updates {
            std::fs::write(&file.path, file.with(&answers)).expect("written");
        }
    }
    assert!(updates || wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_situations_show_every_diagnosis_action_hindrance_and_bound() {
    let files = files();
    let situations = files.iter().flat_map(File::situations).collect::<Vec<_>>();
    assert!(situations.len() >= 45, "{}", situations.len());
    let first_lines = situations.iter().filter_map(|(_, _, answer)| answer.lines().next());
    let words = first_lines.flat_map(str::split_whitespace).collect::<BTreeSet<_>>();
    let diagnoses = [
        "hot_key",
        "hot_reads",
        "ramp",
        "hot_item",
        "hot_queries",
        "neighbour",
        "table_capacity",
        "account_limit",
        "max_on_demand",
        "index",
        "replica",
        "unknown_limit",
        "too_little_evidence",
        "cooled_down",
        "in_use",
    ];
    let actions = ["none", "grow", "turn_round", "shrink"];
    let hindrances = [
        "running",
        "cooldown",
        "at_max_shards",
        "not_allowed",
        "clearing_up",
        "too_dear",
        "too_long",
    ];
    let bounds = ["max_shards", "step"];
    let all = diagnoses.iter().chain(&actions).chain(&hindrances).chain(&bounds);
    let missing = all.filter(|word| !words.contains(*word)).collect::<Vec<_>>();
    assert!(missing.is_empty(), "no situation shows {missing:?}");
}
