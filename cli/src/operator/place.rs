//! `dynashard use`: keeps which tables commands are about that no flag names.

use std::io;
use std::process::ExitCode;

use dynashard_aws_operator::Stack;

use super::connect::{CallerArgs, table_of};
use super::output::Output;
use super::{Failure, ended, until_interrupted};
use crate::context::Context;

#[derive(Debug, clap::Args)]
pub(crate) struct UseArgs {
    /// The CloudFormation stack.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["main_table", "metadata_table"])]
    stack_name: Option<String>,
    /// The table of the items, instead of --stack-name.
    #[arg(long, value_name = "NAME")]
    main_table: Option<String>,
    /// The table of the metadata. A main table that a stack has served says itself which that is.
    #[arg(long, value_name = "NAME", requires = "main_table")]
    metadata_table: Option<String>,
    /// Forget what was kept.
    #[arg(long, conflicts_with_all = ["stack_name", "main_table", "profile", "region", "endpoint_url"])]
    forget: bool,
    /// Print JSON on stdout: what is kept, empty if nothing is.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    caller: CallerArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
What is kept is a file in the user's folder of configuration files: dynashard/context.json in $XDG_CONFIG_HOME, or in
~/.config. It is taken as a whole, or not at all: whoever names a table, a profile, a region or a server by a flag, or by
DYNASHARD_STACK_NAME, DYNASHARD_MAIN_TABLE, DYNASHARD_METADATA_TABLE, DYNASHARD_PROFILE, DYNASHARD_REGION or
DYNASHARD_ENDPOINT_URL, gets nothing of it. A command that takes it says so on stderr. Keep the profile and the region, too, if
the shell may have others. `adopt`, `rotate` and `serve` are told their tables.

Exit status: 0 if it is kept, forgotten or shown; 1 if the stack is not there, or the file cannot be written.

Examples:
  dynashard use --stack-name dynashard --region eu-west-1
  dynashard use --main-table MainTable --endpoint-url http://127.0.0.1:8000
  dynashard use
  dynashard use --forget";

pub(crate) async fn run(args: UseArgs) -> ExitCode {
    let mut output = Output::new(args.json);
    let done = Box::pin(until_interrupted(keep(&args, &mut output))).await;
    ended(output, None, done)
}

async fn keep(args: &UseArgs, output: &mut Output) -> Result<(), Failure> {
    if args.forget {
        Context::forget().map_err(|error| unkept(&error))?;
        output.json(&Context::default());
        output.text("nothing is kept: each command is told its tables");
        return Ok(());
    }
    let UseArgs { stack_name, main_table, metadata_table, caller, .. } = args;
    if stack_name.is_none() && main_table.is_none() {
        if caller.context() != Context::default() {
            let why = "name what commands are about: --stack-name or --main-table";
            return Err(Failure::bad_argument(why));
        }
        let kept = Context::kept().map_err(|error| unkept(&error))?;
        output.json(&kept.clone().unwrap_or_default());
        output.text(match kept {
            Some(kept) => kept.flags(),
            None => "nothing is kept; name a stack, as in `dynashard use --stack-name dynashard`"
                .to_owned(),
        });
        return Ok(());
    }
    if let Some(name) = stack_name {
        // A name that is mistyped is to fail here, and not with the next command.
        let stack = Stack::find(&caller.connect().await?, name).await?;
        if table_of(&stack, "MetadataTable").is_none() {
            let why = format!("stack {name} has no MetadataTable; is it dynashard's?");
            return Err(Failure::connection(why));
        }
    }
    let context = Context {
        stack_name: stack_name.clone(),
        main_table: main_table.clone(),
        metadata_table: metadata_table.clone(),
        ..caller.context()
    };
    let file = context.keep().map_err(|error| unkept(&error))?;
    output.json(&context);
    output.text(format_args!(
        "commands are about {} from now on ({})",
        context.flags(),
        file.display()
    ));
    Ok(())
}

fn unkept(error: &io::Error) -> Failure {
    Failure {
        code: "context_file",
        detail: format!("what `dynashard use` keeps is out of reach: {error}"),
    }
}
