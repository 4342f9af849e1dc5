#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses a part of it")]
//! A stack of the real command and the real functions, for one test.

pub mod cloudformation;
pub mod gate;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aws_sdk_dynamodb::Client as DynamoDb;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How often a page is asked for before the test gives up, and the pause between: the API's
/// `Retry-After`.
const MOST_ATTEMPTS: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// The command of this checkout, which builds its functions itself.
pub fn dynashard(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynashard"));
    command.args(args).current_dir(checkout()).stdin(Stdio::null());
    command
}

/// The command on the tables of a local stack, without an AWS account.
pub fn operator_command(stack: &LocalStack, args: &[&str]) -> Command {
    let tables = ["--main-table", "MainTable", "--metadata-table", "MetadataTable"];
    let endpoint = ["--endpoint-url", stack.dynamodb.as_str()];
    without_account(&[args, &tables, &endpoint].concat())
}

/// The command without an AWS account.
pub fn without_account(args: &[&str]) -> Command {
    let mut command = dynashard(args);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    // Neither configuration files nor the instance metadata of a machine on AWS.
    command.env("HOME", "/nowhere").env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// What a command has printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The lines of JSON on stdout.
    pub fn lines(&self) -> Vec<Value> {
        let line = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        self.stdout.lines().map(line).collect()
    }

    pub fn events(&self, event: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["event"] == event).collect()
    }

    pub fn last(&self) -> Value {
        self.lines().pop().unwrap_or_else(|| panic!("nothing on stdout: {self:?}"))
    }
}

/// Runs a command to its end.
pub fn run(mut command: Command) -> Ran {
    let output = command.output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran {
        status: output.status.code().expect("it ends by itself"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs what a command has printed, as somebody who pastes it into a shell.
pub fn shell(printed: &str) -> Ran {
    let own = Path::new(env!("CARGO_BIN_EXE_dynashard")).parent().expect("a directory");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let command = without_account(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", printed]).current_dir(checkout()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("PATH", path);
    run(shell)
}

/// Runs an operator command on the tables of a local stack.
pub fn on(stack: &LocalStack, args: &[&str]) -> Ran {
    run(operator_command(stack, args))
}

/// The root of the workspace.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli lies in the workspace")
}

/// The codes of an operation that a busy stack did not carry out, or may have: it is to be sent again.
pub const PASSING_CODES: [&str; 5] =
    ["throttled", "contended", "unavailable", "deadline_exceeded", "outcome_unknown"];

/// A running `dynashard local` on free ports. Dropping it ends it.
pub struct LocalStack {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    /// The ready line. Of addresses that it does not have, those below are empty.
    pub ready: Value,
    pub api: String,
    pub dynamodb: String,
    pub lambda: String,
}

/// An answer of the API.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub etag: Option<String>,
    pub content_type: Option<String>,
    pub retry_after: Option<String>,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The stable code of a problem.
    pub fn code(&self) -> String {
        assert_eq!(self.content_type.as_deref(), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().expect("a code").to_owned()
    }
}

impl LocalStack {
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    /// As [`LocalStack::start`], with further variables in the command's environment.
    pub fn start_with(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let ports = ["local", "--dynamodb-port", "0", "--port", "0", "--lambda-port", "0"];
        // The engine alone has one.
        let ports = if args.contains(&"--engine-only") { &ports[..3] } else { &ports[..] };
        let mut child = dynashard(&[ports, args].concat())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let stderr = collect(child.stderr.take().expect("piped"));
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("stdout");
        let Ok(ready) = serde_json::from_str::<Value>(&line) else {
            let _ = child.kill();
            panic!("no ready line but {line:?}: {}", stderr.join().unwrap_or_default());
        };
        assert_eq!(ready["ready"], true);
        let url = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        let (api, dynamodb, lambda) = (url("api"), url("dynamodb"), url("lambda"));
        Self { child, stdout, stderr: Some(stderr), ready, api, dynamodb, lambda }
    }

    /// Sends a request to the API. The path carries its query string.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        send_to(&self.api, method, path, headers, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], Some(&body.to_string()))
    }

    /// The items of a whole query, page by page, by strong reads. A machine at its limit may not answer
    /// in time, and the API asks to be asked again.
    pub fn query(&self, mut query: Value) -> Vec<Value> {
        query["consistent"] = json!(true);
        let (mut items, mut attempts) = (Vec::new(), 0);
        loop {
            let answer = self.json("POST", "/query", &query);
            attempts += 1;
            if [429, 503, 504].contains(&answer.status) && attempts < MOST_ATTEMPTS {
                thread::sleep(PAUSE);
                continue;
            }
            assert_eq!(answer.status, 200, "{answer:?}");
            attempts = 0;
            let mut page = answer.json();
            items.append(page["items"].as_array_mut().expect("items"));
            query["cursor"] = page["cursor"].take();
            if query["cursor"].is_null() {
                return items;
            }
        }
    }

    /// Waits, with the command that does, until a collection rests at this count.
    pub fn until_at_rest(&self, pk: &str, shards: u32) {
        let waited = on(self, &["scale", "--pk", pk, "--shards", &shards.to_string()]);
        assert_eq!(waited.status, 0, "{waited:?}");
    }

    /// Writes these puts, in batches, and again what a batch reports as unprocessed, when it says to: a partition is full, or
    /// where the machine is busy time may run out in the middle of one, or a lease before the answer.
    pub fn put_all(&self, puts: impl IntoIterator<Item = Value>) {
        let mut puts = puts.into_iter().collect::<Vec<_>>();
        for _ in 0..MOST_ATTEMPTS {
            let mut wait = Duration::ZERO;
            for batch in std::mem::take(&mut puts).chunks(200) {
                let answer = self.json("POST", "/batch-write", &json!({ "puts": batch }));
                assert_eq!(answer.status, 200, "{answer:?}");
                let secs = answer.retry_after.as_deref().and_then(|secs| secs.parse().ok());
                wait = wait.max(Duration::from_secs(secs.unwrap_or(0)));
                let left = answer.json()["unprocessed"].as_array().expect("a list").clone();
                puts.extend(left.iter().map(|left| {
                    let code = left["code"].as_str().expect("a code");
                    assert!(PASSING_CODES.contains(&code), "{left}");
                    let put = batch.iter().find(|put| put["sk"] == left["sk"]);
                    put.expect("one of the batch").clone()
                }));
            }
            if puts.is_empty() {
                return;
            }
            thread::sleep(wait);
        }
        panic!("{} puts were not written", puts.len());
    }

    /// What the `dynamodb` endpoint has counted.
    pub fn requests(&self, table: &str, operation: &str) -> u64 {
        self.counters()["tables"][table][operation]["requests"].as_u64().unwrap_or(0)
    }

    /// The operations on a table that the `dynamodb` endpoint has counted.
    pub fn operations(&self, table: &str) -> Vec<String> {
        let counters = self.counters();
        let operations = counters["tables"][table].as_object().into_iter().flatten();
        operations.map(|(operation, _)| operation.clone()).collect()
    }

    /// Waits for the first sweep, which pins the settings. From then on schedules only query the metadata table.
    pub fn until_swept(&self) {
        while self.requests("MetadataTable", "Query") == 0 {
            std::thread::yield_now();
        }
    }

    /// How often each operation of the metadata table was asked for, but those of schedules.
    pub fn unscheduled_of_metadata(&self) -> Vec<(String, u64)> {
        let counted = |operation: String| (self.requests("MetadataTable", &operation), operation);
        let all = self.operations("MetadataTable").into_iter().map(counted);
        let unscheduled = all.filter(|(_, operation)| operation != "Query");
        unscheduled.map(|(times, operation)| (operation, times)).collect()
    }

    /// How often a table or its indexes throttled for this reason.
    pub fn throttles(&self, table: &str, reason: &str) -> u64 {
        self.counters()["throttles"][table][reason].as_u64().unwrap_or(0)
    }

    fn counters(&self) -> Value {
        fetch(&format!("{}/_dynashard/counters", self.dynamodb))
    }

    /// Whether CloudWatch has a metric that this function logged.
    pub fn has_metric(&self, function: &str, metric: &str) -> bool {
        let url = self.ready["cloudwatch"].as_str().expect("it has one");
        let headers = [
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-target", "GraniteServiceVersion20100801.ListMetrics"),
        ];
        let asked = json!({
            "Namespace": "dynashard",
            "MetricName": metric,
            "Dimensions": [{ "Name": "FunctionName", "Value": function }],
        });
        let answer = send_to(url, "POST", "/", &headers, Some(&asked.to_string()));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["Metrics"].as_array().is_some_and(|found| !found.is_empty())
    }

    /// What the roles of the functions grant, and how often each permission was used.
    pub fn permissions(&self) -> Value {
        fetch(&format!("{}/_dynashard/permissions", self.lambda))
    }

    /// Invokes a function with an event, and returns what the Invoke API answers.
    pub fn invoke(&self, function: &str, event: &str) -> Answer {
        self.invoke_with(function, &[], event)
    }

    /// Has `ScaleFunction` do what its schedule has it do each minute.
    pub fn run_schedule(&self) {
        let schedule = std::fs::read_to_string(checkout().join("events/scale-schedule.json"));
        let answer = self.invoke("ScaleFunction", &schedule.expect("an event"));
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Invokes a function with these headers.
    pub fn invoke_with(&self, function: &str, headers: &[(&str, &str)], event: &str) -> Answer {
        let path = format!("/2015-03-31/functions/{function}/invocations");
        send_to(&self.lambda, "POST", &path, headers, Some(event))
    }

    /// The process ids of a function's environments.
    pub fn environments(&self, function: &str) -> Vec<Pid> {
        let pid =
            |environment: &Value| Pid::from_raw(i32::try_from(environment["pid"].as_i64()?).ok()?);
        self.environments_of(function).iter().filter_map(pid).collect()
    }

    /// Whether an environment of a function is at work.
    pub fn is_at_work(&self, function: &str) -> bool {
        self.environments_of(function).iter().any(|environment| environment["state"] == "busy")
    }

    fn environments_of(&self, function: &str) -> Vec<Value> {
        let environments = fetch(&format!("{}/_dynashard/environments", self.lambda));
        let environments = environments.as_array().expect("a list").iter();
        environments.filter(|environment| environment["function"] == function).cloned().collect()
    }

    pub fn all_environments(&self) -> Vec<Pid> {
        ["ReadFunction", "ScaleFunction", "WriteFunction"]
            .into_iter()
            .flat_map(|function| self.environments(function))
            .collect()
    }

    /// Sends a signal and waits for the end. Returns how it ended, what else it printed to stdout,
    /// and its stderr.
    pub fn end(mut self, signal: Signal) -> (ExitStatus, String, String) {
        kill_process(Pid::from_child(&self.child), signal).expect("the stack runs");
        let status = self.child.wait().expect("it ends");
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).expect("stdout");
        let stderr = self.stderr.take().map(JoinHandle::join).expect("collected once");
        (status, stdout, stderr.expect("collected"))
    }
}

pub fn send_to(
    endpoint: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(format!("{endpoint}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_owned()));
    let answer = exchange(request.body(Full::new(body)).expect("a request"));
    let answer = answer.unwrap_or_else(|why| panic!("{method} {path}: {why}"));
    let header = |name: &str| {
        answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let (etag, content_type) = (header("etag"), header("content-type"));
    let retry_after = header("retry-after");
    let status = answer.status().as_u16();
    let headers = answer.headers().clone();
    Answer { status, etag, content_type, retry_after, headers, body: answer.into_body() }
}

impl Drop for LocalStack {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Waits until nothing is left of the last change of a collection, in a metadata table with this name of
/// the key: until then markers are to be removed.
pub async fn until_cleared_up(client: &DynamoDb, key_name: &str, pk: &str) {
    let key = AttributeValue::S(format!("_ds_job#{pk}"));
    let job = || client.get_item().table_name("MetadataTable").key(key_name, key.clone()).send();
    while job().await.expect("a read").item.is_some() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Whether a process is there and has not ended.
pub fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // The state follows the name, which stands in brackets; Z is a process that has ended.
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}

/// The end of a process that is not a child of the test.
pub struct End(OwnedFd);

impl End {
    /// Watches a running process.
    pub fn of(pid: Pid) -> Self {
        Self(pidfd_open(pid, PidfdFlags::empty()).expect("it runs"))
    }

    /// Waits for the end, and returns whether it came within the time that is anybody's patience.
    pub fn wait(&self) -> bool {
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&patience)).expect("poll") == 1
    }
}

fn fetch(url: &str) -> Value {
    let request = Request::get(url).body(Full::default()).expect("a request");
    let answer = exchange(request).unwrap_or_else(|why| panic!("{url}: {why}"));
    serde_json::from_str(answer.body()).expect("JSON")
}

/// Sends a request on a connection of its own and waits for the answer, whether or not the test has
/// a runtime itself.
pub fn exchange(request: Request<Full<Bytes>>) -> Result<Response<String>, String> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
    static CLIENT: LazyLock<Client<HttpConnector, Full<Bytes>>> = LazyLock::new(|| {
        Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http()
    });
    let (sender, answer) = mpsc::channel();
    RUNTIME.spawn(async move {
        let answer = async {
            let answer = CLIENT.request(request).await.map_err(|e| e.to_string())?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
            let body = String::from_utf8(body.into()).map_err(|e| e.to_string())?;
            Ok(Response::from_parts(head, body))
        };
        // The test may have ended.
        let _ = sender.send(answer.await);
    });
    answer.recv().map_err(|e| e.to_string())?
}

fn collect(mut stderr: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    })
}
