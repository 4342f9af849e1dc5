#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses a part of it")]
//! A stack of the real command and the real functions, for one test.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

/// The command of this checkout, which builds its functions itself.
pub fn dynashard(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynashard"));
    command.args(args).current_dir(checkout()).stdin(Stdio::null());
    command
}

/// The root of the workspace.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli lies in the workspace")
}

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
    pub body: String,
}

impl Answer {
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
        let ports = ["local", "--port", "0", "--dynamodb-port", "0", "--lambda-port", "0"];
        let mut child = dynashard(&[&ports, args].concat())
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
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.api));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = match body {
            Some(body) => agent.run(request.body(body).expect("a request")),
            None => agent.run(request.body(()).expect("a request")),
        };
        let mut answer = answer.unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let header = |name: &str| {
            answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (etag, content_type) = (header("etag"), header("content-type"));
        let retry_after = header("retry-after");
        let status = answer.status().as_u16();
        let body = answer.body_mut().read_to_string().expect("a body");
        Answer { status, etag, content_type, retry_after, body }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], Some(&body.to_string()))
    }

    /// What the `dynamodb` endpoint has counted.
    pub fn requests(&self, table: &str, operation: &str) -> u64 {
        self.counters()["tables"][table][operation]["requests"].as_u64().unwrap_or(0)
    }

    /// How often a table or its indexes throttled for this reason.
    pub fn throttles(&self, table: &str, reason: &str) -> u64 {
        self.counters()["throttles"][table][reason].as_u64().unwrap_or(0)
    }

    fn counters(&self) -> Value {
        fetch(&format!("{}/_dynashard/counters", self.dynamodb))
    }

    /// The process ids of a function's environments.
    pub fn environments(&self, function: &str) -> Vec<Pid> {
        let environments = fetch(&format!("{}/_dynashard/environments", self.lambda));
        environments
            .as_array()
            .expect("a list")
            .iter()
            .filter(|environment| environment["function"] == function)
            .filter_map(|environment| {
                Pid::from_raw(i32::try_from(environment["pid"].as_i64()?).ok()?)
            })
            .collect()
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

impl Drop for LocalStack {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Whether a process is there and has not ended.
pub fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // The state follows the name, which stands in brackets; Z is a process that has ended.
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}

/// The end of a process that is no child of the test.
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
    ureq::get(url).call().expect("an answer").body_mut().read_json().expect("JSON")
}

fn collect(mut stderr: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    })
}
