//! Where a command finds the tables when no flag says so: in the environment (`DYNASHARD_STACK_NAME`, …), or in what `dynashard use`
//! has kept.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What `dynashard use` keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stack_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) main_table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata_table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_url: Option<String>,
}

/// The flags that name the tables, and those that say who asks, and where.
const PLACE: [&str; 3] = ["stack_name", "main_table", "metadata_table"];
const CALLER: [&str; 3] = ["profile", "region", "endpoint_url"];

impl Context {
    /// What was kept, if anything was.
    pub(crate) fn kept() -> io::Result<Option<Self>> {
        let Ok(file) = file() else { return Ok(None) };
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        serde_json::from_str(&text).map(Some).map_err(io::Error::from)
    }

    /// Keeps it for the commands to come.
    pub(crate) fn keep(&self) -> io::Result<PathBuf> {
        let file = file()?;
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        fs::write(&file, serde_json::to_string_pretty(self).map_err(io::Error::from)? + "\n")?;
        Ok(file)
    }

    /// Forgets what was kept.
    pub(crate) fn forget() -> io::Result<()> {
        match fs::remove_file(file()?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What it says for people: the flags that stand for it.
    pub(crate) fn flags(&self) -> String {
        let named = PLACE.iter().chain(&CALLER).filter_map(|id| Some((id, self.of(id)?)));
        named.map(|(id, value)| format!("{} {value}", flag(id))).collect::<Vec<_>>().join(" ")
    }

    fn of(&self, id: &str) -> Option<&str> {
        match id {
            "stack_name" => self.stack_name.as_deref(),
            "main_table" => self.main_table.as_deref(),
            "metadata_table" => self.metadata_table.as_deref(),
            "profile" => self.profile.as_deref(),
            "region" => self.region.as_deref(),
            "endpoint_url" => self.endpoint_url.as_deref(),
            _ => None,
        }
    }
}

/// Where it is kept: in the user's folder of configuration files.
fn file() -> io::Result<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("XDG_CONFIG_HOME")
        .or_else(|| variable("APPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".config")));
    let folder = folder.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "neither XDG_CONFIG_HOME nor HOME is set")
    })?;
    Ok(folder.join("dynashard").join("context.json"))
}

/// The arguments of the command line, with the flags of the connection that the environment has, or with all that was kept.
///
/// What was kept is taken as a whole, or not at all: tables of one place must not be looked for in another.
pub(crate) fn completed(command: &clap::Command, words: Vec<OsString>) -> Vec<OsString> {
    let kept = || {
        Context::kept().unwrap_or_else(|error| {
            note!("dynashard: what `dynashard use` has kept cannot be read, and is passed over: {error}");
            None
        })
    };
    let (words, kept) = completed_from(command, words, |name| env::var(name).ok(), kept);
    if let Some(kept) = kept {
        note!("dynashard: {}, as `dynashard use` has kept it", kept.flags());
    }
    words
}

/// The arguments completed without a word on where they come from.
pub(crate) fn completed_quietly(command: &clap::Command, words: Vec<OsString>) -> Vec<OsString> {
    let kept = || Context::kept().ok().flatten();
    completed_from(command, words, |name| env::var(name).ok(), kept).0
}

/// The flags of this command among the words, each with its value.
pub(crate) fn flags_of(words: &[OsString], command: &clap::Command) -> Vec<OsString> {
    let mut found = Vec::new();
    let longs = command.get_arguments().filter_map(clap::Arg::get_long);
    for flag in longs.map(|long| format!("--{long}")) {
        let value = words.iter().enumerate().find_map(|(at, word)| {
            let rest = word.to_str()?.strip_prefix(&flag)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(OsString::from(value)),
                None if rest.is_empty() => words.get(at + 1).cloned(),
                None => None,
            }
        });
        found.extend(value.into_iter().flat_map(|value| [OsString::from(&flag), value]));
    }
    found
}

/// Completes them, and returns what was kept if that was taken.
fn completed_from(
    command: &clap::Command,
    mut words: Vec<OsString>,
    variable: impl Fn(&str) -> Option<String>,
    kept: impl FnOnce() -> Option<Context>,
) -> (Vec<OsString>, Option<Context>) {
    let (mut command, mut at) = (command, 1);
    while let Some(named) = words.get(at).and_then(|word| command.find_subcommand(word)) {
        (command, at) = (named, at + 1);
    }
    if command.get_name() == "serve" {
        let flags =
            dynashard_serve::VARIABLES.into_iter().filter(|(flag, _)| !is_given(&words, flag));
        let told = flags.filter_map(|(flag, name)| {
            Some(format!("{flag}={}", variable(name).filter(|value| !value.is_empty())?).into())
        });
        let told = told.collect::<Vec<OsString>>();
        words.splice(at..at, told);
        return (words, None);
    }
    let takes = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    // Others have a stack or a server of another meaning, and `use` says what to keep.
    if !PLACE.iter().chain(&CALLER).all(|id| takes(id)) || command.get_name() == "use" {
        return (words, None);
    }
    let given = words.split_off(at);
    let has = |id: &str| is_given(&given, &flag(id));
    let names_place = PLACE.iter().any(|id| has(id)) || names_another(command, &given);
    let of_variable = |id: &'static str| {
        let value = variable(&format!("DYNASHARD_{}", id.to_ascii_uppercase()));
        value.filter(|value| !value.is_empty()).map(|value| (id, value))
    };
    let mut more = Vec::new();
    if !names_place {
        match of_variable("stack_name") {
            Some(stack) => more.push(stack),
            None => more.extend(PLACE.into_iter().filter_map(of_variable)),
        }
    }
    more.extend(CALLER.into_iter().filter(|id| !has(id)).filter_map(of_variable));
    let is_told = names_place || !more.is_empty() || CALLER.iter().any(|id| has(id));
    let kept = if is_told { None } else { kept() };
    if let Some(kept) = &kept {
        let named = PLACE.into_iter().chain(CALLER);
        more.extend(named.filter_map(|id| Some((id, kept.of(id)?.to_owned()))));
    }
    for (id, value) in more {
        words.extend([OsString::from(flag(id)), value.into()]);
    }
    words.extend(given);
    (words, kept)
}

/// Whether these words name other tables than those of a stack, such as a time series.
fn names_another(command: &clap::Command, given: &[OsString]) -> bool {
    let conflicts = |arg: &&clap::Arg| {
        let with = command.get_arg_conflicts_with(arg);
        with.iter().any(|other| other.get_id() == "stack_name")
    };
    let longs = command.get_arguments().filter(conflicts).filter_map(clap::Arg::get_long);
    longs.map(|long| format!("--{long}")).any(|flag| is_given(given, &flag))
}

fn is_given(words: &[OsString], flag: &str) -> bool {
    let is_flag = |word: &OsStr| {
        let word = word.to_string_lossy();
        word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    words.iter().any(|word| is_flag(word))
}

fn flag(id: &str) -> String {
    format!("--{}", id.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(words: &str, variables: &[(&str, &str)], kept: &Context) -> String {
        let words = words.split(' ').map(OsString::from).collect();
        let of = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let command = crate::args::command();
        let (words, _) = completed_from(&command, words, of, || Some(kept.clone()));
        let words = words.iter().map(|word| word.to_string_lossy().into_owned());
        words.skip(1).collect::<Vec<_>>().join(" ")
    }

    /// A profile of one account met the tables of another.
    #[test]
    fn regression_what_was_kept_was_mixed_with_what_was_told() {
        let kept = Context {
            stack_name: Some("prod".to_owned()),
            region: Some("eu-west-1".to_owned()),
            ..Context::default()
        };
        let stack = [("DYNASHARD_STACK_NAME", "test")];
        let tables = [("DYNASHARD_MAIN_TABLE", "m"), ("DYNASHARD_METADATA_TABLE", "n")];
        let region = [("DYNASHARD_REGION", "b")];
        let served = [
            ("DYNASHARD_TABLES", "a:b"),
            ("DYNASHARD_PORT", "tcp://10.0.0.1:1"),
            ("DYNASHARD_UPSTREAM", ""),
        ];
        for (words, variables, expected) in [
            ("d reshards", &[][..], "reshards --stack-name prod --region eu-west-1"),
            ("d reshards", &stack, "reshards --stack-name test"),
            ("d reshards --json", &tables, "reshards --main-table m --metadata-table n --json"),
            ("d reshards", &region, "reshards --region b"),
            ("d reshards --stack-name=a", &region, "reshards --region b --stack-name=a"),
            ("d reshards --stack-name=a", &stack, "reshards --stack-name=a"),
            ("d reshards --region b", &[], "reshards --region b"),
            ("d reshards --region b", &stack, "reshards --stack-name test --region b"),
            ("d query --series s --pk a", &stack, "query --series s --pk a"),
            ("d verify --max-shards 9", &[], "verify --max-shards 9"),
            // Their flags have another meaning, or they ask no tables.
            ("d adopt --table a", &stack, "adopt --table a"),
            ("d adopt --table a", &tables, "adopt --table a"),
            ("d rotate --series a", &region, "rotate --series a"),
            ("d serve --port 1", &served, "serve --tables=a:b --port 1"),
            ("d serve --tables=c:d", &served, "serve --tables=c:d"),
            ("d plan --writes 9", &stack, "plan --writes 9"),
            ("d keys locate --pk a", &stack, "keys locate --pk a"),
            ("d use --stack-name a", &stack, "use --stack-name a"),
            ("d nothing", &stack, "nothing"),
            ("d", &stack, ""),
        ] {
            assert_eq!(completed(words, variables, &kept), expected, "{words} {variables:?}");
        }
    }
}
