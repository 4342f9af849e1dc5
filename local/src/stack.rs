//! The stack as a whole: the order in which its parts start and end.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dynashard_limits::partition::Limits;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::StartError;
use crate::access::Access;
use crate::clock::{SharedClock, SystemClock};
use crate::cloudwatch::{AlarmState, Alarms, CloudWatchApi, EmbeddedMetrics, MetricStore, Metrics};
use crate::dynamodb::endpoint::Counters;
use crate::dynamodb::{DynamoDb, DynamoDbOptions};
use crate::events::Events;
use crate::lambda::{Background, Bootstraps, Functions, Gateway, LambdaApi, Principals, Runtime};
use crate::plan::{Authorization, Plan};
use crate::queues::Queues;
use crate::server::{self, Server, url};
use crate::template::{TemplateSource, load_template_for};

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// The SAM template.
    pub template: TemplateSource,
    /// Values of template parameters, as pairs of a name and a value.
    pub overrides: Vec<(String, String)>,
    /// The port of the HTTP API; 0 takes a free one, here as below.
    pub port: u16,
    /// The port of the `dynamodb` endpoint.
    pub dynamodb_port: u16,
    /// The port of the `lambda` endpoint.
    pub lambda_port: u16,
    /// The port of the `cloudwatch` endpoint. Without one it is 9002, or a free port if another
    /// program listens on that.
    pub cloudwatch_port: Option<u16>,
    /// Where the tables are kept; in memory without it.
    pub data_dir: Option<PathBuf>,
    /// The executables of the functions.
    pub functions: Functions,
    /// How many environments of one function may run at the same time; at least one does.
    pub max_environments: usize,
    /// When tables throttle.
    pub partitions: Limits,
    /// The period of every alarm in seconds, in place of the template's. The alarms are then
    /// evaluated once each period.
    pub alarm_period_secs: Option<NonZeroU32>,
    /// How old the signature of a request to the `dynamodb` endpoint may be. Without one it is the
    /// template's `RequestLifetimeSecs`, which it must not exceed.
    pub signature_window: Option<Duration>,
    /// Who may call the HTTP API, if it is to check that as the template's `AuthMode` says. Without them it lets everybody
    /// in.
    pub principals: Option<Principals>,
}

impl StackOptions {
    /// A stack on free ports and in memory, with up to ten environments of each function and AWS's
    /// own limits.
    pub fn new(template: TemplateSource, functions: Functions) -> Self {
        Self {
            template,
            overrides: Vec::new(),
            port: 0,
            dynamodb_port: 0,
            lambda_port: 0,
            cloudwatch_port: Some(0),
            data_dir: None,
            functions,
            max_environments: 10,
            partitions: Limits::default(),
            alarm_period_secs: None,
            signature_window: None,
            principals: None,
        }
    }
}

/// The default port of the `cloudwatch` endpoint, unless another program listens on it.
const USUAL_CLOUDWATCH_PORT: u16 = 9002;

/// Where a stack is reached, as URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Endpoints {
    /// The HTTP API.
    pub api: String,
    /// DynamoDB and DynamoDB Streams, for any SDK. `GET /_dynashard/counters` tells its
    /// [`Counters`].
    pub dynamodb: String,
    /// The Invoke operation of Lambda, for any SDK. `GET /_dynashard/environments` lists the
    /// environments, and `GET /_dynashard/queues/<logical id>` the messages of a queue.
    pub lambda: String,
    /// `CloudWatch`, for any SDK: metrics, alarms and Contributor Insights.
    pub cloudwatch: String,
}

/// A running stack.
///
/// End it with [`Stack::shutdown`]. The processes of a stack that is dropped run until the async
/// runtime ends, which kills them.
#[derive(Debug)]
pub struct Stack {
    endpoints: Endpoints,
    parameters: BTreeMap<String, String>,
    data: DynamoDb,
    runtime: Arc<Runtime>,
    background: Arc<Background>,
    events: Events,
    alarms: Arc<Alarms>,
    evaluation: JoinSet<()>,
    gateway: Server,
    lambda_api: Server,
    cloudwatch: Server,
}

impl Stack {
    /// Starts everything, and returns when each function has an environment that waits for events.
    pub async fn start(options: StackOptions) -> Result<Self, StartError> {
        let Limits { partition_wcu, partition_rcu, .. } = options.partitions;
        let facts = [
            ("PartitionWriteUnits", partition_wcu.to_string()),
            ("PartitionReadUnits", partition_rcu.to_string()),
        ];
        let plan = load_template_for(&options.template, &options.overrides, &facts)?;
        let signature_window = signature_window(&plan, options.signature_window)?;
        check_callers(&plan, options.principals.as_ref())?;
        let executables = options.functions.locate(&plan.functions)?;
        let api = server::bind(options.port, "--port").await?;
        let dynamodb = server::bind(options.dynamodb_port, "--dynamodb-port").await?;
        let lambda = server::bind(options.lambda_port, "--lambda-port").await?;
        let cloudwatch = server::bind_or_usual(
            options.cloudwatch_port,
            USUAL_CLOUDWATCH_PORT,
            "--cloudwatch-port",
        )
        .await?;
        let endpoints = Endpoints {
            api: url(&api)?,
            dynamodb: url(&dynamodb)?,
            lambda: url(&lambda)?,
            cloudwatch: url(&cloudwatch)?,
        };
        let clock: SharedClock = Arc::new(SystemClock);
        let access = Arc::new(Access::new(&plan.functions, &plan.roles));
        let dynamodb_options = DynamoDbOptions {
            port: options.dynamodb_port,
            data_dir: options.data_dir,
            partitions: options.partitions,
            signature_window,
            ..DynamoDbOptions::default()
        };
        let (tables, roles) = (plan.tables.clone(), Arc::clone(&access));
        let data =
            DynamoDb::serve(dynamodb, dynamodb_options, tables, clock.clone(), roles).await?;
        let put_metrics = Arc::new(MetricStore::default());
        let metrics =
            Metrics { put: Arc::clone(&put_metrics), observed: Arc::clone(data.observed()) };
        let metrics = Arc::new(metrics);
        let launcher = |runtime_api| Bootstraps {
            executables,
            runtime_api,
            dynamodb: endpoints.dynamodb.clone(),
            cloudwatch: endpoints.cloudwatch.clone(),
            metrics: EmbeddedMetrics { store: put_metrics, clock: Arc::clone(&clock) },
        };
        let functions = &plan.functions;
        let runtime = Runtime::start(functions, options.max_environments, &clock, launcher).await;
        let runtime = match runtime {
            Ok(runtime) => Arc::new(runtime),
            Err(error) => {
                data.shutdown().await;
                return Err(error);
            }
        };
        let background = Arc::new(Background::new(Arc::clone(&clock)));
        let lambda_api = LambdaApi {
            runtime: Arc::clone(&runtime),
            background: Arc::clone(&background),
            queues: Arc::new(Queues::new(&plan.queues, &clock)),
            access: Arc::clone(&access),
        };
        let alarms = plan.alarms.iter().cloned();
        let alarms = alarms.map(|alarm| match options.alarm_period_secs {
            Some(secs) => alarm.with_period(secs.get().into()),
            None => alarm,
        });
        let (alarms, transitions) = Alarms::new(alarms.collect(), &clock);
        let events = Events::start(&plan, &data.store(), transitions, &lambda_api, &clock);
        let alarms = Arc::new(alarms);
        let evaluation = alarms.watch(&metrics);
        let gateway = Gateway::new(functions, &runtime, options.principals, Arc::clone(&clock));
        let cloudwatch_api = CloudWatchApi { metrics, alarms: Arc::clone(&alarms), clock, access };
        Ok(Self {
            endpoints,
            parameters: plan.parameters,
            data,
            runtime,
            background,
            events,
            alarms,
            evaluation,
            gateway: Server::start(api, Arc::new(gateway)),
            lambda_api: Server::start(lambda, Arc::new(lambda_api)),
            cloudwatch: Server::start(cloudwatch, Arc::new(cloudwatch_api)),
        })
    }

    /// Where the stack is reached.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The values of the template's parameters, those left at their defaults included.
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.parameters
    }

    /// What the `dynamodb` endpoint has counted so far.
    pub fn counters(&self) -> Counters {
        self.data.counters()
    }

    /// The name and the state of each alarm, in the order of their names.
    pub fn alarms(&self) -> Vec<(String, AlarmState)> {
        self.alarms
            .list()
            .into_iter()
            .map(|(alarm, status)| (alarm.name.clone(), status.state))
            .collect()
    }

    /// Ends everything in order, and returns when no process, thread or task of the stack is left.
    ///
    /// Requests that run are given a moment to end; with a data directory, everything acknowledged
    /// is in it.
    pub async fn shutdown(mut self) {
        // From the outside in: callers end before what they call.
        tokio::join!(
            self.gateway.stop(),
            self.lambda_api.stop(),
            self.events.stop(),
            self.evaluation.shutdown()
        );
        self.background.shutdown().await;
        self.runtime.shutdown().await;
        tokio::join!(self.cloudwatch.stop(), self.data.shutdown());
    }
}

/// Says who may call the HTTP API.
fn check_callers(plan: &Plan, principals: Option<&Principals>) -> Result<(), StartError> {
    let Some(principals) = principals else {
        tracing::info!(
            "the HTTP API lets everybody in, whatever AuthMode and ControlAuth are; --auth checks who calls"
        );
        return Ok(());
    };
    let mut routes = plan.functions.iter().flat_map(|function| &function.routes);
    if routes.any(|route| matches!(route.authorization, Authorization::Jwt(_)))
        && principals.jwks.keys.is_empty()
    {
        return Err(StartError::NoTokenKeys);
    }
    let users = principals.users.iter().map(|user| user.access_key_id.as_str()).collect::<Vec<_>>();
    tracing::info!(
        auth_mode = plan.parameter("AuthMode"),
        control_auth = plan.parameter("ControlAuth"),
        users = users.join(","),
        token_keys = principals.jwks.keys.len(),
        "the HTTP API checks who calls"
    );
    Ok(())
}

/// How old the signature of a request may be: what was asked for, or else what the functions of the
/// plan reckon with, or else DynamoDB's 15 minutes.
///
/// # Errors
/// [`StartError::SignatureWindow`] where it would exceed what the functions reckon with.
pub fn signature_window(plan: &Plan, asked: Option<Duration>) -> Result<Duration, StartError> {
    window_within(plan.lifetime_and_age(), asked)
}

fn window_within(
    lifetime_and_age: Option<[Duration; 2]>,
    asked: Option<Duration>,
) -> Result<Duration, StartError> {
    match (asked, lifetime_and_age) {
        (Some(window), Some([lifetime, age])) if window > lifetime + age => {
            Err(StartError::SignatureWindow {
                window_secs: window.as_secs(),
                lifetime_secs: lifetime.as_secs_f64(),
                age_secs: age.as_secs_f64(),
            })
        }
        (Some(window), _) => Ok(window),
        (None, Some([lifetime, age])) => Ok(lifetime + age),
        (None, None) => Ok(Duration::from_mins(15)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_outlives_what_the_functions_reckon_with() {
        let secs = Duration::from_secs;
        let window = |asked: Option<u64>, lifetime: Option<u64>| {
            window_within(lifetime.map(|of| [of, 0].map(secs)), asked.map(secs))
                .map_err(|e| e.to_string())
        };
        assert_eq!(window(None, Some(5)), Ok(secs(5)));
        assert_eq!(window(None, None), Ok(secs(900)));
        assert_eq!(window(Some(300), Some(960)), Ok(secs(300)));
        assert_eq!(window(Some(960), Some(960)), Ok(secs(960)));
        assert_eq!(window(Some(3_600), None), Ok(secs(3_600)));
        let dated = Some([secs(120), secs(270)]);
        assert!(matches!(window_within(dated, None), Ok(window) if window == secs(390)));
        assert!(window_within(dated, Some(secs(391))).is_err());
        let refused = window(Some(961), Some(960)).expect_err("too long");
        for part in ["--signature-window-secs 961", "RequestLifetimeSecs", "960"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
