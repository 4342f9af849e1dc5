//! Where a command finds the tables when no flag says so: in the environment (`DYNASHARD_STACK_NAME`, …), or in what `dynashard use`
//! has kept.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal};
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

/// The variables of the AWS configuration that say more than what was kept.
const OF_AWS: [(&str, &[&str]); 2] = [
    ("profile", &["AWS_PROFILE", "AWS_ACCESS_KEY_ID"]),
    ("region", &["AWS_REGION", "AWS_DEFAULT_REGION"]),
];

impl Context {
    /// What was kept, if anything was.
    pub(crate) fn kept() -> io::Result<Option<Self>> {
        let text = match fs::read_to_string(file()?) {
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

/// The arguments of the command line, with those flags of the connection that it lacks and the environment has, or what was kept.
pub(crate) fn completed(command: &clap::Command, words: Vec<OsString>) -> Vec<OsString> {
    let kept = || match Context::kept() {
        Ok(kept) => kept.unwrap_or_default(),
        Err(error) => {
            note!(
                "dynashard: what `dynashard use` has kept cannot be read, and is passed over: {error}"
            );
            Context::default()
        }
    };
    let (words, is_kept) = completed_from(command, words, |name| env::var(name).ok(), kept);
    if let Some(kept) = is_kept.filter(|_| io::stderr().is_terminal()) {
        note!("dynashard: {kept}, as `dynashard use` has kept it");
    }
    words
}

/// Completes them, and says what of it was kept.
fn completed_from(
    command: &clap::Command,
    mut words: Vec<OsString>,
    variable: impl Fn(&str) -> Option<String>,
    kept: impl FnOnce() -> Context,
) -> (Vec<OsString>, Option<String>) {
    let (mut command, mut at) = (command, 1);
    while let Some(named) = words.get(at).and_then(|word| command.find_subcommand(word)) {
        (command, at) = (named, at + 1);
    }
    let takes = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    // `use` says what to keep.
    if !takes("endpoint_url") || command.get_name() == "use" {
        return (words, None);
    }
    let given = words.split_off(at);
    let has = |id: &str| is_given(&given, &flag(id));
    let names_place = PLACE.iter().any(|id| has(id)) || names_another(command, &given);
    let of_variable = |id: &str| {
        let value = variable(&format!("DYNASHARD_{}", id.to_ascii_uppercase()));
        value.filter(|value| !value.is_empty())
    };
    let place = |of: &dyn Fn(&str) -> Option<String>| {
        let stack = of("stack_name").map(|name| vec![("stack_name", name)]);
        let tables = || {
            Some(vec![("main_table", of("main_table")?), ("metadata_table", of("metadata_table")?)])
        };
        stack.or_else(tables)
    };
    let needs_place = takes("stack_name") && !names_place;
    let mut more = if needs_place { place(&of_variable) } else { None }.unwrap_or_default();
    let needs_kept = needs_place && more.is_empty();
    let kept = kept();
    let mut of_kept = Vec::new();
    if needs_kept {
        let found = place(&|id| kept.of(id).map(str::to_owned)).unwrap_or_default();
        of_kept.extend(found.iter().map(|(id, value)| format!("{} {value}", flag(id))));
        more.extend(found);
    }
    let says_where = CALLER.iter().any(|id| has(id) || of_variable(id).is_some());
    for id in CALLER.into_iter().filter(|id| takes(id) && !has(id)) {
        let of_aws = OF_AWS.iter().find(|(of, _)| *of == id).map_or(&[][..], |(_, names)| names);
        let is_set = of_aws.iter().any(|name| variable(name).is_some());
        let of_kept = || kept.of(id).filter(|_| !is_set && !says_where).map(str::to_owned);
        more.extend(of_variable(id).or_else(of_kept).map(|value| (id, value)));
    }
    for (id, value) in more {
        words.extend([OsString::from(flag(id)), value.into()]);
    }
    words.extend(given);
    (words, (!of_kept.is_empty()).then(|| of_kept.join(" ")))
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
        let (words, _) = completed_from(&command, words, of, || kept.clone());
        let words = words.iter().map(|word| word.to_string_lossy().into_owned());
        words.skip(1).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn flags_come_before_variables_and_those_before_what_was_kept() {
        let kept = Context {
            stack_name: Some("prod".to_owned()),
            region: Some("eu-west-1".to_owned()),
            ..Context::default()
        };
        let stack = [("DYNASHARD_STACK_NAME", "test")];
        let tables = [("DYNASHARD_MAIN_TABLE", "m"), ("DYNASHARD_METADATA_TABLE", "n")];
        for (words, variables, expected) in [
            ("d reshards", &[][..], "reshards --stack-name prod --region eu-west-1"),
            ("d reshards", &stack, "reshards --stack-name test --region eu-west-1"),
            (
                "d reshards --json",
                &tables,
                "reshards --main-table m --metadata-table n --region eu-west-1 --json",
            ),
            ("d reshards --stack-name=a", &stack, "reshards --region eu-west-1 --stack-name=a"),
            ("d reshards --region b", &[], "reshards --stack-name prod --region b"),
            ("d reshards", &[("AWS_REGION", "b")], "reshards --stack-name prod"),
            ("d query --series s --pk a", &stack, "query --region eu-west-1 --series s --pk a"),
            ("d verify --max-shards 9", &[], "verify --region eu-west-1 --max-shards 9"),
            // Whatever asks no tables is left as it is.
            ("d plan --writes 9", &stack, "plan --writes 9"),
            ("d keys shard --pk a", &stack, "keys shard --pk a"),
            ("d use --stack-name a", &stack, "use --stack-name a"),
            ("d nothing", &stack, "nothing"),
            ("d", &stack, ""),
        ] {
            assert_eq!(completed(words, variables, &kept), expected, "{words} {variables:?}");
        }
    }

    /// An operator who names a server or a region must not be sent to another one that was kept.
    #[test]
    fn who_says_where_is_not_sent_to_the_server_that_was_kept() {
        let kept = Context {
            endpoint_url: Some("http://127.0.0.1:8000".to_owned()),
            main_table: Some("m".to_owned()),
            metadata_table: Some("n".to_owned()),
            ..Context::default()
        };
        let local = "--main-table m --metadata-table n --endpoint-url http://127.0.0.1:8000";
        assert_eq!(completed("d verify --all", &[], &kept), format!("verify {local} --all"));
        let named = completed("d verify --stack-name a --region b --all", &[], &kept);
        assert_eq!(named, "verify --stack-name a --region b --all");
    }
}
