//! Finds the application and its binaries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dynashard_local::{
    Functions, StackOptions, TemplateSource, build_functions, load_template, signature_window,
};

use crate::Failure;
use crate::args::ProjectArgs;

/// The options of a stack for this project, on free ports and in memory, whose DynamoDB takes
/// signatures of up to this age. Builds the functions
/// unless they are there already; cargo shows its progress on stderr.
pub(crate) async fn stack_options(
    args: &ProjectArgs,
    window: Option<Duration>,
) -> Result<StackOptions, Failure> {
    let installed = installed();
    let path = match (&args.template, &installed) {
        (Some(path), _) => path.clone(),
        (None, Some(folder)) => folder.join(TEMPLATE),
        (None, None) => find_template().ok_or(
            "there is no template.yaml here or above: run this in a checkout of dynashard, or name one with --template",
        )?,
    };
    let source = TemplateSource::Path(path.clone());
    let of_installed = installed.map(|folder| folder.join("functions"));
    let functions = if let Some(dir) = args.functions_dir.clone().or(of_installed) {
        Functions::Prebuilt(dir)
    } else {
        // A wrong parameter should not be found out after minutes of compiling.
        let template = load_template(&source, &args.settings)?;
        signature_window(&template, window)?;
        let workspace = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let release = !cfg!(debug_assertions);
        let workspace = workspace.unwrap_or(Path::new("."));
        Functions::Built(build_functions(&template, workspace, release).await?)
    };
    let mut options = StackOptions::new(source, functions);
    options.overrides.clone_from(&args.settings);
    options.signature_window = window;
    Ok(options)
}

const TEMPLATE: &str = "template.yaml";

/// The folder of what was installed with this command: the template and the functions, so that nothing is compiled. `None` for a
/// command that cargo has built.
pub(crate) fn installed() -> Option<PathBuf> {
    // A package manager may have made a link to it.
    let command = std::env::current_exe().ok()?.canonicalize().ok()?;
    let folder = command.parent()?.parent()?.join("share").join("dynashard");
    folder.join(TEMPLATE).is_file().then_some(folder)
}

/// The nearest template.yaml of a cargo workspace, upwards from the current directory; then the one
/// of the checkout that this command was built in.
fn find_template() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    here.ancestors().chain(built_in).find_map(|dir| {
        let template = dir.join(TEMPLATE);
        (template.is_file() && dir.join("Cargo.toml").is_file()).then_some(template)
    })
}
