//! `dynashard settings`: shows the settings that are pinned, and changes those that may change.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use dynashard_aws_operator::{Operator, Stack};
use dynashard_core::{ChangeableSetting, Deadline, Directory, Pinned, PinnedTime, SettingsChange};
use serde::Serialize;

use super::connect::{ConnectArgs, Connection, deadline};
use super::output::{Activity, Output};
use super::{Failure, INTERRUPTED, PATIENCE, signals};

/// How often CloudFormation is asked for the stack's parameter.
const LOOK_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct SettingsArgs {
    /// Change `LeaseSecs` or `RequestLifetimeSecs`.
    #[arg(long = "set", value_name = "NAME=SECS", value_parser = change)]
    change: Option<SettingsChange>,
    /// All functions have the new value: complete the change without waiting for the stack.
    #[arg(long, requires = "change")]
    deployed: bool,
    /// Print JSON on stdout.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Functions and commands whose settings differ from the pinned ones answer settings_mismatch and do nothing. So the two
settings that may change do so in steps, while clients read and write:

  1. Run `dynashard settings --stack-name NAME --set LeaseSecs=10`. From now on functions with the old value and
     functions with the new one may act.
  2. Deploy the stack with LeaseSecs=10. The command sees it, accepts only the new value, and waits until nobody can
     act under the old one: twice the longer value and a little more.

Ctrl-C ends the waiting, and the same command goes on with it. To take a change back, set the old value in the same
way. With --main-table the command ends after step 1; run it again with --deployed after step 2.

Exit status: 0 if the settings are as shown or changed; 1 if not, and a line on stderr says why, with the code of the
API; 130 after Ctrl-C.

Examples:
  dynashard settings --stack-name dynashard
  dynashard settings --stack-name dynashard --set RequestLifetimeSecs=360
  dynashard settings --main-table MainTable --metadata-table MetadataTable --set LeaseSecs=10 --deployed";

pub(crate) async fn run(args: SettingsArgs) -> ExitCode {
    let mut output = Output::new(args.json);
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
    let Some(change) = args.change else {
        let pinned = directory.pinned().read(deadline(&directory)).await?;
        return Ok(show(pinned.as_ref(), output));
    };
    let changing = Box::pin(carry_out(change, args.deployed, &connection, &directory, output));
    let changed = tokio::select! {
        changed = changing => changed?,
        () = signals.received() => {
            note!("dynashard: the change goes on when you run the same command again");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    Ok(show(Some(&changed), output))
}

async fn carry_out(
    change: SettingsChange,
    is_deployed: bool,
    connection: &Connection,
    directory: &Directory,
    output: &mut Output,
) -> Result<Pinned, Failure> {
    let name = change.setting.parameter();
    let pinned = directory.pinned().announce(change, deadline(directory)).await?;
    let time = pinned.time(change.setting);
    if time.next.is_some() && !is_deployed {
        let (from, to) = (time.accepted.as_secs(), time.next.unwrap_or_default().as_secs());
        note!("dynashard: {name} may be {from} or {to} now");
        let value = change.value.as_secs();
        let Some(stack) = connection.stack_name.as_deref() else {
            note!("dynashard: deploy {name}={value}, and run this again with --deployed");
            return Ok(pinned);
        };
        until_deployed(stack, change, &connection.place.operator, output).await?;
    }
    let activity = Activity::begin(!output.is_json());
    activity.says(|| format!("{name}: waiting until nobody acts under a longer value"));
    let time = PATIENCE + pinned.waits().leases_end * 4;
    Ok(directory.pinned().complete(change, Deadline::after(directory.now(), time)).await?)
}

/// Waits until CloudFormation has given all functions the new value.
async fn until_deployed(
    stack_name: &str,
    change: SettingsChange,
    operator: &Operator,
    output: &Output,
) -> Result<(), Failure> {
    let (name, value) = (change.setting.parameter(), change.value.as_secs().to_string());
    note!("dynashard: deploy stack {stack_name} with {name}={value}; this command waits for it");
    let activity = Activity::begin(!output.is_json());
    loop {
        let stack = Stack::find(operator, stack_name).await?;
        let deployed = stack.parameters.get(name).map_or("missing", String::as_str);
        if deployed == value && stack.status.ends_with("_COMPLETE") {
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
    let Pinned { format, schema, lease_term, request_lifetime, ttl_attributes, .. } = pinned;
    let view = SettingsView {
        format: *format,
        partition_key_name: &schema.partition_key_name,
        sort_key_name: &schema.sort_key_name,
        sort_key_type: schema.sort_key_type.as_str(),
        separator: schema.separator.as_str(),
        lease_secs: (*lease_term).into(),
        request_lifetime_secs: (*request_lifetime).into(),
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
    for setting in ChangeableSetting::ALL {
        let PinnedTime { accepted, next, longest } = pinned.time(setting);
        let mut text = accepted.as_secs().to_string();
        if let Some(next) = next {
            text = format!("{text} or {}, while it changes", next.as_secs());
        } else if longest > accepted {
            text = format!("{text}; reshards still wait as for {}", longest.as_secs());
        }
        output.text(format_args!("{:<20} {text}", setting.parameter()));
    }
    ExitCode::SUCCESS
}

/// Reads `--set`.
fn change(text: &str) -> Result<SettingsChange, String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=SECS, as in LeaseSecs=10")?;
    let named = |setting: &ChangeableSetting| setting.parameter() == name;
    let setting = ChangeableSetting::ALL.into_iter().find(named).ok_or_else(|| {
        let others = ChangeableSetting::ALL.map(ChangeableSetting::parameter).join(" and ");
        format!("{name} cannot be changed; {others} can")
    })?;
    let longest = match setting {
        ChangeableSetting::LeaseSecs => dynashard_api::settings::LONGEST_LEASE,
        ChangeableSetting::RequestLifetimeSecs => dynashard_api::settings::LONGEST_REQUEST_LIFETIME,
    };
    let value = value.parse::<u64>().ok().map(Duration::from_secs);
    let value = value.filter(|value| (Duration::from_secs(1)..=longest).contains(value));
    let value = value
        .ok_or_else(|| format!("{name} must be between 1 and {} seconds", longest.as_secs()))?;
    Ok(SettingsChange { setting, value })
}
