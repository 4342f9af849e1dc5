//! `dynashard settings`: shows the settings that are pinned, and changes those that may change.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use dynashard_api::settings::{
    LONGEST_LEASE, LONGEST_REQUEST_LIFETIME, LONGEST_SIGNATURE_AGE, check_dates,
};
use dynashard_aws_operator::{Operator, Stack};
use dynashard_core::{Deadline, Directory, Pinned, PinnedTime, RequestDates};
use serde::Serialize;

use super::connect::{ConnectArgs, Connection, deadline};
use super::output::{Activity, Form, Output};
use super::{Failure, INTERRUPTED, PATIENCE, signals};

/// How often CloudFormation is asked for the stack's parameter.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// More than it takes to read the metadata of all collections that one item can list, again where keys are sharded meanwhile.
const CONVERSION_TIME: Duration = Duration::from_mins(30);

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct SettingsArgs {
    /// Change `LeaseSecs`, or `SignatureAgeSecs` and `RequestLifetimeSecs`; may be repeated.
    #[arg(long = "set", value_name = "NAME=SECS", value_parser = assignment)]
    assignments: Vec<(Name, Duration)>,
    /// Convert the directory of a stack that an earlier version has set up, so that it takes millions of sharded keys.
    #[arg(long, conflicts_with = "assignments")]
    convert_directory: bool,
    /// All functions have the new `LeaseSecs`: complete the change without waiting for the stack.
    #[arg(long, requires = "assignments")]
    deployed: bool,
    /// `dynashard doctor` has measured what `RequestLifetimeSecs` follows from.
    #[arg(long, requires = "assignments")]
    verified: bool,
    /// Print JSON on stdout.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Functions and commands whose keys, separator or LeaseSecs differ from the pinned ones answer settings_mismatch and do
nothing. So LeaseSecs changes in steps, while clients read and write:

  1. Run `dynashard settings --stack-name NAME --set LeaseSecs=10`. From now on functions with the old value and
     functions with the new one may act. Endpoints (`dynashard serve`) go over to the new one by themselves.
  2. Deploy the stack with LeaseSecs=10. The command sees it, accepts only the new value, and waits until nobody can
     act under the old one: twice the longer value and a little more.

SignatureAgeSecs and RequestLifetimeSecs need no deployment: all act by what is pinned. Writes are dated SignatureAgeSecs
ago, by DynamoDB's clock, so that DynamoDB refuses them sooner, and a reshard closes RequestLifetimeSecs after its new
count is in force. Run `dynashard doctor` first: it says which values go together. A shorter RequestLifetimeSecs holds
when no request lives any more that was signed before; the command waits for that, some 18 minutes from the defaults.

--convert-directory changes how a stack that an earlier version has set up lists its sharded keys: in 8,192 segments, and
no longer in one item that every environment reads and that takes 50,000. Collections may then have epochs, too. Deploy
this version first. Functions of an earlier one answer settings_mismatch from then on.

Ctrl-C ends the waiting, and the same command goes on with it. To take a change back, set the old value in the same
way. With --main-table a change of LeaseSecs ends after step 1; run it again with --deployed after step 2.

Exit status: 0 if the settings are as shown or changed; 1 if not, and a line on stderr says why, with the code of the
API; 130 after Ctrl-C.

Examples:
  dynashard settings --stack-name dynashard
  dynashard settings --stack-name dynashard --set SignatureAgeSecs=270 --set RequestLifetimeSecs=120 --verified
  dynashard settings --main-table MainTable --set LeaseSecs=10 --deployed";

pub(crate) async fn run(args: SettingsArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let status = Box::pin(settings(&args, &mut output)).await.unwrap_or_else(|failure| {
        output.failure(None, &failure);
        ExitCode::FAILURE
    });
    output.end(status)
}

async fn settings(args: &SettingsArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let mut signals = signals()?;
    let connection = args.connect.connect().await?;
    let directory = connection.directory();
    let pinned = directory.pinned().read(deadline(&directory)).await?;
    let Some(change) = Change::of(args, pinned.as_ref())? else {
        return Ok(show(pinned.as_ref(), output));
    };
    let changing = async {
        match change {
            Change::Lease(term) => {
                Box::pin(change_lease(term, args.deployed, &connection, &directory, output)).await
            }
            Change::Dates(dates) => Box::pin(date(dates, &directory, output)).await,
            Change::Directory => Box::pin(convert(&connection, &directory, output)).await,
        }
    };
    let changed = tokio::select! {
        changed = changing => changed?,
        () = signals.received() => {
            note!("dynashard: the change goes on when you run the same command again");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    Ok(show(Some(&changed), output))
}

/// What is to be changed.
enum Change {
    Lease(Duration),
    Dates(RequestDates),
    Directory,
}

impl Change {
    /// What the arguments ask for. What they leave out stays as it is pinned.
    fn of(args: &SettingsArgs, pinned: Option<&Pinned>) -> Result<Option<Self>, Failure> {
        if args.convert_directory {
            return Ok(Some(Self::Directory));
        }
        let last = |name| args.assignments.iter().rev().find(|(of, _)| *of == name);
        let [lease, age, lifetime] =
            [Name::Lease, Name::Age, Name::Lifetime].map(|name| last(name).map(|(_, secs)| *secs));
        if lease.is_some() && (age.is_some() || lifetime.is_some()) {
            return Err(Failure::bad_argument("change LeaseSecs in a command of its own"));
        }
        if age.is_none() && lifetime.is_none() {
            return Ok(lease.map(Self::Lease));
        }
        let defaults = Pinned::of(&dynashard_core::Settings::default());
        let pinned = pinned.unwrap_or(&defaults);
        let dates = RequestDates {
            age: age.unwrap_or(pinned.signature_age),
            lifetime: lifetime.unwrap_or(pinned.request_lifetime.accepted),
        };
        if !args.connect.is_stand_in() {
            check_dates(dates, args.verified).map_err(Failure::bad_argument)?;
        }
        Ok(Some(Self::Dates(dates)))
    }
}

async fn change_lease(
    term: Duration,
    is_deployed: bool,
    connection: &Connection,
    directory: &Directory,
    output: &mut Output,
) -> Result<Pinned, Failure> {
    let pinned = directory.pinned().announce(term, deadline(directory)).await?;
    let time = pinned.lease_term;
    if time.next.is_some() && !is_deployed {
        let (from, to) = (time.accepted.as_secs(), time.next.unwrap_or_default().as_secs());
        note!("dynashard: LeaseSecs may be {from} or {to} now");
        let value = term.as_secs();
        let Some(stack) = connection.stack_name.as_deref() else {
            note!("dynashard: deploy LeaseSecs={value}, and run this again with --deployed");
            return Ok(pinned);
        };
        until_deployed(stack, value, &connection.place.operator, output).await?;
    }
    let activity = Activity::begin(!output.is_for_machines());
    activity.says(|| "LeaseSecs: waiting until nobody acts under a longer value".to_owned());
    let time = PATIENCE + pinned.waits().leases_end * 4;
    Ok(directory.pinned().complete(term, Deadline::after(directory.now(), time)).await?)
}

async fn date(
    dates: RequestDates,
    directory: &Directory,
    output: &Output,
) -> Result<Pinned, Failure> {
    let activity = Activity::begin(!output.is_for_machines());
    activity.says(|| {
        let age = dates.age.as_secs();
        format!("writes are dated {age} s ago; waiting for those that were signed before")
    });
    // Once more if somebody else changes it meanwhile.
    let time = PATIENCE + LONGEST_REQUEST_LIFETIME * 3;
    Ok(directory.pinned().date(dates, Deadline::after(directory.now(), time)).await?)
}

async fn convert(
    connection: &Connection,
    directory: &Directory,
    output: &Output,
) -> Result<Pinned, Failure> {
    let activity = Activity::begin(!output.is_for_machines());
    activity.says(|| "reading the metadata of all collections".to_owned());
    let catalog = connection.catalog();
    let until = Deadline::after(directory.now(), CONVERSION_TIME);
    Ok(directory.pinned().convert(&catalog, until).await?)
}

/// Waits until CloudFormation has given all functions the new value.
async fn until_deployed(
    stack_name: &str,
    lease_secs: u64,
    operator: &Operator,
    output: &Output,
) -> Result<(), Failure> {
    let (name, value) = ("LeaseSecs", lease_secs.to_string());
    note!("dynashard: deploy stack {stack_name} with {name}={value}; this command waits for it");
    let activity = Activity::begin(!output.is_for_machines());
    loop {
        let stack = Stack::find(operator, stack_name).await?;
        let Some(deployed) = stack.parameters.get(name) else {
            let why = format!(
                "stack {stack_name} does not tell its {name}, as those of the CDK do not: deploy {name}={value}, and run this again with --deployed"
            );
            return Err(Failure::connection(why));
        };
        if *deployed == value && stack.status.ends_with("_COMPLETE") {
            return Ok(());
        }
        activity.says(|| {
            format!("stack {stack_name} is {}, and its {name} is {deployed}", stack.status)
        });
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The settings as a line of JSON.
#[derive(Serialize)]
struct SettingsView<'a> {
    format: u64,
    partition_key_name: &'a str,
    sort_key_name: &'a str,
    sort_key_type: &'static str,
    separator: &'static str,
    lease_secs: TimeView,
    request_lifetime_secs: TimeView,
    signature_age_secs: u64,
    ttl_attributes: &'a BTreeSet<String>,
}

#[derive(Serialize)]
struct TimeView {
    accepted: u64,
    next: Option<u64>,
    longest: u64,
}

impl From<PinnedTime> for TimeView {
    fn from(time: PinnedTime) -> Self {
        let PinnedTime { accepted, next, longest } = time;
        let next = next.map(|next| next.as_secs());
        Self { accepted: accepted.as_secs(), next, longest: longest.as_secs() }
    }
}

fn show(pinned: Option<&Pinned>, output: &mut Output) -> ExitCode {
    let Some(pinned) = pinned else {
        output.event("settings", &serde_json::json!({ "format": null }));
        output.text(
            "nothing is pinned yet: the stack's functions do that with the first write, or within a minute",
        );
        return ExitCode::SUCCESS;
    };
    let Pinned {
        format, schema, lease_term, request_lifetime, signature_age, ttl_attributes, ..
    } = pinned;
    let view = SettingsView {
        format: *format,
        partition_key_name: &schema.partition_key_name,
        sort_key_name: &schema.sort_key_name,
        sort_key_type: schema.sort_key_type.as_str(),
        separator: schema.separator.as_str(),
        lease_secs: (*lease_term).into(),
        request_lifetime_secs: (*request_lifetime).into(),
        signature_age_secs: signature_age.as_secs(),
        ttl_attributes,
    };
    output.event("settings", &view);
    for (name, value) in [
        ("PartitionKeyName", schema.partition_key_name.as_str()),
        ("SortKeyName", schema.sort_key_name.as_str()),
        ("SortKeyType", schema.sort_key_type.as_str()),
        ("Separator", schema.separator.as_str()),
    ] {
        output.text(format_args!("{name:<20} {value}"));
    }
    for name in ttl_attributes {
        output.text(format_args!("{:<20} {name}", "TtlAttribute"));
    }
    for (name, time) in [("LeaseSecs", lease_term), ("RequestLifetimeSecs", request_lifetime)] {
        let PinnedTime { accepted, next, longest } = *time;
        let mut text = accepted.as_secs().to_string();
        if let Some(next) = next {
            text = format!("{text} or {}, while it changes", next.as_secs());
        } else if longest > accepted {
            text = format!("{text}; reshards still wait as for {}", longest.as_secs());
        }
        output.text(format_args!("{name:<20} {text}"));
    }
    output.text(format_args!("{:<20} {}", "SignatureAgeSecs", signature_age.as_secs()));
    if !pinned.has_segments() {
        let directory =
            "one item, for 50,000 keys at most; `--convert-directory` makes segments of it";
        output.text(format_args!("{:<20} {directory}", "Directory"));
    }
    ExitCode::SUCCESS
}

/// What `--set` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Lease,
    Age,
    Lifetime,
}

/// Reads `--set`.
fn assignment(text: &str) -> Result<(Name, Duration), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=SECS, as in LeaseSecs=10")?;
    let (of, least, longest) = match name {
        "LeaseSecs" => (Name::Lease, 1, LONGEST_LEASE),
        "RequestLifetimeSecs" => (Name::Lifetime, 1, LONGEST_REQUEST_LIFETIME),
        "SignatureAgeSecs" => (Name::Age, 0, LONGEST_SIGNATURE_AGE),
        _ => {
            return Err(format!(
                "{name} cannot be changed; LeaseSecs, RequestLifetimeSecs and SignatureAgeSecs can"
            ));
        }
    };
    let longest = longest.as_secs();
    let value = value.parse::<u64>().ok().filter(|value| (least..=longest).contains(value));
    let value =
        value.ok_or_else(|| format!("{name} must be between {least} and {longest} seconds"))?;
    Ok((of, Duration::from_secs(value)))
}
