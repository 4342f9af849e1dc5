//! Why a stack did not start, in one line that says what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a stack did not start. Each message is one line and names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another program listens on the port: stop it, or choose another port.
    #[error(
        "port {port} is in use: stop what listens there, or choose another port with {flag} (0 \
         takes a free one)"
    )]
    PortInUse {
        /// The port that was asked for.
        port: u16,
        /// The option of the command that sets it.
        flag: &'static str,
    },
    /// The port cannot be listened on for another reason, such as a privileged port.
    #[error(
        "cannot listen on {at}: {source}: choose another port with {flag} (0 takes a free one)"
    )]
    Listen {
        /// The address and port that were asked for.
        at: SocketAddr,
        /// The option of the command that sets the port.
        flag: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The operating system gives no port of 127.0.0.1 at all.
    #[error("no port of 127.0.0.1 can be listened on: {0}")]
    Loopback(io::Error),
    /// The template cannot be read, parsed or run: correct it at the place that is named.
    #[error("{location}: {problem}")]
    Template {
        /// The template's name and, where it is known, the line: `template.yaml:12`.
        location: String,
        /// What is wrong there.
        problem: String,
    },
    /// A parameter override is unknown or not allowed: use one of the values that are named.
    #[error("parameter {name}: {problem}")]
    Parameter {
        /// The parameter, as it was given.
        name: String,
        /// What is wrong with it, with what is allowed.
        problem: String,
    },
    /// A request could execute when nobody waits for it any longer: take a shorter window, or let the
    /// functions wait longer.
    #[error(
        "--signature-window-secs {window_secs} is longer than RequestLifetimeSecs, which is \
         {lifetime_secs}, and SignatureAgeSecs, which is {age_secs}, together: a write as old as that \
         could execute after its reshard has closed, and be lost; shorten the window, or give a longer --set RequestLifetimeSecs"
    )]
    SignatureWindow {
        /// The window that was asked for, in seconds.
        window_secs: u64,
        /// The parameter `RequestLifetimeSecs`.
        lifetime_secs: f64,
        /// The parameter `SignatureAgeSecs`.
        age_secs: f64,
    },
    /// The file of those who may call the HTTP API cannot be used.
    #[error("--principals {}: {problem}", path.display())]
    Principals {
        /// The file that was asked for.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The routes of the HTTP API take tokens, and no key is known by which they could be signed.
    #[error(
        "AuthMode is jwt, and --auth knows no key of tokens: name a file with jwks, the keys of the issuer, with --principals"
    )]
    NoTokenKeys,
    /// The data directory cannot be used.
    #[error("data directory {}: {problem}", path.display())]
    DataDir {
        /// The directory that was asked for.
        path: PathBuf,
        /// What is wrong with it, with what to do.
        problem: String,
    },
    /// The embedded DynamoDB engine refused a table of the template.
    #[error("table {table}: {problem}")]
    Table {
        /// The table's logical id.
        table: String,
        /// What is wrong with it, with what to do.
        problem: String,
    },
    /// The embedded DynamoDB engine could not be started.
    #[error("the DynamoDB engine did not start: {0}")]
    Engine(String),
    /// The executable of a function is missing: build it, or name the directory that holds it.
    #[error("no bootstrap of {binary} for {function}: {problem}")]
    MissingBootstrap {
        /// The function's logical id.
        function: String,
        /// The name of its binary.
        binary: String,
        /// Where it was looked for, with what to do.
        problem: String,
    },
    /// Building the functions failed; cargo's own messages are on stderr.
    #[error("building the functions failed: {0}")]
    Build(String),
    /// A function started and failed before it asked for its first event.
    #[error("{function} did not start: {problem}; what it printed is above")]
    Init {
        /// The function's logical id.
        function: String,
        /// The error that it reported, or how it ended.
        problem: String,
    },
}

impl StartError {
    /// An error at a line of the template, or in the template as a whole.
    pub(crate) fn template(name: &str, line: Option<usize>, problem: impl fmt::Display) -> Self {
        let location = line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
        Self::Template { location, problem: in_one_line(&problem.to_string()) }
    }

    /// The engine did not start, for this reason.
    pub(crate) fn engine(why: impl fmt::Display) -> Self {
        Self::Engine(why.to_string())
    }

    /// What is wrong with a parameter.
    pub(crate) fn parameter(name: &str, problem: &str) -> Self {
        Self::Parameter { name: in_one_line(name), problem: in_one_line(problem) }
    }
}

/// Problems quote names and values of the template, which may hold line breaks.
fn in_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
