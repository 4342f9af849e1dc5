//! The `dynashard` command.

#[macro_use]
mod streams;

mod args;
mod clock;
mod console;
mod context;
mod demo;
mod http;
mod local;
mod logs;
mod numbers;
mod operator;
mod project;
#[cfg(test)]
mod reference;
mod serve;
mod shell;
mod signals;
mod wrap;

use std::io::{self, Write};
use std::process::ExitCode;

use args::Command;
use clap::error::ErrorKind;
use streams::Unwritten;

/// What ends a command early; one line for people.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let commands = || operator::complete::completing(args::command());
    match shell::proposes(commands) {
        Ok(false) => {}
        // A name that nobody resolves would keep the runtime, and the shell, waiting.
        Ok(true) => std::process::exit(0),
        Err(why) => {
            note!("dynashard: {why}");
            return ExitCode::FAILURE;
        }
    }
    let words = context::completed(&args::command(), std::env::args_os().collect());
    let args = match args::parse(words) {
        Ok(args) => args,
        Err(told) => return tell(&told),
    };
    match &args.command {
        // It says itself where they go.
        Command::Demo(_) => {}
        _ => logs::start_on_stderr(),
    }
    let result = match args.command {
        Command::Local(options) => local::run(options).await,
        Command::Demo(options) => demo::run(options).await,
        Command::Completions(options) => shell::completions(&options).map_err(Failure::from),
        Command::Man(options) => shell::man(&options, args::command()).map_err(Failure::from),
        Command::Serve(options) => Box::pin(serve::run(options)).await,
        Command::Console(options) => Box::pin(console::run(options)).await,
        Command::Adopt(options) => return Box::pin(operator::adopt::run(options)).await,
        Command::Decisions(options) => return Box::pin(operator::decisions::run(options)).await,
        Command::Doctor(options) => return Box::pin(operator::doctor::run(options)).await,
        Command::Export(options) => return Box::pin(operator::export::run(options)).await,
        Command::Import(options) => return Box::pin(operator::import::run(options)).await,
        Command::Keys(options) => return operator::keys::run(&options),
        Command::Plan(options) => return operator::plan::run(&options),
        Command::Simulate(options) => return operator::simulate::run(&options),
        Command::Verify(options) => return Box::pin(operator::verify::run(options)).await,
        Command::Query(options) => return Box::pin(operator::query::run(options)).await,
        Command::Rotate(options) => return Box::pin(operator::rotate::run(options)).await,
        Command::Status(options) => return Box::pin(operator::status::run(options)).await,
        Command::Top(options) => return Box::pin(operator::top::run(options)).await,
        Command::Init(options) => return Box::pin(operator::init::run(options)).await,
        Command::Use(options) => return Box::pin(operator::place::run(options)).await,
        Command::Reshards(options) => return Box::pin(operator::reshards::run(options)).await,
        Command::Pause(options) => return Box::pin(operator::reshards::pause(options)).await,
        Command::Resume(options) => return Box::pin(operator::reshards::resume(options)).await,
        Command::Cancel(options) => return Box::pin(operator::reshards::cancel(options)).await,
        Command::Scale(options) => return Box::pin(operator::scale::run(options)).await,
        Command::Indexes(options) => return Box::pin(operator::indexes::run(options)).await,
        Command::Settings(options) => return Box::pin(operator::settings::run(options)).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            note!("dynashard: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the help or the version, or what is wrong with the arguments.
fn tell(told: &clap::Error) -> ExitCode {
    let status = u8::try_from(told.exit_code()).unwrap_or(2);
    if let Some(told) = args::told_of_a_fraction(told) {
        note!("{told}");
        return ExitCode::from(status);
    }
    let printed = told.print().and_then(|()| io::stdout().flush()).map_err(Unwritten);
    if told.kind() == ErrorKind::MissingRequiredArgument
        && told.to_string().contains("--main-table")
    {
        note!(
            "A stack is named by --stack-name, by DYNASHARD_STACK_NAME, or once for all by `dynashard use`."
        );
    }
    match printed.err().filter(|error| !told.use_stderr() && !error.is_closed()) {
        Some(error) => {
            note!("dynashard: {error}");
            ExitCode::FAILURE
        }
        None => ExitCode::from(status),
    }
}
