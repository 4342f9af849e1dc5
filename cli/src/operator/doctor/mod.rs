//! `dynashard doctor`: measures how old a signature DynamoDB takes, and looks at what else an
//! application needs.

mod checks;
mod window;

use std::process::ExitCode;

use dynashard_api::settings::{is_request_lifetime_verified, shortest_lifetime};
use dynashard_aws_operator::{
    Inspector, ProbeAnswer, SignatureProbe, SignatureVerdict, Stack, TrialRead, Unseen,
    is_on_this_machine, schema_of,
};
use dynashard_core::{Pinned, TableSchema};
use futures_util::future::join_all;
use serde::Serialize;

use super::check::{self, Check, Totals};
use super::connect::{ConnectArgs, parameter};
use super::output::{Activity, Form, Output};
use super::{Failure, INTERRUPTED, until_interrupted};
use checks::{IF_CONFIRMED, Lifetime, Role, Table};
use window::{Bound, Dates, Survey, Window};

/// Something is a problem.
const PROBLEMS_FOUND: u8 = 1;

/// The tables could not be reached, or the signature window could not be measured.
const NOT_EXAMINED: u8 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Connections on which each age of a signature is tried. More of them reach more hosts of DynamoDB,
    /// which may differ.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Print JSON on stdout: one object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
A reshard closes only when no request that was signed before it can execute any more, which takes
RequestLifetimeSecs. DynamoDB refuses requests whose signatures are too old: in some places after 5
minutes, in others after 15. The command reads an item that nobody has, signed up to 31 minutes ago,
and reports which ages are refused. The error names an age, too, and the longer of the two counts.
RequestLifetimeSecs is that and a minute. Where runs on several days say that less than 960 will do,
run the `dynashard settings` that the report names. If an answer is lost, the measurement is
incomplete, and nothing below 960 is recommended.

Each line says what was seen and, if need be, what to do:
  ok        as it should be; advice may follow
  warning   it works, but not as well or as safely as the template would have it
  problem   the application does not work, or may lose writes
  unknown   it could not be seen: a permission is missing, or the server does not support it

The command writes nothing. With 8 connections its reads usually take under 50 read units.

Exit status: 0 without problems, 1 with a problem, 2 if the tables could not be reached or,
without a problem, the signature window could not be measured; 130 after Ctrl-C.

Examples:
  dynashard doctor --stack-name dynashard
  dynashard doctor --stack-name dynashard --connections 32 --json | jq .signature_window
  dynashard doctor --endpoint-url http://127.0.0.1:8000 --main-table MainTable";

pub(crate) async fn run(args: DoctorArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let status = match until_interrupted(Box::pin(examine(&args))).await {
        Ok(Some(report)) => {
            report.print(&mut output);
            report.exit_code()
        }
        Ok(None) => {
            note!("dynashard: interrupted");
            ExitCode::from(INTERRUPTED)
        }
        Err(failure) => {
            output.failure(None, &failure);
            ExitCode::from(NOT_EXAMINED)
        }
    };
    output.end(status)
}

async fn examine(args: &DoctorArgs) -> Result<Report, Failure> {
    let place = args.connect.locate().await?;
    let (operator, activity) = (&place.operator, Activity::begin(!args.json));
    activity.says(|| "looking at the tables".to_owned());
    let main = Inspector::of(operator).table(&place.main_table).await;
    if let Err(Unseen::Unanswered(why)) = &main {
        return Err(unreachable(why));
    }
    let metadata = Inspector::of(operator).table(&place.metadata_table).await;
    let found = main.as_ref().ok().zip(metadata.as_ref().ok()).map(|(main, metadata)| {
        let (main, metadata) = ((&*place.main_table, main), (&*place.metadata_table, metadata));
        schema_of(main, metadata, place.settings.schema.separator)
    });
    let schema = found.as_ref().and_then(|found| found.as_ref().ok());
    let schema = schema.unwrap_or(&place.settings.schema);

    let probes =
        SignatureProbe::connect(operator, &place.main_table, schema, args.connections.into());
    let measured = measure(&mut probes.await?, &activity).await?;
    activity.says(|| "looking at what else the application needs".to_owned());

    let stack = place.stack.as_ref();
    let value = |name: &str| stack.map(|s| s.parameters.get(name).map_or("", String::as_str));
    // What is pinned counts, and the parameters before that. Nobody knows what a stack has that was not named.
    let pinned = if args.connect.names_stack() { place.pinned().await } else { Ok(None) };
    let held = pinned.as_ref().ok().and_then(Option::as_ref);
    let lifetime = Lifetime {
        secs: held
            .map(|held| held.request_lifetime.accepted)
            .or(stack.map(|_| place.settings.request_lifetime))
            .map_or(args.connect.request_lifetime_secs(), |lifetime| Some(lifetime.as_secs())),
        age_secs: held.map_or(0, |held| held.signature_age.as_secs()),
        is_refused: match stack {
            Some(stack) => {
                !is_verified(stack)?
                    && place.settings.request_lifetime
                        < shortest_lifetime(place.settings.signature_age, false)
            }
            None => false,
        },
        is_on_this_machine: stack.is_none()
            && measured.server.as_deref().is_some_and(is_on_this_machine),
    };
    let [main_table, metadata_table] =
        [(Role::Main, &place.main_table), (Role::Metadata, &place.metadata_table)]
            .map(|(role, name)| Table { role, name });
    let window = &measured.signature_window.window;
    let mut checks = vec![
        checks::clock(measured.clock_ahead_secs),
        checks::signature_window(window),
        match &pinned {
            Ok(_) => checks::request_lifetime(window, lifetime),
            Err(error) => checks::unknown_settings(error),
        },
        checks::table(main_table, &main),
        checks::table(metadata_table, &metadata),
    ];
    // Of tables that were not seen, their own lines say why.
    if let Some(found) = &found {
        let fits = |found: &TableSchema| stack.is_none() || *found == place.settings.schema;
        checks.push(checks::keys(found.as_ref().map(fits).map_err(ToString::to_string)));
    }
    for read in [TrialRead::GetItem, TrialRead::Query] {
        let found = Inspector::of(operator).try_main(read, main_table.name, schema).await;
        checks.push(checks::read_permission(main_table, read, &found));
    }
    for read in [TrialRead::GetItem, TrialRead::Scan] {
        let found = Inspector::of(operator).try_metadata(read, metadata_table.name, schema).await;
        checks.push(checks::read_permission(metadata_table, read, &found));
    }
    checks.push(checks::write_permissions(main_table.name, metadata_table.name));
    for (table, state) in [(main_table, &main), (metadata_table, &metadata)] {
        checks.push(checks::recovery(
            table,
            &Inspector::of(operator).is_recoverable(table.name).await,
        ));
        checks.extend(state.as_ref().map(|state| checks::protection(table, state)));
    }
    let ttl = Inspector::of(operator).ttl_attribute(main_table.name).await;
    checks.push(checks::time_to_live(main_table.name, &ttl, value("TtlAttribute")));
    let insights = Inspector::of(operator).has_contributor_insights(main_table.name).await;
    checks.push(checks::contributor_insights(main_table.name, &insights));
    if let Ok(main) = &main {
        let quota = Inspector::of(operator).table_quota().await;
        let of_stack = stack.map(|_| &place.settings);
        checks.push(checks::room(main, &quota, place.settings.partition, of_stack));
        checks.extend(checks::indexes(main, &place.settings));
    }
    let [scale, rebalance, write, read] = ["Scale", "Rebalance", "Write", "Read"]
        .map(|function| value(&format!("{function}ReservedConcurrency")));
    checks.push(checks::concurrency(scale, rebalance));
    if pinned.as_ref().is_ok_and(|pinned| pinned.as_ref().is_none_or(Pinned::has_segments)) {
        let term = held.map_or(place.settings.lease_term, |held| held.lease_term.accepted);
        checks.push(checks::environments(term, write, read));
    }
    Ok(Report {
        recommended_request_lifetime_secs: measured.signature_window.window.request_lifetime_secs(),
        recommended_dates: measured.signature_window.window.dates(),
        measured,
        request_lifetime_secs: lifetime.secs,
        totals: Totals::of(&checks),
        checks,
    })
}

/// `RequestLifetimeVerified` of a stack.
fn is_verified(stack: &Stack) -> Result<bool, Failure> {
    let lookup = |variable: &str| stack.parameters.get(&parameter(variable)).cloned();
    is_request_lifetime_verified(lookup).map_err(|error| {
        Failure::connection(format!(
            "the parameter {} {}",
            parameter(error.name()),
            error.problem()
        ))
    })
}

/// What the reads of old signatures told.
#[derive(Serialize)]
struct Measured {
    /// The server that was asked, as `host` or `host:port`.
    server: Option<String>,
    /// By how many seconds the local clock is ahead of the server's; below 0 it is behind.
    clock_ahead_secs: Option<i64>,
    signature_window: MeasuredWindow,
}

#[derive(Serialize)]
struct MeasuredWindow {
    #[serde(flatten)]
    window: Window,
    reads: usize,
}

async fn measure(probes: &mut [SignatureProbe], activity: &Activity) -> Result<Measured, Failure> {
    activity.says(|| "reading the server's clock".to_owned());
    let connected = read_on_all(probes, 0).await;
    if let Some(why) = nobody_answered(&connected) {
        return Err(unreachable(why));
    }
    // Once connected, an answer takes less time. Ages are those that the server sees, whatever the
    // local clock shows.
    let answers = read_on_all(probes, 0).await;
    let clock_ahead_secs = clock_ahead_secs(connected.iter().chain(&answers));
    let server = answers.iter().find_map(|answer| answer.server.clone());
    let mut survey = Survey::new(probes.len(), clock_ahead_secs.is_some());
    let mut reads = connected.len() + answers.len();
    while let Some(age_secs) = survey.next_age() {
        activity.says(|| format!("reading with a signature of {age_secs} s ago"));
        let age = i64::try_from(age_secs).unwrap_or(i64::MAX);
        let shift_secs = age.saturating_add(clock_ahead_secs.unwrap_or_default()).saturating_neg();
        let answers = read_on_all(probes, shift_secs).await;
        reads += answers.len();
        survey.note(age_secs, answers.iter().map(|answer| &answer.verdict));
        if age_secs == 0 {
            refuse_unknown(&answers)?;
        }
    }
    let signature_window = MeasuredWindow { window: survey.window(), reads };
    Ok(Measured { server, clock_ahead_secs, signature_window })
}

/// Sends a read on each connection, once: after a lost answer, another would come from another host.
async fn read_on_all(probes: &mut [SignatureProbe], shift_secs: i64) -> Vec<ProbeAnswer> {
    join_all(probes.iter_mut().map(|probe| probe.read(shift_secs))).await
}

/// By how many seconds the local clock is ahead, by the answer that took the shortest: one that takes
/// long agrees with many a clock.
fn clock_ahead_secs<'a>(answers: impl Iterator<Item = &'a ProbeAnswer>) -> Option<i64> {
    let ahead = answers.filter_map(|answer| Some((answer.took, answer.clock_ahead_secs?)));
    ahead.min_by_key(|(took, _)| *took).map(|(_, secs)| secs)
}

/// Why there was no answer on any connection.
fn nobody_answered(answers: &[ProbeAnswer]) -> Option<&str> {
    let whys = answers.iter().map(|answer| match &answer.verdict {
        SignatureVerdict::Unanswered(why) => Some(why.as_str()),
        _ => None,
    });
    whys.collect::<Option<Vec<_>>>()?.into_iter().next()
}

/// Fails if no new signature was judged: then neither will old ones be.
fn refuse_unknown(answers: &[ProbeAnswer]) -> Result<(), Failure> {
    if let Some(why) = nobody_answered(answers) {
        return Err(unreachable(why));
    }
    let is_judged = |verdict: &SignatureVerdict| {
        matches!(verdict, SignatureVerdict::Accepted | SignatureVerdict::Expired { .. })
    };
    if answers.iter().any(|answer| is_judged(&answer.verdict)) {
        return Ok(());
    }
    let why = answers.iter().find_map(|answer| match &answer.verdict {
        SignatureVerdict::Unknown(why) => Some(why.as_str()),
        _ => None,
    });
    Err(Failure::connection(format!("DynamoDB executed no read: {}", why.unwrap_or_default())))
}

fn unreachable(why: &str) -> Failure {
    Failure::connection(format!(
        "DynamoDB cannot be reached: {why}; check the network, --region and --endpoint-url"
    ))
}

/// `{"event":"doctor", ...}`
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    measured: Measured,
    /// `RequestLifetimeSecs` as it is; null if nobody said so.
    request_lifetime_secs: Option<u64>,
    /// The one that follows from the window; null without a window, or if none is long enough.
    recommended_request_lifetime_secs: Option<u64>,
    /// The dates of writes that follow from the window; null without a window.
    recommended_dates: Option<Dates>,
    checks: Vec<Check>,
    #[serde(flatten)]
    totals: Totals,
}

impl Report {
    fn exit_code(&self) -> ExitCode {
        if self.totals.problems > 0 {
            return ExitCode::from(PROBLEMS_FOUND);
        }
        match self.measured.signature_window.window.bound {
            Bound::Within { .. } | Bound::NoneRefused { .. } => ExitCode::SUCCESS,
            Bound::NoneAccepted | Bound::Incomplete { .. } => ExitCode::from(NOT_EXAMINED),
        }
    }

    fn print(&self, output: &mut Output) {
        output.listing("doctor", "checks", self);
        if let Some(server) = &self.measured.server {
            output.text(format_args!("DynamoDB at {server}"));
        }
        check::print(&self.checks, output);
        if let Some(secs) = self.recommended_request_lifetime_secs {
            output.text(format_args!(
                "RequestLifetimeSecs {secs} follows from the signature window, {IF_CONFIRMED}"
            ));
        }
        output.text(self.totals);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn regression_the_slowest_answer_told_the_time() {
        let answer = |took_secs, clock_ahead_secs| ProbeAnswer {
            verdict: SignatureVerdict::Accepted,
            took: Duration::from_secs(took_secs),
            clock_ahead_secs,
            server: None,
        };
        let answers =
            [answer(9, Some(0)), answer(1, Some(-8)), answer(2, Some(7)), answer(0, None)];
        assert_eq!(clock_ahead_secs(answers.iter()), Some(-8));
        assert_eq!(clock_ahead_secs(answers[3..].iter()), None);
    }
}
