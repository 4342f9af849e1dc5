//! `dynashard top`: the hottest partition keys of a table, managed or not.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use console::Term;
use dynashard_aws_operator::{KeyInsights, KeyReport, RankedKey, Ranking};
use dynashard_core::HeatWindow;
use dynashard_keys::{PhysicalPartitionKey, Separator, ShardId};
use dynashard_planning::figure::number;
use serde::Serialize;

use super::connect::ConnectArgs;
use super::output::{Form, Output, in_line};
use super::patience::patiently;
use super::{Failure, ended, until_interrupted};

/// The seconds of a datapoint of Contributor Insights.
const PERIOD_SECS: u32 = 60;

#[derive(Debug, clap::Args)]
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "main_table" => arg.required_unless_present("table"),
    _ => arg,
}))]
pub(crate) struct TopArgs {
    /// Show the keys of this table, which need not be dynashard's, in place of --stack-name and --main-table.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["stack_name", "main_table", "metadata_table"])]
    table: Option<String>,
    /// Look at the last so many minutes.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_440))]
    minutes: u32,
    /// Show at most so many keys.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
    /// Look again every 10 seconds, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Ask this server in place of CloudWatch, as in `http://127.0.0.1:9002`.
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    cloudwatch_url: Option<String>,
    /// Print JSON on stdout: a line for each key.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
The figures are those of CloudWatch Contributor Insights, which count by the minute and come a minute or two late. A stack of
dynashard has them on for throttled keys. For another table
`aws dynamodb update-contributor-insights --contributor-insights-action ENABLE --table-name T` turns them on, which is billed by
the events that they count; in the mode ACCESSED_AND_THROTTLED_KEYS they also name what is asked for most.

Exit status: 0 if the keys are shown, or none is there; 1 if insights are off, or could not be asked; 130 after Ctrl-C.

Examples:
  dynashard top --table orders
  dynashard top --stack-name dynashard --minutes 60 --watch
  dynashard top --endpoint-url http://127.0.0.1:8000 --cloudwatch-url http://127.0.0.1:9002 --table MainTable";

/// How often it is looked again.
const LOOK_EVERY: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: TopArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let done = Box::pin(until_interrupted(top(&args, &mut output))).await;
    ended(output, None, done)
}

async fn top(args: &TopArgs, output: &mut Output) -> Result<(), Failure> {
    args.form.of_endless("--watch", args.watch)?;
    if args.cloudwatch_url.is_none() && args.connect.is_stand_in() {
        let why = "a server that stands in for DynamoDB need not stand in for CloudWatch: name one by --cloudwatch-url, as in \
                   http://127.0.0.1:9002";
        return Err(Failure::bad_argument(why));
    }
    let cloudwatch = args.cloudwatch_url.as_deref();
    // Of a table that is not managed every key is its own.
    let (insights, table, separator) = if let Some(table) = &args.table {
        let operator = args.connect.caller.connect().await?;
        (KeyInsights::of(&operator, cloudwatch, table), table.clone(), None)
    } else {
        let place = args.connect.connect().await?.place;
        let separator = place.settings.schema.separator;
        let insights = KeyInsights::of(&place.operator, cloudwatch, &place.main_table);
        (insights, place.main_table, Some(separator))
    };
    loop {
        let report = look(&insights, args).await?.ok_or_else(|| off(&table))?;
        if args.watch && !output.is_for_machines() && io::stdout().is_terminal() {
            drop(Term::stdout().clear_screen());
        }
        show(&report, separator, args, output);
        if !args.watch || output.is_broken() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn look(insights: &KeyInsights, args: &TopArgs) -> Result<Option<KeyReport>, Failure> {
    let to_secs = insights.now_secs();
    let from_secs = to_secs.saturating_sub(u64::from(args.minutes) * u64::from(PERIOD_SECS));
    let window = HeatWindow { from_secs, to_secs, period_secs: PERIOD_SECS };
    patiently(async || insights.report(window, args.limit).await).await
}

fn off(table: &str) -> Failure {
    let detail = format!(
        "Contributor Insights are off for table {table}: `aws dynamodb update-contributor-insights --table-name {table} \
         --contributor-insights-action ENABLE` turns them on, and they have figures a few minutes later"
    );
    Failure { code: "insights_off", detail }
}

/// A key, for machines.
#[derive(Serialize)]
struct KeyJson<'a> {
    /// `accessed` or `throttled`.
    list: &'static str,
    rank: usize,
    /// As DynamoDB has it.
    key: &'a str,
    /// The logical key, and the shard, of a managed table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pk: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<u32>,
    count: f64,
    /// Of what all keys have, from 0 to 1.
    share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hottest_sk: Option<&'a str>,
    /// Of what this key has, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    hottest_share: Option<f64>,
}

fn show(report: &KeyReport, separator: Option<Separator>, args: &TopArgs, output: &mut Output) {
    let lists = [("accessed", report.accessed.as_ref()), ("throttled", Some(&report.throttled))];
    for (list, ranking) in lists.into_iter().filter_map(|(list, of)| Some((list, of?))) {
        let Ranking { sum, keys } = ranking;
        if keys.is_empty() {
            output.text(format_args!("no key was {list} in the last {} min", args.minutes));
            continue;
        }
        output.text(format_args!("most {list} in the last {} min:", args.minutes));
        let width = keys
            .iter()
            .map(|key| in_line(&key.partition).chars().count())
            .max()
            .unwrap_or_default();
        for (rank, key) in (1..).zip(keys) {
            output.json(&KeyJson::of(list, rank, key, *sum, separator));
            output.text(line(rank, key, *sum, width));
        }
    }
}

impl<'a> KeyJson<'a> {
    fn of(
        list: &'static str,
        rank: usize,
        key: &'a RankedKey,
        sum: f64,
        separator: Option<Separator>,
    ) -> Self {
        let parsed = separator.map(|of| PhysicalPartitionKey::parse(&key.partition, of));
        let logical = parsed.and_then(Result::ok);
        let hottest = key.hottest.as_ref();
        Self {
            list,
            rank,
            key: &key.partition,
            pk: logical.as_ref().map(|(partition, _)| partition.as_str().to_owned()),
            shard: logical.as_ref().map(|(_, shard)| shard.map_or(0, ShardId::get)),
            count: key.count,
            share: share(key.count, sum),
            hottest_sk: hottest.map(|(sort, _)| sort.as_str()),
            hottest_share: hottest.map(|(_, count)| share(*count, key.count)),
        }
    }
}

fn line(rank: usize, key: &RankedKey, sum: f64, width: usize) -> String {
    let percent = |part: f64, whole: f64| number((share(part, whole) * 100.0).round());
    let hottest = key.hottest.as_ref().map(|(sort, count)| {
        format!(", {} % of it at sort key {}", percent(*count, key.count), in_line(sort))
    });
    format!(
        "{rank:>3}  {:width$}  {:>9}  {:>3} %{}",
        in_line(&key.partition),
        number(key.count),
        percent(key.count, sum),
        hottest.unwrap_or_default()
    )
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_with_its_share_and_its_hottest_item() {
        let hottest = Some(("1".to_owned(), 75.0));
        let key = RankedKey { partition: "EWR#~2".to_owned(), count: 100.0, hottest };
        let text = line(1, &key, 400.0, 8);
        assert_eq!(text, "  1  EWR#~2          100   25 %, 75 % of it at sort key 1");
        let forged = RankedKey { partition: "x\n  1  EWR".to_owned(), ..key.clone() };
        assert_eq!(line(1, &forged, 400.0, 8).lines().count(), 1, "a key begins no line");
        let json = KeyJson::of("throttled", 1, &key, 400.0, Some(Separator::default()));
        assert_eq!((json.pk.as_deref(), json.shard), (Some("EWR"), Some(2)));
        assert_eq!(KeyJson::of("throttled", 1, &key, 0.0, None).pk, None);
    }
}
