//! The processes that execution environments are: how one is launched, watched and ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::log::Log;
use crate::cloudwatch::EmbeddedMetrics;
use crate::plan::{Function, REGION};

/// Starts processes. Tests start tasks of their own instead.
pub(crate) trait Launch: fmt::Debug + Send + Sync + 'static {
    /// Starts the process of one environment, which then polls the Runtime API under the prefix of
    /// `environment`.
    fn launch(
        &self,
        function: &Function,
        environment: u64,
        log: Arc<Log>,
    ) -> io::Result<Box<dyn Process>>;
}

/// A process that was started. Dropping it kills it.
pub(crate) trait Process: Send + Sync {
    fn pid(&self) -> u32;

    /// Ends when the process has exited. May be dropped and asked for again.
    fn exit(&mut self) -> Pin<Box<dyn Future<Output = Exit> + Send + '_>>;

    /// Asks the process to end.
    fn terminate(&mut self);

    /// Ends the process, also one that is stopped.
    fn kill(&mut self);
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// In the words of Lambda's `Runtime.ExitError`.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Code(0) => "Runtime exited without providing a reason".to_owned(),
            Self::Code(code) => format!("Runtime exited with error: exit status {code}"),
            Self::Signal(9) => "Runtime exited with error: signal: killed".to_owned(),
            Self::Signal(signal) => format!("Runtime exited with error: signal: {signal}"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Signal(os::signal(status)), Self::Code)
    }
}

/// Launches the bootstraps of the functions, in the environment that Lambda gives them.
#[derive(Debug)]
pub(crate) struct Bootstraps {
    /// The executable of each function, by logical id.
    pub(crate) executables: BTreeMap<String, PathBuf>,
    pub(crate) runtime_api: SocketAddr,
    /// The endpoint that the AWS SDK takes for DynamoDB, as a URL.
    pub(crate) dynamodb: String,
    /// The one that it takes for `CloudWatch`.
    pub(crate) cloudwatch: String,
    /// Where the metrics go that the functions log.
    pub(crate) metrics: EmbeddedMetrics,
}

impl Launch for Bootstraps {
    fn launch(
        &self,
        function: &Function,
        environment: u64,
        log: Arc<Log>,
    ) -> io::Result<Box<dyn Process>> {
        let executable = self.executables.get(&function.name);
        let executable = executable.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut command = Command::new(executable);
        os::lead_a_group(&mut command);
        let mut child = command
            .env_clear()
            .envs(inherited())
            .envs(self.variables(function, environment))
            .envs(&function.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut logs = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            let (log, metrics) = (Arc::clone(&log), self.metrics.clone());
            logs.spawn(async move { log.follow(stdout, &metrics).await });
        }
        if let Some(stderr) = child.stderr.take() {
            let metrics = self.metrics.clone();
            logs.spawn(async move { log.follow(stderr, &metrics).await });
        }
        let pid = child.id().unwrap_or_default();
        if function.routes.is_empty() {
            os::stand_back(pid);
        }
        Ok(Box::new(ChildProcess { pid, child, logs }))
    }
}

impl Bootstraps {
    /// The variables that Lambda sets, and those that lead the AWS SDK to this machine.
    fn variables(&self, function: &Function, environment: u64) -> Vec<(&'static str, String)> {
        let name = &function.name;
        // Lambda's own value has no scheme and no path; the runtime parses one with a path only
        // with its scheme.
        let runtime_api = format!("http://{}/{name}/{environment}", self.runtime_api);
        let mut variables = vec![
            ("AWS_LAMBDA_RUNTIME_API", runtime_api),
            ("AWS_LAMBDA_FUNCTION_NAME", name.clone()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", function.memory_mb.to_string()),
            ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".to_owned()),
            ("AWS_LAMBDA_LOG_FORMAT", function.log_format.clone()),
            ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
            ("AWS_LAMBDA_LOG_STREAM_NAME", format!("local/[$LATEST]{environment:032x}")),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            // By it the endpoints know whose role a request has to keep to.
            ("AWS_ACCESS_KEY_ID", name.clone()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
            ("AWS_ENDPOINT_URL_CLOUDWATCH", self.cloudwatch.clone()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.dynamodb.clone()),
            ("TZ", ":UTC".to_owned()),
            ("_HANDLER", "bootstrap".to_owned()),
        ];
        if let Some(level) = function.log_level {
            variables.push(("AWS_LAMBDA_LOG_LEVEL", level.as_str().to_owned()));
        }
        variables
    }
}

/// How long the pipes of a process that has exited may stay open, held by a child of its own.
const LOG_GRACE: Duration = Duration::from_millis(200);

/// What passes from the environment of the stack to its children: what they need to run at all, and
/// to be debugged.
fn inherited() -> impl Iterator<Item = (&'static str, OsString)> {
    ["PATH", "LD_LIBRARY_PATH", "RUST_BACKTRACE", "RUST_LOG", "SystemRoot"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)))
}

struct ChildProcess {
    pid: u32,
    child: Child,
    /// Read what the process prints.
    logs: JoinSet<()>,
}

impl Process for ChildProcess {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn exit(&mut self) -> Pin<Box<dyn Future<Output = Exit> + Send + '_>> {
        Box::pin(async {
            let exit = match self.child.wait().await {
                Ok(status) => status.into(),
                Err(error) => {
                    tracing::error!(pid = self.pid, %error, "a process cannot be waited for");
                    Exit::Code(-1)
                }
            };
            // The last words of a process come before the news of its end.
            let drained = async { while self.logs.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LOG_GRACE, drained).await;
            exit
        })
    }

    fn terminate(&mut self) {
        os::terminate(&mut self.child);
    }

    fn kill(&mut self) {
        if let Err(error) = self.child.start_kill() {
            tracing::warn!(pid = self.pid, %error, "a process was not killed");
        }
    }
}

#[cfg(unix)]
mod os {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use rustix::process::{Pid, Signal, getpriority_process, kill_process, setpriority_pgrp};
    use tokio::process::{Child, Command};

    /// The signal that has ended a process.
    pub(super) fn signal(status: ExitStatus) -> i32 {
        status.signal().unwrap_or(0)
    }

    /// A Ctrl-C in the terminal goes to its whole process group; the stack ends its children itself, in order.
    pub(super) fn lead_a_group(command: &mut Command) {
        command.process_group(0);
    }

    /// Gives a process that only events invoke less of the processors where others want them. On Lambda
    /// each environment has its own, and what a rebalancer computes costs clients nothing.
    pub(super) fn stand_back(pid: u32) {
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let lowered = getpriority_process(None).and_then(|own| {
            // The process leads a group of its own, so all of its threads are in it.
            setpriority_pgrp(group, own.saturating_add(STAND_BACK).min(LOWEST_PRIORITY))
        });
        if let Err(error) = lowered {
            tracing::warn!(pid, %error, "a process competes with those that clients wait for");
        }
    }

    /// By how much the nice value of such a process is higher than the stack's.
    const STAND_BACK: i32 = 10;

    /// The highest nice value that there is.
    const LOWEST_PRIORITY: i32 = 19;

    pub(super) fn terminate(child: &mut Child) {
        // The id is gone once the process was waited for, and may then belong to another one.
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw)
            && let Err(error) = kill_process(pid, Signal::TERM)
        {
            tracing::warn!(%pid, %error, "a process was not terminated");
        }
    }
}

/// Windows has no signals, so a process is ended at once. A write that it has under way reaches DynamoDB whole or not at all.
#[cfg(windows)]
mod os {
    use std::process::ExitStatus;

    use tokio::process::{Child, Command};

    pub(super) fn signal(_: ExitStatus) -> i32 {
        0
    }

    pub(super) fn lead_a_group(command: &mut Command) {
        /// `CREATE_NEW_PROCESS_GROUP`: a Ctrl-C in the console does not reach it.
        const OF_ITS_OWN: u32 = 0x200;
        command.creation_flags(OF_ITS_OWN);
    }

    pub(super) fn stand_back(_: u32) {}

    pub(super) fn terminate(child: &mut Child) {
        if let Err(error) = child.start_kill() {
            tracing::warn!(%error, "a process was not ended");
        }
    }
}
