//! `dynashard adopt --check`: what stands in the way of an adoption, and the plan if nothing does.

use std::path::Path;
use std::process::ExitCode;

use dynashard_aws_operator::{Inspector, Stack};
use dynashard_core::GrowKeys;
use dynashard_core::ports::Clock as _;
use futures_util::TryStreamExt;
use serde::Serialize;
use serde_json::Value;

use super::super::Failure;
use super::super::check::{self, Check, Totals};
use super::super::connect::tells_settings;
use super::super::files::replace;
use super::super::output::{Activity, Output};
use super::description::{self, Surroundings};
use super::judge;
use super::plan::{Parameters, Plan};
use super::state::{FORMAT, Position, Progress, StateFile, Subject};
use super::survey::{Lens, Survey, example};
use super::{AdoptArgs, Found, NOT_EXAMINED, PROBLEMS_FOUND, owner, parameter, policy, uses};
use crate::clock::Stopwatch;

/// Looks at the table, and reports.
pub(super) async fn run(args: &AdoptArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let found = Found::by(args).await?;
    let Found { stack, state, separator: wanted, .. } = &found;
    let (stack, wanted) = (stack.as_ref(), *wanted);
    let is_in_use = stack.is_some_and(|stack| uses(stack, &args.table));
    let grow_keys = match &args.grow_keys {
        None => parameter::<GrowKeys>(stack, "GrowKeys")?.unwrap_or_default(),
        Some(given) => given.clone(),
    };

    let around = surroundings(&found).await;
    let mut checks = description::keys(state);
    checks.extend(description::checks(&args.table, state, &around));
    let schema = found.schema().ok();
    if let Some(schema) = &schema {
        checks.push(owner::check(&found, schema).await);
    }
    let survey = match &schema {
        Some(schema) if !args.skip_scan => {
            let lens = Lens {
                schema,
                grow_keys: &grow_keys,
                local_indexes: state.local_indexes.len(),
                is_in_use,
            };
            Some(survey(&found, lens, output).await?)
        }
        _ => None,
    };
    let (begun, survey) = survey.unzip();
    let separator = if let Some(survey) = &survey {
        checks.extend(judge::checks(survey, wanted, is_in_use));
        judge::chosen_separator(survey, wanted)
    } else {
        let seen = match schema {
            Some(_) => "the items were not read",
            None => "the items were not read: the keys stand in the way",
        };
        checks.push(Check::unknown("items", seen));
        Some(wanted.unwrap_or_default())
    };
    let totals = Totals::of(&checks);
    let mut report = Report {
        table: &args.table,
        adoptable: totals.problems == 0 && survey.is_some() && around.ttl.is_ok(),
        scan_begun: begun,
        items: survey.as_ref().map(|survey| survey.items),
        bytes: survey.as_ref().map(|survey| survey.bytes),
        consumed_rcu: survey.as_ref().map(|survey| survey.consumed_rcu),
        plan: None,
        policy: None,
        checks,
        totals,
    };
    if let (0, Some(schema), Some(separator)) = (totals.problems, &schema, separator) {
        let ttl = around.ttl.as_ref().ok().map(|ttl| ttl.clone().unwrap_or_default());
        let table = args.table.as_str();
        let file = args.policy.as_deref().unwrap_or(Path::new("policy.json")).display().to_string();
        let parameters = Parameters::new(table, schema, separator, ttl, grow_keys.to_string());
        report.plan = Some(Plan::new(
            parameters,
            (table, &state.arn),
            args.stack_name.as_deref(),
            &file,
            &args.caller.for_shell(),
        ));
        let roles = stack.filter(|_| is_in_use).and_then(|stack| roles(args, stack));
        report.policy =
            roles.map(|roles| policy::policy(&state.arn, &roles, &grow_keys, separator));
        if report.policy.is_none() && args.policy.is_some() {
            let why = "the stack has no WriteRole, ReadRole or RebalanceRole; is it dynashard's?";
            return Err(Failure::connection(why.to_owned()));
        }
    }
    for finding in survey.iter().flat_map(judge::findings) {
        output.event("finding", &finding);
    }
    report.print(args, output)?;
    Ok(match (totals.problems, report.adoptable) {
        (1.., _) => ExitCode::from(PROBLEMS_FOUND),
        (0, false) => ExitCode::from(NOT_EXAMINED),
        (0, true) => ExitCode::SUCCESS,
    })
}

async fn surroundings(Found { args, operator, state, .. }: &Found<'_>) -> Surroundings {
    let table = &args.table;
    Surroundings {
        caller: args.caller.for_shell(),
        ttl: Inspector::of(operator).ttl_attribute(table).await,
        legacy_replicas: Inspector::of(operator).legacy_replicas(table).await,
        kinesis: Inspector::of(operator).kinesis_streams(table).await,
        insights: Inspector::of(operator).has_contributor_insights(table).await,
        recovery: Inspector::of(operator).is_recoverable(table).await,
        policy: Inspector::of(operator).resource_policy(&state.arn).await,
    }
}

/// Reads every item, from where an earlier run has ended.
async fn survey(
    found: &Found<'_>,
    lens: Lens<'_>,
    output: &Output,
) -> Result<(u64, Survey), Failure> {
    let Found { args, operator, state, .. } = found;
    let schema = lens.schema;
    let now = operator.clock().now().wall.as_secs();
    let subject = Subject {
        format: FORMAT,
        table: state.arn.clone(),
        identity: state.identity.clone(),
        segments: args.segments,
        grow_keys: lens.grow_keys.to_string(),
        is_in_use: lens.is_in_use,
    };
    let file = args.state.clone().map(|path| StateFile::new(path, subject, schema.clone()));
    let earlier = file.as_ref().map(|file| file.load(now)).transpose()?.flatten();
    let activity = Activity::begin(!output.is_for_machines());
    if let (Some(earlier), Some(file)) = (&earlier, &file) {
        activity.notes(&format!(
            "dynashard: continuing from {}, behind {} items; it was begun at {} (epoch seconds), {} minutes \
             ago",
            file.path.display(),
            earlier.survey.items,
            earlier.begun,
            now.saturating_sub(earlier.begun) / 60
        ));
    }
    let mut progress = earlier.unwrap_or_else(|| Progress::new(args.segments, now));
    let begun = (progress.survey.items, Stopwatch::start());
    let scan = found.scan();
    let mut pages = scan.pages(progress.begins(schema)?, false);
    while let Some((segment, page)) = pages.try_next().await? {
        for item in &page.items {
            progress.survey.observe(item, lens);
        }
        progress.survey.consumed_rcu += page.consumed_rcu;
        let after = |key| Position::After(example(&key, schema));
        progress.positions[segment.number as usize] = page.next.map_or(Position::End, after);
        activity.says(|| describe(&progress.survey, state.items, begun));
        file.as_ref().map_or(Ok(()), |file| file.save(&progress))?;
    }
    if let Some(file) = &file {
        file.remove();
    }
    Ok((progress.begun, progress.survey))
}

/// The progress, for people. `begun` is what was read before, and since when.
fn describe(survey: &Survey, expected: u64, begun: (u64, Stopwatch)) -> String {
    let Survey { items, consumed_rcu, .. } = survey;
    let left = time_left_secs(*items, expected, begun.0, begun.1.elapsed().as_secs());
    let left = left.map_or_else(String::new, |secs| match secs {
        ..120 => format!(", about {secs} s left"),
        120..7_200 => format!(", about {} min left", secs / 60),
        _ => format!(", about {} h left", secs / 3_600),
    });
    format!("{items} of about {expected} items, {consumed_rcu:.0} read units{left}")
}

/// How long the rest takes at the rate of this run; nothing while that is unknown, or DynamoDB's own count
/// is out of date.
fn time_left_secs(items: u64, expected: u64, before: u64, elapsed_secs: u64) -> Option<u64> {
    let left = expected.checked_sub(items)?;
    let read = items.checked_sub(before).filter(|read| *read > 0)?;
    (elapsed_secs > 1).then(|| left.saturating_mul(elapsed_secs) / read)
}

/// Who may write: the roles of the functions, those of applications beside an endpoint, and those of operators. Nobody, unless all
/// are known.
fn roles(args: &AdoptArgs, stack: &Stack) -> Option<Vec<String>> {
    let functions = stack.outputs.get("WritingRoleArns")?;
    if !tells_settings(stack) {
        return None;
    }
    // Stacks of before there were endpoints have none.
    let endpoints = stack.parameters.get("EndpointRoleArns").map_or("", String::as_str);
    let of_stack = functions.split(',').chain(endpoints.split(',')).filter(|arn| !arn.is_empty());
    let of_stack = of_stack.map(str::to_owned);
    Some(of_stack.chain(args.operator_role.iter().cloned()).collect())
}

/// `{"event":"adopt", ...}`
#[derive(Serialize)]
struct Report<'a> {
    table: &'a str,
    adoptable: bool,
    /// When the items began to be read, in epoch seconds; null if they were left out.
    scan_begun: Option<u64>,
    items: Option<u64>,
    bytes: Option<u64>,
    consumed_rcu: Option<f64>,
    checks: Vec<Check>,
    plan: Option<Plan>,
    /// The resource-based policy.
    policy: Option<Value>,
    #[serde(flatten)]
    totals: Totals,
}

impl Report<'_> {
    fn print(&self, args: &AdoptArgs, output: &mut Output) -> Result<(), Failure> {
        output.event("adopt", self);
        check::print(&self.checks, output);
        output.text(self.totals);
        let table = self.table;
        if let Some(begun) = self.scan_begun {
            output.text(format_args!("the items were read from {begun} on (epoch seconds)"));
        }
        output.text(match (self.adoptable, self.totals.problems) {
            (true, _) => format!("{table} can be adopted"),
            (false, 0) if self.items.is_some() => {
                format!("nobody could see by which attribute items of {table} expire")
            }
            (false, 0) => {
                format!("nothing is known of the items of {table}: run it without --skip-scan")
            }
            (false, _) => format!("{table} cannot be adopted as it is"),
        });
        if let Some(plan) = &self.plan {
            output.text("\nWhat to do (docs/ADOPTING.md):");
            for (step, number) in plan.steps.iter().zip(1..) {
                output.text(format_args!("{number}. {step}"));
            }
        }
        let Some(policy) = &self.policy else { return Ok(()) };
        let (text, fits) = policy::text(policy);
        if !fits {
            note!(
                "dynashard: the policy has more than the 20 KB that DynamoDB takes; use fewer patterns"
            );
        }
        if let Some(path) = &args.policy {
            let failed = |error| Failure {
                code: "output_failed",
                detail: format!("{} cannot be written: {error}", path.display()),
            };
            replace(path, (text + "\n").as_bytes()).map_err(failed)?;
            output.text(format_args!("\nThe policy is in {}", path.display()));
        } else {
            output
                .text(format_args!("\nThe policy of the step that denies other writers:\n{text}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_rate_of_this_run() {
        assert_eq!(time_left_secs(300, 1_000, 100, 10), Some(35));
        assert_eq!(time_left_secs(100, 1_000, 100, 10), None, "nothing read yet");
        assert_eq!(time_left_secs(300, 1_000, 100, 1), None, "too soon to tell");
        assert_eq!(time_left_secs(2_000, 1_000, 0, 10), None, "DynamoDB counted long ago");
    }
}
