//! `dynashard completions` and `dynashard man`: what a shell and a manual know of the commands.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use crate::streams::Unwritten;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The directory, which is made if it is not there.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// What follows the arguments of `completions` in `--help`.
pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
The script asks `dynashard` itself for what may come next: also for the stacks of the account after --stack-name, and for the
sharded collections of the stack after --pk. What AWS does not answer within two seconds is not proposed.

Examples:
  dynashard completions bash > ~/.local/share/bash-completion/completions/dynashard
  dynashard completions zsh > ~/.zfunc/_dynashard
  dynashard completions fish > ~/.config/fish/completions/dynashard.fish";

/// What follows the arguments of `man` in `--help`.
pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  dynashard man ~/.local/share/man/man1
  man dynashard-scale";

/// The variable by which a shell asks for what may come next.
const ASKS: &str = "DYNASHARD_COMPLETE";

/// Answers a shell that asks what may come next, and tells whether one did.
pub(crate) fn proposes(commands: impl Fn() -> Command) -> Result<bool, String> {
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(commands).var(ASKS);
    asked.try_complete(std::env::args_os(), here.as_deref()).map_err(|error| error.to_string())
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), String> {
    let mut script = Vec::new();
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell =
        shells.completer(&name).ok_or_else(|| format!("the script for {name} is missing"))?;
    shell
        .write_registration(ASKS, "dynashard", "dynashard", "dynashard", &mut script)
        .map_err(|error| error.to_string())?;
    let mut stdout = io::stdout().lock();
    let written = io::Write::write_all(&mut stdout, &script);
    match written.and_then(|()| io::Write::flush(&mut stdout)).map_err(Unwritten) {
        Err(error) if !error.is_closed() => Err(error.to_string()),
        _ => Ok(()),
    }
}

pub(crate) fn man(args: &ManArgs, command: Command) -> Result<(), String> {
    let written =
        fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(command, &args.dir));
    written
        .map_err(|error| format!("the pages cannot be written to {}: {error}", args.dir.display()))
}
