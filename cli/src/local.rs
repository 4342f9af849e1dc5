//! `dynashard local`: the stack, its endpoint and its console, and what they say when they are ready.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use dynashard_aws_operator::{Operator, RawClient};
use dynashard_console::Console;
use dynashard_core::ports::Consistency;
use dynashard_core::{Code, Deadline, Reader};
use dynashard_endpoint::{Access, ManagedTable, Server, Service, ServiceOptions, TableNames};
use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use dynashard_local::{DynamoDb, DynamoDbOptions, Endpoints, Principals, Stack, StackOptions};
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpListener;

use crate::args::LocalArgs;
use crate::operator::settings_of;
use crate::project::stack_options;
use crate::signals::TerminationSignals;
use crate::{Failure, console};

/// `dynashard local`: serves until SIGINT or SIGTERM.
pub(crate) async fn run(args: LocalArgs) -> Result<(), Failure> {
    // Watched from the start, so that a signal during the start ends the stack cleanly too.
    let mut signals = TerminationSignals::watch()
        .map_err(|error| format!("signals cannot be waited for: {error}"))?;
    if args.engine_only {
        return serve_engine(args, signals).await;
    }
    // In a terminal a signal also ends the build of the functions, which then is not an error.
    let (stack, console, endpoint) = tokio::select! {
        biased;
        () = signals.received() => return Ok(()),
        started = start(args) => started?,
    };
    let ready =
        Ready { endpoints: stack.endpoints(), console: console.url(), endpoint: endpoint.url() };
    let served = signals.received_after(&ready).await;
    endpoint.stop().await;
    console.stop().await;
    stack.shutdown().await;
    Ok(served?)
}

/// What the command says when it can serve.
#[derive(Serialize)]
struct Ready<'a> {
    #[serde(flatten)]
    endpoints: &'a Endpoints,
    console: &'a str,
    /// What `dynashard serve` would be, in front of the stack's tables.
    endpoint: String,
}

async fn serve_engine(args: LocalArgs, mut signals: TerminationSignals) -> Result<(), Failure> {
    let window = args.signature_window_secs.map(Duration::from_secs);
    let options = DynamoDbOptions {
        port: args.dynamodb_port,
        address: args.address,
        data_dir: args.data_dir,
        partitions: args.limits.limits(),
        signature_window: window.unwrap_or(DynamoDbOptions::default().signature_window),
    };
    let dynamodb = DynamoDb::start(options).await?;
    let served = signals.received_after(&json!({ "dynamodb": dynamodb.url() })).await;
    dynamodb.shutdown().await;
    Ok(served?)
}

async fn start(args: LocalArgs) -> Result<(Box<Stack>, Console, Server), Failure> {
    // A port that is taken should not be found out after minutes of compiling either.
    let listener = console::bind(args.console_port).await?;
    let for_endpoint =
        dynashard_serve::bind(Ipv4Addr::LOCALHOST.into(), args.endpoint_port).await?;
    // A wrong file should not be found out after minutes of compiling.
    let principals = match (&args.principals, args.auth) {
        (Some(path), _) => Some(Principals::read(path)?),
        (None, auth) => auth.then(Principals::default),
    };
    let window = args.signature_window_secs.map(Duration::from_secs);
    let is_kept = args.data_dir.is_some();
    let options = StackOptions {
        principals,
        port: args.port,
        dynamodb_port: args.dynamodb_port,
        lambda_port: args.lambda_port,
        cloudwatch_port: args.cloudwatch_port,
        data_dir: args.data_dir,
        max_environments: usize::from(args.max_environments),
        partitions: args.limits.limits(),
        alarm_period_secs: args.alarm_period_secs,
        ..stack_options(&args.project, window).await?
    };
    let stack = Box::new(Stack::start(options).await?);
    let serving = async {
        Box::pin(check_tables(&stack, is_kept))
            .await
            .map_err(|why| Failure::from(format!("the stack cannot work on its tables: {why}")))?;
        let endpoint = endpoint_of(&stack, for_endpoint).await?;
        let console = console::console_of_stack(listener, &stack, args.look.options())?;
        Ok((console, endpoint))
    };
    match serving.await {
        Ok((console, endpoint)) => Ok((stack, console, endpoint)),
        Err(failure) => {
            stack.shutdown().await;
            Err(failure)
        }
    }
}

/// Serves DynamoDB's own protocol in front of the stack's tables.
pub(crate) async fn endpoint_of(stack: &Stack, listener: TcpListener) -> Result<Server, Failure> {
    let dynamodb = &stack.endpoints().dynamodb;
    let operator = Operator::on_this_machine(dynamodb).await;
    // Of another application's template nothing is known, and nothing is managed.
    let tables = settings_of(stack.parameters()).ok().map(|settings| {
        let main = main_table(stack);
        // The functions of the stack have the settings that it pins, if it is first.
        let directory = operator.directory(main, METADATA_TABLE, settings).pinning();
        ManagedTable::new(
            &operator,
            TableNames { main, metadata: METADATA_TABLE, place: None },
            directory,
        )
    });
    let upstream = RawClient::new(&operator, dynamodb);
    let tables = tables.into_iter().collect();
    let service = Service::new(upstream, tables, ServiceOptions::default());
    Ok(Server::start(Arc::new(service), listener, Access::ThisMachine)?)
}

/// The metadata table of a local stack.
const METADATA_TABLE: &str = "MetadataTable";

/// The main table of a local stack: its own, or one that was there before.
fn main_table(stack: &Stack) -> &str {
    let existing = stack.parameters().get("ExistingMainTable").filter(|name| !name.is_empty());
    existing.map_or("MainTable", String::as_str)
}

/// How long the tables are looked at before the stack says that it is ready.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// Looks whether the functions can work on tables that were there before: every request would fail otherwise, for a reason
/// that nobody sees at the start.
async fn check_tables(stack: &Stack, is_kept: bool) -> Result<(), String> {
    let parameters = stack.parameters();
    let existing = parameters.get("ExistingMainTable").filter(|name| !name.is_empty());
    if !is_kept && existing.is_none() {
        return Ok(());
    }
    // Of another application's template nothing is known.
    let Ok(settings) = settings_of(parameters) else { return Ok(()) };
    let schema = settings.schema.clone();
    let operator = Operator::on_this_machine(&stack.endpoints().dynamodb).await;
    let main = main_table(stack);
    let directory = operator.directory(main, METADATA_TABLE, settings);
    let deadline = Deadline::after(directory.now(), LOOK_TIME);
    let reader = Reader::new(directory);
    // Any key tells: it is read under the pinned settings, from the table, by the names of its keys.
    let got = async {
        let sort = SortKey::parse("0", schema.sort_key_type)?;
        let key = ItemKey::new(PartitionKey::new("0")?, sort);
        reader.get(&key, None, Consistency::Eventual, deadline).await.map(drop)
    };
    match got.await {
        Ok(()) => Ok(()),
        Err(error) => match error.code() {
            Code::ItemNotFound => Ok(()),
            Code::SettingsMismatch => Err(format!(
                "{error}; start it with what is pinned and with the stack's own tables: `dynashard settings` changes the one while \
                 it runs, and `dynashard adopt --take-over` whose the main table is"
            )),
            Code::Internal if error.message().contains("ResourceNotFound") => Err(format!(
                "there is no table {main}; make it with `dynashard local --engine-only --data-dir DIR`, and start the stack on the \
                 same directory"
            )),
            _ => Err(error.to_string()),
        },
    }
}
