//! Runs programs on both sides, and counts what they met.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use serde_json::{Value, json};

use crate::differences::{DIFFERENCES, permitted};
use crate::exchange::{Exchange, is_of_all_keys};
use crate::program::{Program, Step, Turn};
use crate::side::{Answer, Setting, Side};
use crate::table::{LOOKALIKE, PARTITIONS, SORTS, TABLE};

/// The side that is right by definition, and the one that is tested.
#[derive(Clone, Copy)]
pub struct Sides<'a> {
    /// The plain engine.
    pub plain: &'a dyn Side,
    /// Who is to answer as it does.
    pub other: &'a dyn Side,
    /// How the other's table is kept.
    pub setting: Setting,
}

/// What some programs came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many programs.
    pub programs: u64,
    /// How often each operation was met.
    pub operations: BTreeMap<String, Count>,
    /// The rows of [`DIFFERENCES`] that were met, and how often.
    pub rows: BTreeMap<&'static str, u64>,
}

/// How often an operation was met, and what became of it on the plain side.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count {
    /// In all.
    pub met: u64,
    /// It succeeded.
    pub succeeded: u64,
    /// It was refused by a condition.
    pub by_condition: u64,
}

/// A difference that nothing permits.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step at which it was seen, or the number of steps if the tables differ at the end.
    pub step: usize,
    /// What was asked and answered there.
    pub exchange: Box<Exchange>,
}

/// Runs a program, as far as both sides have the same items, and returns what nothing permits. `run` tells it from all other runs on these sides.
pub async fn run(
    program: &Program,
    run: u64,
    sides: Sides<'_>,
    tally: &mut Tally,
) -> io::Result<Vec<Failure>> {
    sides.plain.begin(false).await?;
    sides.other.begin(program.is_owned).await?;
    tally.programs += 1;
    let mut failures = Vec::new();
    let mut before: Option<Exchange> = None;
    for (index, step) in program.steps.iter().enumerate() {
        if index == program.first {
            sides.other.go_on();
        }
        if let Some(turn) = Turn::of(step) {
            sides.other.take_turn(&turn).await;
            continue;
        }
        let exchange = exchange(step, run, sides, before.as_ref()).await;
        tally.count(&exchange);
        tally.judge(index, &exchange, &mut failures);
        if !exchange.agrees() && exchange.parts() {
            return Ok(failures);
        }
        // Where only one of them has a page, nothing can go on behind it.
        before = Some(exchange).filter(|exchange| exchange.plain.status == exchange.other.status);
    }
    for all in whole(sides.setting) {
        let exchange = exchange(&all, run, sides, None).await;
        tally.judge(program.steps.len(), &exchange, &mut failures);
    }
    Ok(failures)
}

/// What asks for all items. Where keys have several shards, a query of each shows their order, too.
fn whole(setting: Setting) -> Vec<Step> {
    let step =
        |operation: &str, body| Step { operation: operation.to_owned(), body, goes_on: false };
    let scan = step("Scan", json!({ "TableName": TABLE, "ConsistentRead": true }));
    if setting == Setting::Cold {
        return vec![scan];
    }
    let query = |partition| {
        let body = json!({ "TableName": TABLE, "ConsistentRead": true, "KeyConditionExpression": "pk = :p",
                           "ExpressionAttributeValues": { ":p": { "S": partition } } });
        step("Query", body)
    };
    PARTITIONS.into_iter().chain([LOOKALIKE]).map(query).chain([scan]).collect()
}

async fn exchange(step: &Step, run: u64, sides: Sides<'_>, before: Option<&Exchange>) -> Exchange {
    let mut for_plain = step.request(run, before.map(|before| &before.plain.body));
    let mut for_other = step.request(run, before.map(|before| &before.other.body));
    // Where keys have several shards, each side ends a page of all keys elsewhere.
    let is_whole = sides.setting != Setting::Cold && is_of_all_keys(&step.operation, &for_plain);
    if is_whole {
        drop_part(&mut for_plain);
        drop_part(&mut for_other);
    }
    if let (true, Setting::Moving, Some(members)) =
        (is_whole, sides.setting, for_other.as_object_mut())
    {
        // Small pages, with turns between them.
        members.insert("Limit".to_owned(), json!(3 + run % 4));
    }
    let mut plain = ask(sides.plain, &step.operation, &for_plain, is_whole).await;
    let mut other = ask(sides.other, &step.operation, &for_other, is_whole).await;
    // DynamoDB refuses a batch as a whole. Whether the other side does shows in what is there.
    if step.operation == "BatchWriteItem" && plain.status == 400 && other.status == 400 {
        for (side, answer) in [(sides.plain, &mut plain), (sides.other, &mut other)] {
            let mut left = Vec::new();
            // A scan shows what is first listed meanwhile twice. Of keys of several shards the queries show all.
            let is_shown = |all: &Step| sides.setting == Setting::Cold || all.operation == "Query";
            for all in whole(sides.setting).into_iter().filter(is_shown) {
                let mut found = side.call(&all.operation, &all.body).await;
                left.push(found.body["Items"].take());
            }
            if let Value::Object(members) = &mut answer.body {
                members.insert("Left".to_owned(), Value::Array(left));
            }
        }
    }
    Exchange::new(sides.setting, &step.operation, for_plain, plain, other)
}

/// Has a request ask for everything.
fn drop_part(request: &mut Value) {
    // The engine takes a key of another segment for the beginning of a page, which DynamoDB refuses.
    for name in ["Limit", "ExclusiveStartKey", "Segment", "TotalSegments"] {
        member(request, name);
    }
}

/// The answer of a side, or all of its pages as one, with how many they are.
async fn ask(side: &dyn Side, operation: &str, request: &Value, is_whole: bool) -> Answer {
    let mut all = side.call(operation, request).await;
    if !is_whole || all.status != 200 {
        return all;
    }
    let (mut request, mut pages) = (request.clone(), 1_usize);
    while let Some(last) = member(&mut all.body, "LastEvaluatedKey") {
        request["ExclusiveStartKey"] = last;
        // A turn may wait, so that not every page has one.
        if operation == "Scan" && request["IndexName"].is_null() && pages % 4 == 1 {
            side.take_turn(&turn(pages)).await;
        }
        let mut page = side.call(operation, &request).await;
        if page.status != 200 {
            return page;
        }
        pages += 1;
        if let (Some(Value::Array(items)), Some(Value::Array(more))) =
            (all.body.get_mut("Items"), member(&mut page.body, "Items"))
        {
            items.extend(more);
        }
        for name in ["Count", "ScannedCount"] {
            let counted = all.body[name].as_u64().zip(page.body[name].as_u64());
            all.body[name] = counted.map(|(before, of_page)| before + of_page).into();
        }
        if let Some(last) = member(&mut page.body, "LastEvaluatedKey") {
            all.body["LastEvaluatedKey"] = last;
        }
    }
    // What it took is that of the first page.
    member(&mut all.body, "ConsumedCapacity");
    all.body["Pages"] = pages.into();
    all
}

/// A turn of the reshards behind so many pages. Entries of an index that share their key may pass a page by when they move.
fn turn(pages: usize) -> Turn {
    let mut partitions = PARTITIONS.into_iter().chain([LOOKALIKE]).cycle();
    let partition = partitions.nth(pages / 4).unwrap_or_default().to_owned();
    Turn { partition, secs: 3, items: pages % SORTS.len() }
}

fn member(body: &mut Value, name: &str) -> Option<Value> {
    body.as_object_mut()?.remove(name)
}

impl Tally {
    fn count(&mut self, exchange: &Exchange) {
        let count = self.operations.entry(exchange.operation.clone()).or_default();
        let by_condition = ["ConditionalCheckFailedException", "TransactionCanceledException"];
        count.met += 1;
        count.succeeded += u64::from(exchange.plain.status == 200);
        count.by_condition += u64::from(by_condition.contains(&exchange.plain.exception()));
    }

    /// Counts the row that permits the answers to differ, or adds the step to the failures.
    fn judge(&mut self, step: usize, exchange: &Exchange, failures: &mut Vec<Failure>) {
        if exchange.agrees() {
            return;
        }
        match permitted(exchange) {
            Some(row) => *self.rows.entry(row).or_default() += 1,
            None => failures.push(Failure { step, exchange: Box::new(exchange.clone()) }),
        }
    }

    /// Adds what others counted.
    pub fn add(&mut self, other: Self) {
        self.programs += other.programs;
        for (operation, more) in other.operations {
            let count = self.operations.entry(operation).or_default();
            count.met += more.met;
            count.succeeded += more.succeeded;
            count.by_condition += more.by_condition;
        }
        for (row, more) in other.rows {
            *self.rows.entry(row).or_default() += more;
        }
    }

    /// The rows that answers show in this setting first, and that no program met.
    pub fn unmet(&self, setting: Setting) -> BTreeSet<&'static str> {
        let shown = DIFFERENCES.iter().filter(|row| row.permits.is_some());
        let shown = shown.filter(|row| row.settings.first() == Some(&setting));
        shown.map(|row| row.name).filter(|name| !self.rows.contains_key(name)).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<20} {:>9} {:>10} {:>13}", "operation", "met", "succeeded", "by condition")?;
        for (operation, count) in &self.operations {
            let percent = |part: u64| format!("{} %", part * 100 / count.met.max(1));
            let (succeeded, by_condition) = (percent(count.succeeded), percent(count.by_condition));
            writeln!(f, "{operation:<20} {:>9} {succeeded:>10} {by_condition:>13}", count.met)?;
        }
        for (row, times) in &self.rows {
            writeln!(f, "difference {row}: {times}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exchange { operation, request, plain, other, .. } = &*self.exchange;
        writeln!(f, "step {}: {operation} {request}", self.step)?;
        writeln!(f, "  plain: {} {}", plain.status, plain.body)?;
        write!(f, "  other: {} {}", other.status, other.body)
    }
}
