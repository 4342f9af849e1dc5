//! Makes a failing program smaller while it fails.

use std::io;

use serde_json::Value;

use crate::program::Program;
use crate::run::{Failure, Sides, Tally, run};

/// After so many runs a program is small enough.
const MOST_RUNS: u64 = 1_500;

/// The smallest program found that fails in the kind of way in which this one does, and how. Its runs have numbers from
/// `first_run` on.
pub async fn minimise(
    program: &Program,
    failure: Failure,
    first_run: u64,
    sides: Sides<'_>,
) -> io::Result<(Program, Failure)> {
    let mut smallest = Smallest { program: program.clone(), failure, runs: first_run, sides };
    let most = first_run + MOST_RUNS;
    loop {
        let before = smallest.program.clone();
        smallest.drop_steps().await?;
        smallest.drop_members().await?;
        if smallest.program == before || smallest.runs >= most {
            return Ok((smallest.program, smallest.failure));
        }
    }
}

struct Smallest<'a> {
    program: Program,
    failure: Failure,
    runs: u64,
    sides: Sides<'a>,
}

impl Smallest<'_> {
    /// Takes the program if it fails in the way that is looked for.
    async fn takes(&mut self, program: Program) -> io::Result<bool> {
        self.runs += 1;
        let failed = run(&program, self.runs, self.sides, &mut Tally::default()).await?;
        let wanted = |failure: &Failure| failure.exchange.kind() == self.failure.exchange.kind();
        let Some(failure) = failed.into_iter().find(wanted) else { return Ok(false) };
        (self.program, self.failure) = (program, failure);
        Ok(true)
    }

    /// Drops what is behind the failure, then halves, quarters and so on, down to single steps.
    async fn drop_steps(&mut self) -> io::Result<()> {
        self.program.steps.truncate(self.failure.step + 1);
        let mut length = self.program.steps.len().div_ceil(2);
        while length > 0 {
            let mut at = 0;
            while at < self.program.steps.len() {
                let mut shorter = self.program.clone();
                let end = (at + length).min(shorter.steps.len());
                shorter.steps.drain(at..end);
                shorter.first -= end.min(shorter.first).saturating_sub(at);
                if !self.takes(shorter).await? {
                    at += length;
                }
            }
            length /= 2;
        }
        Ok(())
    }

    /// Drops members and elements of requests, the outer ones first.
    async fn drop_members(&mut self) -> io::Result<()> {
        for step in 0..self.program.steps.len() {
            let mut at = 0;
            loop {
                let mut shorter = self.program.clone();
                let Some(inner) = shorter.steps.get_mut(step) else { break };
                if !remove(&mut inner.body, at) {
                    break;
                }
                if !self.takes(shorter).await? {
                    at += 1;
                }
            }
        }
        Ok(())
    }
}

/// Removes the member or element with this number, if there are so many.
fn remove(body: &mut Value, number: usize) -> bool {
    let mut left = number;
    let mut level = vec![body];
    while !level.is_empty() {
        let mut below = Vec::new();
        for value in level {
            let count = match &*value {
                Value::Object(members) => members.len(),
                Value::Array(elements) => elements.len(),
                _ => 0,
            };
            if left < count {
                match value {
                    Value::Object(members) => {
                        let name = members.keys().nth(left).cloned();
                        name.and_then(|name| members.remove(&name));
                    }
                    Value::Array(elements) => drop(elements.remove(left)),
                    _ => {}
                }
                return true;
            }
            left -= count;
            match value {
                Value::Object(members) => below.extend(members.values_mut()),
                Value::Array(elements) => below.extend(elements.iter_mut()),
                _ => {}
            }
        }
        level = below;
    }
    false
}
