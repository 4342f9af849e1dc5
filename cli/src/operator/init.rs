//! `dynashard init`: writes what `sam deploy` is told, from flags or from questions.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dialoguer::{Input, Select};
use dynashard_aws_operator::{Inspector, Unseen};
use dynashard_core::TableSchema;
use dynashard_local::{TemplateSource, check_parameters};
use serde::Serialize;

use super::connect::CallerArgs;
use super::files::replace;
use super::output::Output;
use super::shell::{flags, quoted};
use super::{Failure, adopt, ended, until_interrupted};
use crate::args::parse_setting;
use crate::context::Context;

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The stack. CloudFormation takes letters, digits and hyphens.
    #[arg(long, value_name = "NAME", value_parser = stack_name)]
    stack_name: Option<String>,
    /// What the stack is for: `dev` to try things in, `prod` for customers' data.
    #[arg(long, value_name = "KIND", value_enum)]
    environment: Option<Environment>,
    /// Adopt this existing table, whose keys are asked of DynamoDB. Nothing grows before `ScalingMode` is set to on.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Set a template parameter; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    settings: Vec<(String, String)>,
    /// The template to deploy. The default is template.yaml in the directory.
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Write into this directory, in which `sam deploy` is run.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Ask nothing: what no flag says has its default.
    #[arg(long)]
    yes: bool,
    /// Write over files that are there.
    #[arg(long)]
    force: bool,
    /// Print JSON on stdout: the files and the parameters.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    caller: CallerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Environment {
    Dev,
    Prod,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
It writes STACK.samconfig.toml and STACK.parameters.yaml, and prints the commands that deploy them. On a terminal it asks for what
no flag says. Names of keys, the type of the sort key and the separator can never be changed later.

Exit status: 0 if both files are written; 1 if not, and a line on stderr says why.

Examples:
  dynashard init
  dynashard init --stack-name orders --environment prod --region eu-west-1 --set PartitionKeyName=customer --yes
  dynashard init --stack-name orders --table Orders --set GrowKeys='EVENT#*' --yes";

pub(crate) async fn run(args: InitArgs) -> ExitCode {
    let mut output = Output::new(args.json);
    let done = Box::pin(until_interrupted(init(args, &mut output))).await;
    ended(output, None, done)
}

#[derive(Serialize)]
struct Report<'a> {
    stack_name: &'a str,
    environment: Environment,
    template: &'a Path,
    configuration: &'a Path,
    parameters_file: &'a Path,
    parameters: &'a BTreeMap<String, String>,
}

async fn init(args: InitArgs, output: &mut Output) -> Result<(), Failure> {
    let template = args.template.clone().unwrap_or_else(|| args.dir.join("template.yaml"));
    let (template, is_source) = looked_at(&template, &args.dir)?;
    let answers = Answers::of(&args)?;
    let stack = &answers.stack_name;
    let configuration = args.dir.join(format!("{stack}.samconfig.toml"));
    let parameters_file = args.dir.join(format!("{stack}.parameters.yaml"));
    let mut there = [&configuration, &parameters_file].into_iter();
    if let Some(file) = there.find(|file| !args.force && file.exists()) {
        let why = format!("{} is there already; --force writes over it", file.display());
        return Err(Failure::bad_argument(why));
    }
    let mut parameters = preset(answers.environment);
    if let Some(table) = &answers.table {
        parameters.extend(of_table(&args, table).await?);
    }
    parameters.extend(answers.keys);
    parameters.extend(args.settings);
    let given: Vec<_> = parameters.clone().into_iter().collect();
    check_parameters(&TemplateSource::Path(template.clone()), &given)
        .map_err(|error| Failure::bad_argument(error.to_string()))?;

    let caller = args.caller.context();
    let named = (!is_source).then_some(template.as_path());
    write(&parameters_file, &yaml(&parameters))?;
    write(&configuration, &samconfig(stack, answers.environment, &caller, named))?;

    output.json(&Report {
        stack_name: stack,
        environment: answers.environment,
        template: &template,
        configuration: &configuration,
        parameters_file: &parameters_file,
        parameters: &parameters,
    });
    let (written, beside) = (configuration.display(), parameters_file.display());
    output.text(format_args!("wrote {written} and {beside}"));
    if let Some(table) = &answers.table {
        output.text(format_args!(
            "next: `dynashard adopt --table {}` looks at every item",
            quoted(table)
        ));
    }
    for step in next(&args.dir, stack, answers.environment, is_source, &caller) {
        output.text(format_args!("next: {step}"));
    }
    Ok(())
}

/// Where the template lies, and whether its functions are yet to be built, which SAM does where it lies.
fn looked_at(template: &Path, dir: &Path) -> Result<(PathBuf, bool), Failure> {
    let text = fs::read_to_string(template).map_err(|error| {
        let why = format!(
            "{}: {error}; run this in a checkout of dynashard, or name the template of a release with --template",
            template.display()
        );
        Failure::bad_argument(why)
    })?;
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_source = text.contains("BuildMethod");
    if is_source && whole(template).parent() != Some(&whole(dir)) {
        let why = format!("{} is to be built where it lies: run this there", template.display());
        return Err(Failure::bad_argument(why));
    }
    Ok((whole(template), is_source))
}

/// The parameters of a stack that adopts this table.
async fn of_table(args: &InitArgs, table: &str) -> Result<Vec<(String, String)>, Failure> {
    let inspector = Inspector::of(&args.caller.connect().await?);
    let state = inspector.table(table).await;
    let state = state.map_err(|why| adopt::undescribed(table, &why))?;
    let schema = adopt::schema(&state, TableSchema::default().separator);
    let schema = schema.map_err(|_| {
        let see = format!("`dynashard adopt --table {}` says why", quoted(table));
        Failure::bad_argument(format!("table {table} cannot be a main table; {see}"))
    })?;
    let named = adopt::named(table, &schema);
    let is_named = |name: &str| named.iter().any(|(of_table, _)| *of_table == name);
    if let Some((name, _)) = args.settings.iter().find(|(name, _)| is_named(name)) {
        let why = format!("--table says {name}: leave it out of --set");
        return Err(Failure::bad_argument(why));
    }
    let expires_by = match inspector.ttl_attribute(table).await {
        Ok(attribute) => attribute,
        // The server does not know it, so nothing expires there.
        Err(Unseen::NotSupported) => None,
        Err(why) => {
            let why = format!("by which attribute items of {table} expire cannot be seen: {why}");
            return Err(Failure::connection(why));
        }
    };
    let mut parameters = Vec::from(named);
    parameters.extend(expires_by.map(|name| ("TtlAttribute", name)));
    // The policy of a table that exists is what `adopt --policy` writes.
    for (name, value) in [adopt::AT_FIRST, ("DenyOtherWriters", "off")] {
        parameters.push((name, value.to_owned()));
    }
    Ok(parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// What is asked, unless a flag says it.
struct Answers {
    stack_name: String,
    environment: Environment,
    table: Option<String>,
    keys: Vec<(String, String)>,
}

impl Answers {
    fn of(args: &InitArgs) -> Result<Self, Failure> {
        let asks = !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
        let unasked =
            |error: dialoguer::Error| Failure::bad_argument(format!("no answer: {error}"));
        let stack_name = match &args.stack_name {
            Some(name) => name.clone(),
            None if asks => Input::new()
                .with_prompt("Name of the stack")
                .default("dynashard".to_owned())
                .validate_with(|name: &String| stack_name(name).map(drop))
                .interact_text()
                .map_err(unasked)?,
            None => "dynashard".to_owned(),
        };
        let environment = match args.environment {
            Some(environment) => environment,
            None if asks => {
                let kinds = ["dev: a stack to try things in", "prod: a stack for customers' data"];
                let select = Select::new().with_prompt("What is it for").items(kinds).default(0);
                [Environment::Dev, Environment::Prod][select.interact().map_err(unasked)?]
            }
            None => Environment::Dev,
        };
        let is_set = |name: &str| args.settings.iter().any(|(set, _)| set == name);
        let table = match &args.table {
            None if asks && !is_set("ExistingMainTable") => {
                let prompt = "An existing table to adopt (empty: the stack makes one)";
                let asked = Input::<String>::new().with_prompt(prompt).allow_empty(true);
                Some(asked.interact_text().map_err(unasked)?).filter(|table| !table.is_empty())
            }
            table => table.clone(),
        };
        let mut keys = Vec::new();
        if asks && table.is_none() && !is_set("ExistingMainTable") {
            for (name, of, default) in [
                ("PartitionKeyName", "Attribute of the partition key", "pk"),
                ("SortKeyName", "Attribute of the sort key", "sk"),
                ("SortKeyType", "Type of the sort key: S for strings, N for numbers", "S"),
            ] {
                if !is_set(name) {
                    let asked = Input::new().with_prompt(of).default(default.to_owned());
                    keys.push((name.to_owned(), asked.interact_text().map_err(unasked)?));
                }
            }
        }
        Ok(Self { stack_name, environment, table, keys })
    }
}

fn stack_name(name: &str) -> Result<String, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(is_word)
        && name.len() <= 128
    {
        Ok(name.to_owned())
    } else {
        Err("it takes up to 128 letters, digits and hyphens, a letter first".to_owned())
    }
}

/// The parameters that the project's own stacks of this kind have.
fn preset(environment: Environment) -> BTreeMap<String, String> {
    let text = match environment {
        Environment::Dev => include_str!("../../../infra/parameters/dev.yaml"),
        Environment::Prod => include_str!("../../../infra/parameters/prod.yaml"),
    };
    let pairs = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = pairs.filter_map(|line| line.split_once(": "));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect()
}

/// A parameter file as `sam deploy --parameter-overrides file://` takes it.
fn yaml(parameters: &BTreeMap<String, String>) -> String {
    let head = "# Written by `dynashard init`. A deployment leaves what is not named here as it is, at first the default.\n";
    let lines = parameters.iter().map(|(name, value)| format!("{name}: {}\n", text(value)));
    head.to_owned() + &lines.collect::<String>()
}

fn samconfig(
    stack_name: &str,
    environment: Environment,
    caller: &Context,
    template: Option<&Path>,
) -> String {
    let place = [("region", &caller.region), ("profile", &caller.profile)].into_iter();
    let place = place.filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let place = place.map(|(name, value)| format!("{name} = {}\n", text(value)));
    let place = place.collect::<String>();
    let template =
        template.map(|path| format!("template_file = {}\n", text(&path.display().to_string())));
    let template = template.unwrap_or_default();
    let confirms = environment == Environment::Prod;
    format!(
        "# Written by `dynashard init`. `sam deploy` reads it in this directory.\n\
         version = 0.1\n\n\
         [default.global.parameters]\n\
         stack_name = {stack}\n{place}\n\
         [default.deploy.parameters]\n\
         {template}capabilities = \"CAPABILITY_IAM\"\n\
         confirm_changeset = {confirms}\n\
         fail_on_empty_changeset = false\n\
         resolve_s3 = true\n\
         tags = \"application=dynashard\"\n\
         parameter_overrides = [{parameters}]\n",
        stack = text(stack_name),
        parameters = text(&format!("file://{stack_name}.parameters.yaml")),
    )
}

/// A string as TOML, YAML and JSON have it.
fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// The commands that come next.
fn next(
    dir: &Path,
    stack: &str,
    environment: Environment,
    is_source: bool,
    caller: &Context,
) -> Vec<String> {
    let there = match dir.to_str() {
        Some(".") | None => String::new(),
        Some(dir) => format!("cd {} && ", quoted(dir)),
    };
    let build = if is_source { "sam build && " } else { "" };
    let deploy = format!("sam deploy --config-file {stack}.samconfig.toml");
    // Without deletion protection a creation that fails takes its empty tables back.
    let first = match environment {
        Environment::Dev => String::new(),
        Environment::Prod => format!(
            "{deploy} --parameter-overrides file://{stack}.parameters.yaml DeletionProtection=off && "
        ),
    };
    let place = [("--region", caller.region.as_deref()), ("--profile", caller.profile.as_deref())];
    vec![
        format!("{there}{build}{first}{deploy}"),
        format!("dynashard use --stack-name {stack}{}", flags(&place)),
        "dynashard doctor".to_owned(),
    ]
}

fn write(file: &Path, content: &str) -> Result<(), Failure> {
    replace(file, content.as_bytes()).map_err(|error| Failure {
        code: "unwritten",
        detail: format!("{} cannot be written: {error}", file.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_hold_what_was_said_however_odd_it_is() {
        let parameters = BTreeMap::from([("Separator".to_owned(), "\"#~\\".to_owned())]);
        assert!(
            yaml(&parameters).ends_with("\nSeparator: \"\\\"#~\\\\\"\n"),
            "{}",
            yaml(&parameters)
        );
        let caller = Context { region: Some("eu-west-1".to_owned()), ..Context::default() };
        let file = samconfig("orders", Environment::Prod, &caller, Some(Path::new("a/t.json")));
        assert!(file.contains("stack_name = \"orders\"\nregion = \"eu-west-1\"\n\n["), "{file}");
        assert!(file.contains("\ntemplate_file = \"a/t.json\"\ncapabilities"), "{file}");
        assert!(file.contains("confirm_changeset = true\n"), "{file}");
    }

    #[test]
    fn the_presets_are_parameters_that_the_template_takes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml");
        for environment in [Environment::Dev, Environment::Prod] {
            let preset: Vec<_> = preset(environment).into_iter().collect();
            assert!(preset.iter().any(|(name, _)| name == "LogRetentionDays"), "{preset:?}");
            let checked = check_parameters(&TemplateSource::Path(path.clone()), &preset);
            assert!(checked.is_ok(), "{checked:?}");
        }
    }

    #[test]
    fn a_name_that_cloudformation_refuses_is_refused_first() {
        for name in ["", "1a", "a_b", "a b", &"a".repeat(129)] {
            assert!(stack_name(name).is_err(), "{name}");
        }
        assert_eq!(stack_name("orders-2"), Ok("orders-2".to_owned()));
    }
}
