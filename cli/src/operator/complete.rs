//! What a shell proposes after `--stack-name` and `--pk`: the stacks of the account, and the sharded collections of the stack that
//! the words before name. Whatever cannot be had within two seconds is not proposed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::future::Future;
use std::time::Duration;

use clap::{Args, FromArgMatches};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use dynashard_aws_operator::Stack;
use dynashard_core::ports::List;
use dynashard_keys::PartitionKey;
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::Failure;
use super::connect::{CallerArgs, ConnectArgs, deadline};
use crate::context;

/// A shell waits for what it proposes.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nobody chooses among more.
const MOST: usize = 50;

/// The commands, with what is asked of AWS for the values of their flags.
pub(crate) fn completing(command: clap::Command) -> clap::Command {
    let takes = |command: &clap::Command, id: &str| {
        command.get_arguments().any(|arg| arg.get_id() == id && arg.get_long().is_some())
    };
    let mut command = command.mut_subcommands(completing);
    for (id, values) in [("stack_name", stacks as fn(&OsStr) -> _), ("pk", keys)] {
        // Only a command that names tables has a place to look in.
        if takes(&command, id) && takes(&command, "region") {
            command = command.mut_arg(id, |arg| arg.add(ArgValueCompleter::new(values)));
        }
    }
    command
}

fn stacks(begun: &OsStr) -> Vec<CompletionCandidate> {
    candidates(begun, async {
        let operator = told::<CallerArgs>()?.connect().await?;
        Ok(Stack::names(&operator, "MetadataTableName").await?)
    })
}

fn keys(begun: &OsStr) -> Vec<CompletionCandidate> {
    candidates(begun, async {
        let connection = told::<ConnectArgs>()?.connect().await?;
        let directory = connection.directory();
        let mut found = BTreeSet::new();
        for list in [List::Grown, List::Resharding] {
            let page = directory.records().list(list, None, deadline(&directory)).await?;
            found.extend(page.entries.into_iter().map(|listed| listed.partition));
        }
        let words = found.iter().map(PartitionKey::as_str).filter(|key| is_plain(key));
        Ok(words.map(str::to_owned).collect())
    })
}

/// Whether a shell takes a word for itself. Keys are others' words, and what a shell proposes it also runs.
fn is_plain(word: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_-./@+,:=#".contains(c);
    !word.starts_with(['#', '-', '=']) && word.chars().all(is_safe)
}

/// What of these the word that was begun may become.
fn candidates(
    begun: &OsStr,
    look: impl Future<Output = Result<Vec<String>, Failure>>,
) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    let found = block_in_place(|| Handle::current().block_on(timeout(PATIENCE, look)));
    let found = found.ok().and_then(Result::ok).unwrap_or_default();
    let fitting = found.into_iter().filter(|word| word.starts_with(begun)).take(MOST);
    fitting.map(CompletionCandidate::new).collect()
}

/// These flags as the line so far says them, completed as those of a command are.
fn told<T: Args + FromArgMatches>() -> Result<T, Failure> {
    let line = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let words = context::completed_quietly(&crate::args::command(), line);
    let command = T::augment_args(clap::Command::new("place").no_binary_name(true));
    let flags = context::flags_of(&words, &command);
    let parsed =
        command.try_get_matches_from(flags).and_then(|matches| T::from_arg_matches(&matches));
    parsed.map_err(|error| Failure::bad_argument(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_shell_would_run_is_not_proposed() {
        for key in ["EWR", "EVENT#1", "a.b/c@d+e,f:g=h_i-j"] {
            assert!(is_plain(key), "{key}");
        }
        for key in
            ["$(id)", "*", "a b", "a\nb", "`id`", "#a", "-a", "~a", "a;b", "\u{1b}[2J", "\u{e4}"]
        {
            assert!(!is_plain(key), "{key}");
        }
    }
}
