//! A program: what one seed asks of both sides.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Operations in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// From what it was drawn.
    pub seed: u64,
    /// Whether the table holds the item that says whose it is. Such a program scans the table as a whole.
    pub is_owned: bool,
    /// How many of its steps are the first ones, which come before the reshards of settings that have some.
    pub first: usize,
    /// What it asks.
    pub steps: Vec<Step>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Such as `PutItem`.
    pub operation: String,
    /// The request, of which a client's token is still to be told from that of other runs ([`Step::request`]).
    pub body: Value,
    /// Whether it goes on from where the answer before it ended, if that has a `LastEvaluatedKey`.
    pub goes_on: bool,
}

impl Step {
    /// The request of the run with this number, behind what the side has last answered. A token of an earlier run would
    /// find that run's answer.
    pub fn request(&self, run: u64, before: Option<&Value>) -> Value {
        let mut body = self.body.clone();
        if let Some(Value::String(token)) = body.get_mut("ClientRequestToken")
            && !token.is_empty()
            && token.len() < 20
        {
            *token = format!("{token}-{run}");
        }
        let start = before.and_then(|answer| answer.get("LastEvaluatedKey"));
        if let (true, Some(start), Some(members)) = (self.goes_on, start, body.as_object_mut()) {
            members.insert("ExclusiveStartKey".to_owned(), start.clone());
        }
        body
    }
}

/// A turn of the reshards, which is a step of programs whose keys are resharded meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Of which key.
    pub partition: String,
    /// So many seconds have passed since the turn before.
    pub secs: u64,
    /// At most so many items are moved, and as many markers removed.
    pub items: usize,
}

impl Turn {
    const OPERATION: &str = "Turn";

    /// The step, of which a smaller program may lack members.
    pub fn step(&self) -> Step {
        let Self { partition, secs, items } = self;
        let body = json!({ "Partition": partition, "Secs": secs, "Items": items });
        Step { operation: Self::OPERATION.to_owned(), body, goes_on: false }
    }

    /// The turn that this step is, if it is one.
    pub fn of(step: &Step) -> Option<Self> {
        let Step { operation, body, .. } = step;
        (operation == Self::OPERATION).then(|| Self {
            partition: body["Partition"].as_str().unwrap_or_default().to_owned(),
            secs: body["Secs"].as_u64().unwrap_or_default(),
            items: body["Items"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or_default(),
        })
    }
}

impl Program {
    /// A line of curl for each step, for an engine or an endpoint on this machine.
    pub fn to_curl(&self) -> String {
        let mut lines = format!("# seed {}\n", self.seed);
        for (index, step) in self.steps.iter().enumerate() {
            if index == self.first {
                lines.push_str("# where keys are resharded, they are from here on\n");
            }
            if let Some(Turn { partition, secs, items }) = Turn::of(step) {
                writeln!(
                    lines,
                    "# {secs} s pass, and at most {items} items of {partition} are moved"
                )
                .expect("a string takes every text");
                continue;
            }
            let goes_on = if step.goes_on { " # goes on behind the last answer" } else { "" };
            let body = step.body.to_string().replace('\'', r"'\''");
            let target = format!("X-Amz-Target: DynamoDB_20120810.{}", step.operation);
            writeln!(
                lines,
                "curl -s $ENDPOINT --user a:b --aws-sigv4 aws:amz:us-east-1:dynamodb -H \
                 'Content-Type: application/x-amz-json-1.0' -H '{target}' -d '{body}'{goes_on}"
            )
            .expect("a string takes every text");
        }
        lines
    }
}
