//! `dynashard demo`: hot keys outgrow their partitions, the shards follow, and nothing is lost.

mod chart;
mod costs;
mod fit;
mod flights;
mod history;
mod load;
mod offer;
mod plan;
mod read_back;
mod simulated;
mod summary;
mod target;
mod view;
mod watched;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::console::Term;
use chart::draw;
use costs::{Counted, Moving};
use dynashard_aws_operator::Operator;
use dynashard_console::Options;
use dynashard_core::ports::StoreError;
use dynashard_endpoint::ServiceOptions;
use dynashard_keys::{KeyError, PartitionKey, Placement};
use dynashard_local::{Endpoints, Limits, Stack, StackOptions};
use flights::Airport;
use history::SettledRule;
use load::{Loaded, Run};
use offer::Offers;
use plan::Plan;
use read_back::{ReadBack, count_shards};
use simulated::AbsorbedShare;
use summary::{Steady, Summary, growth, reshards};
use target::Target;
use thiserror::Error;
use tokio::time::{sleep, timeout};
use view::View;
use watched::Watched;

use crate::args::{DemoArgs, Scaling, Through};
use crate::http::HttpError;
use crate::operator::settings_of;
use crate::project::stack_options;
use crate::signals::TerminationSignals;
use crate::wrap::wrapped;
use crate::{console, logs, streams};

const MAIN_TABLE: &str = "MainTable";
const METADATA_TABLE: &str = "MetadataTable";

/// Template parameters of the demo, with which a reshard closes within half a minute. The stack
/// refuses requests whose signature is older than `RequestLifetimeSecs`, so that this may be
/// seconds; DynamoDB itself takes a quarter of an hour. Those that the command line sets win.
const SETTINGS: &[(&str, &str)] =
    &[("LeaseSecs", "1"), ("CooldownSecs", "1"), ("RequestLifetimeSecs", "5")];

/// `MoverWriteUnits` of the demo, unless the command line says it, as a multiple of a partition's write units. Clients and
/// functions share this machine's processors with the mover, which would take more of them by the default.
const MOVER_TO_PARTITION: u32 = 4;

/// The most that the parameter takes.
const MOST_MOVER_WCU: u32 = 100_000;

/// For how long the demo waits at least for its reshards to close, once everything is written.
const LEAST_CLOSING: Duration = Duration::from_secs(30);

/// A stack whose first sweep takes longer than this gets its load all the same.
const MOST_SWEEPING: Duration = Duration::from_secs(30);

/// The least share of min(offered, capacity) that a settled collection absorbs.
const SETTLED_SHARE: f64 = 0.9;

#[derive(Debug, Error)]
pub(crate) enum DemoError {
    #[error(transparent)]
    Data(#[from] flights::BadData),
    #[error("the chart cannot be drawn: {0}")]
    Chart(String),
    #[error("{path} cannot be written: {error}; choose another --chart-dir")]
    Write { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("some flights were not written within {} s after the last offer", .0.as_secs())]
    NotWritten(Duration),
    #[error("an answer has no {0}")]
    BadAnswer(&'static str),
    #[error("an item cannot be told in the other form of JSON: {0}")]
    Item(String),
    #[error(
        "the endpoint serves no tables of the placement random: leave out --endpoint, or choose xxh64 or jump"
    )]
    EndpointOfRandom,
    #[error("the settings of the stack cannot be read: {0}")]
    Parameters(String),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the tables of the stack cannot be read: {0:?}")]
    Store(StoreError),
    #[error("what came back is not what was written")]
    Different,
    #[error(
        "this machine carries {carried:.0} writes a second, of which half are too few to overload partitions {load} times: \
         end what else runs, lower --load, or say with --partition-wcu what a partition takes"
    )]
    TooSlow { carried: f64, load: u32 },
    #[error("interrupted")]
    Interrupted,
}

/// `dynashard demo`: fails unless every flight came back once, in order and unchanged.
pub(crate) async fn run(args: DemoArgs) -> Result<(), crate::Failure> {
    if args.through == Through::Endpoint && is_random(&args) {
        return Err(DemoError::EndpointOfRandom.into());
    }
    let airports = flights::load().map_err(DemoError::from)?;
    let files = Files::prepare(&args)?;
    let listener = console::bind(None).await?;
    let mut signals = TerminationSignals::watch()?;
    let started = async {
        let built = stack_options(&args.project, None).await?;
        let (partition_wcu, carried) = fitting(&args, &built, &airports).await?;
        let plan = plan(&args, airports.len(), partition_wcu);
        let stack = Stack::start(options(&built, &args, &plan)).await?;
        let target = Target::of(&stack, args.through).await?;
        Ok::<_, crate::Failure>((plan, carried, stack, target))
    };
    // In a terminal a signal also ends the build of the functions, which then is not an error.
    let (plan, carried, stack, target) = tokio::select! {
        biased;
        () = signals.received() => return Err(DemoError::Interrupted.into()),
        started = Box::pin(started) => started?,
    };
    let console = console::console_of_stack(listener, &stack, Options::default())?;
    let Endpoints { api, dynamodb, .. } = stack.endpoints();
    note!("The stack is up: API {api}, DynamoDB {dynamodb}");
    if let Some(url) = target.endpoint_url() {
        note!("Everything is written and read through the DynamoDB endpoint: {url}");
    }
    note!("Watch it in a browser: {}", console.url());
    let offered = airports.iter().zip(&plan.rates);
    let offered = offered.map(|(airport, rate)| format!("{rate} to {}", airport.code));
    note!(
        "Offering writes a second: {}. A partition takes {}{}",
        offered.collect::<Vec<_>>().join(", "),
        plan.partition_wcu,
        carried.map_or_else(String::new, |carried| {
            format!("; this machine carries {carried:.0} in all")
        })
    );
    let mut view = View::start(files.logs.is_some() && io::stderr().is_terminal());
    let result = tokio::select! {
        result = show((&stack, &target), &args, (&plan, carried), &airports, &files, &mut view) => result,
        () = signals.received() => Err(DemoError::Interrupted),
    };
    view.end();
    let told = result.as_ref().ok().map(|summary| tell(summary, args.json));
    if args.keep && result.is_ok() {
        note!("The stack stays up, and so does {}; Ctrl-C ends them", console.url());
        signals.received().await;
    }
    target.stop().await;
    console.stop().await;
    stack.shutdown().await;
    let summary = result.inspect_err(|_| {
        if let Some(logs) = &files.logs {
            note!("dynashard: the logs of the stack are in {}", logs.display());
        }
    })?;
    told.transpose()?;
    if summary.ok { Ok(()) } else { Err(DemoError::Different.into()) }
}

/// Prints the summary.
fn tell(summary: &Summary, as_json: bool) -> Result<(), crate::Failure> {
    let text = if as_json {
        serde_json::to_string(summary)?
    } else {
        // What is read elsewhere, as in a file, has its lines as they are.
        let terminal = Term::stdout();
        let columns = if terminal.is_term() { terminal.size().1.into() } else { usize::MAX };
        format!("\n{}", wrapped(&summary.to_string(), columns))
    };
    Ok(streams::print(&text)?)
}

/// The files that a run writes.
struct Files {
    chart: PathBuf,
    /// Where the logs go, unless they were asked for on stderr.
    logs: Option<PathBuf>,
}

impl Files {
    /// Makes their directory and begins to log: that this is impossible should not be found out after
    /// the run.
    fn prepare(args: &DemoArgs) -> Result<Self, DemoError> {
        let dir = &args.chart_dir;
        let write = |path: &Path, error| DemoError::Write { path: path.to_owned(), error };
        fs::create_dir_all(dir).map_err(|error| write(dir, error))?;
        let logs = if args.logs {
            logs::start_on_stderr();
            None
        } else {
            let path = dir.join("demo.log");
            logs::start_in(File::create(&path).map_err(|error| write(&path, error))?);
            Some(path)
        };
        Ok(Self { chart: dir.join("demo.svg"), logs })
    }
}

/// The period of the alarm on throttles here. CloudWatch's own of a minute would be a long wait
/// before a screen.
const ALARM_PERIOD_SECS: Option<NonZeroU32> = NonZeroU32::new(5);

/// What a partition is to take, and how many writes a second the machine carries, if that was looked at.
async fn fitting(
    args: &DemoArgs,
    built: &StackOptions,
    airports: &[Airport],
) -> Result<(u32, Option<f64>), crate::Failure> {
    if let Some(partition_wcu) = args.partition_wcu {
        return Ok((partition_wcu, None));
    }
    let unlimited = StackOptions {
        partitions: Limits { are_enforced: false, ..Limits::default() },
        ..built.clone()
    };
    let stack = Stack::start(unlimited).await?;
    let target = Target::of(&stack, args.through).await?;
    let carried = fit::carried(&target, airports).await;
    target.stop().await;
    stack.shutdown().await;
    let carried = carried?;
    Ok((fit::partition_wcu(carried, args.load, airports.len())?, Some(carried)))
}

/// How long a batch is tried by the API that stays throttled.
const TRIED_BY_THE_API: Duration = Duration::from_millis(2_500);

fn plan(args: &DemoArgs, airports: usize, partition_wcu: u32) -> Plan {
    let busiest = partition_wcu.saturating_mul(args.load);
    let halved = |times: usize| busiest.checked_shr(u32::try_from(times).unwrap_or(u32::MAX));
    // Longer than what passes between two growths that move nothing: a writer's cooldown and
    // back-off, or an alarm's period and evaluation. Where items move, the share that is absorbed
    // tells whether another growth is to come: it waits until this one has closed.
    let quiet = match args.scaling {
        Scaling::Writers => Duration::from_secs(6),
        Scaling::Alarm => Duration::from_secs(20),
    };
    let in_flight = match args.through {
        Through::Api => TRIED_BY_THE_API,
        Through::Endpoint => ServiceOptions::default().hold,
    };
    Plan {
        partition_wcu,
        in_flight,
        rates: (0..airports).map(|place| halved(place).unwrap_or(0).max(1)).collect(),
        settled: SettledRule { quiet, least_share: SETTLED_SHARE },
        steady: Duration::from_secs(args.steady_secs),
        time_limit: Duration::from_secs(args.time_limit_secs),
    }
}

/// Whether the command line chooses the placement that no endpoint serves.
fn is_random(args: &DemoArgs) -> bool {
    let random = Placement::Random.as_str();
    let set = args.project.settings.iter().rfind(|(name, _)| name == "Placement");
    set.map_or(args.placement == Some(Placement::Random), |(_, value)| value == random)
}

/// The template's parameters. Those of the command line come last, and win.
fn parameters(args: &DemoArgs, plan: &Plan) -> Vec<(String, String)> {
    let writers = match args.scaling {
        Scaling::Writers => "on",
        Scaling::Alarm => "off",
    };
    let placement = args.placement.map(|placement| ("Placement", placement.as_str()));
    let settings = SETTINGS.iter().copied().chain([("WriterScaling", writers)]).chain(placement);
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mover_wcu = plan.partition_wcu.saturating_mul(MOVER_TO_PARTITION).min(MOST_MOVER_WCU);
    let mover = ("MoverWriteUnits".to_owned(), mover_wcu.to_string());
    settings.chain([mover]).chain(args.project.settings.iter().cloned()).collect()
}

/// Lambda starts an environment for each request that finds none free, and so many batches are under way at once.
fn environments(plan: &Plan) -> usize {
    plan.rates.iter().map(|rate| Offers::new(*rate, plan.in_flight).most_batches).sum()
}

/// The processes that write: environments of functions, or the endpoint.
fn writers(args: &DemoArgs, plan: &Plan) -> usize {
    match args.through {
        Through::Api => environments(plan),
        Through::Endpoint => 1,
    }
}

/// The stack of a run, by those options that it shares with every one.
fn options(built: &StackOptions, args: &DemoArgs, plan: &Plan) -> StackOptions {
    StackOptions {
        overrides: parameters(args, plan),
        max_environments: environments(plan),
        alarm_period_secs: ALARM_PERIOD_SECS,
        partitions: Limits {
            partition_wcu: NonZeroU32::new(plan.partition_wcu).unwrap_or(NonZeroU32::MIN),
            ..Limits::default()
        },
        ..built.clone()
    }
}

/// Waits until the first sweep has asked which changes run, before which it pins the settings.
async fn until_swept(stack: &Stack) {
    let is_swept = || {
        let tables = stack.counters().tables;
        tables.get(METADATA_TABLE).is_some_and(|operations| operations.contains_key("Query"))
    };
    let swept = async {
        while !is_swept() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    // What it would have pinned is pinned by the writer then.
    let _ = timeout(MOST_SWEEPING, swept).await;
}

async fn show(
    (stack, target): (&Stack, &Target),
    args: &DemoArgs,
    (plan, carried): (&Plan, Option<f64>),
    airports: &[Airport],
    files: &Files,
    view: &mut View,
) -> Result<Summary, DemoError> {
    let settings = settings_of(stack.parameters()).map_err(DemoError::Parameters)?;
    // The tables, past the functions.
    let (schema, operator) =
        (&settings.schema, Operator::on_this_machine(&stack.endpoints().dynamodb).await);
    let items = operator.items(MAIN_TABLE, schema);
    let metadata = operator.records(METADATA_TABLE, schema);
    let partitions = airports.iter().map(|airport| PartitionKey::new(&airport.code));
    let partitions = partitions.collect::<Result<Vec<_>, _>>()?;
    // Whoever acts first pins the settings and puts the item that names the table's owner, which are not part of the load: with
    // these two it is done before anything is counted. The first sweep comes by itself, and would put it beside a writer.
    until_swept(stack).await;
    target.delete_nothing().await?;
    let watched = Watched::start(metadata.clone(), partitions.clone());
    let run = Run { stack, target, plan, airports, watched };
    let before = stack.counters();
    let Loaded { mut history, steady, flights, watch, load } = load::load(&run, view).await?;
    let after = stack.counters();
    let looks = run.watched.requests();

    let mut reads = vec![ReadBack::of(&run, &flights, view).await?];
    if reads[0].while_moving {
        let left = plan.time_limit.saturating_sub(watch.elapsed()).max(LEAST_CLOSING);
        if load::closed(&run, &mut history, &watch, left, view).await {
            reads.push(ReadBack::of(&run, &flights, view).await?);
        }
    }
    let end = stack.counters();
    let mut items_per_shard = BTreeMap::new();
    for partition in &partitions {
        let counts = count_shards(&items, &metadata, schema, partition).await?;
        items_per_shard.insert(partition.to_string(), counts);
    }

    let last = history.samples.last();
    let keys = last.into_iter().flat_map(|sample| &sample.keys);
    let counts = keys.map(|key| key.counts);
    let items = flights.iter().sum::<usize>();
    let items = u64::try_from(items).unwrap_or(u64::MAX);
    let placement = settings.placement.as_str();
    // Alarms are evaluated each five seconds here, and each minute in the simulation.
    let absorbed_share = steady
        .filter(|_| args.scaling == Scaling::Writers)
        .and_then(|window| AbsorbedShare::of(&history, window.to, &settings, writers(args, plan)));
    let begun = match args.scaling {
        Scaling::Writers => "growth begun by throttled writers",
        Scaling::Alarm => "growth begun by the alarm",
    };
    let wcu = plan.partition_wcu;
    let shows = format!("Writes/s on partitions of {wcu} WCU ({placement}, {begun})");
    let svg = draw(&history, &shows).map_err(DemoError::Chart)?;
    fs::write(&files.chart, svg)
        .map_err(|error| DemoError::Write { path: files.chart.clone(), error })?;
    let loading = Counted::between(&before, &after);
    let moved = run.watched.collections().iter().map(|collection| collection.moved).sum();
    Ok(Summary {
        ok: reads.iter().all(|read| read.differences.is_empty()),
        placement,
        through: args.through,
        scaling: match args.scaling {
            Scaling::Writers => "writers",
            Scaling::Alarm => "alarm",
        },
        partition_wcu: plan.partition_wcu,
        carried_per_sec: carried,
        items,
        load_secs: load.as_secs_f64(),
        growth: growth(&history),
        reshards: reshards(&history),
        settled_secs: steady.and(history.last_step()),
        relieved_secs: history.relieved_secs(),
        absorbed_share,
        steady: steady.map(|window| Steady::of(&history, window)),
        throttled: after.throttles.get(MAIN_TABLE).cloned().unwrap_or_default(),
        put_requests: loading.of("PutItem").requests,
        put_wcu: loading.of("PutItem").consumed_wcu,
        metadata_requests: loading.metadata_requests.saturating_sub(looks),
        moving: Moving::of(moved, items, &loading, &Counted::between(&before, &end)),
        resent: counts.clone().map(|counts| counts.unprocessed).sum(),
        outcome_unknown: counts.map(|counts| counts.unknown).sum(),
        reads,
        items_per_shard,
        chart: files.chart.clone(),
        logs: files.logs.clone(),
    })
}
