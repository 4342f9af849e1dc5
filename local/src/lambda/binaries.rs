//! The executables of the functions: built with cargo, or found where they were built before.

use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::StartError;
use crate::plan::{Function, Plan};

/// Where the executables of the functions are.
#[derive(Clone, Debug)]
pub enum Functions {
    /// In a directory, as `<binary>`, `<binary>/bootstrap` (what `cargo lambda build` makes) or
    /// `<logical id>/bootstrap` (what `sam build` makes).
    Prebuilt(PathBuf),
    /// Wherever [`build_functions`] has put them, by the names of the binaries.
    Built(BTreeMap<String, PathBuf>),
}

/// Builds the binaries of all functions with one call of cargo, and returns where they are by their
/// names.
///
/// `workspace` is the directory with the workspace's `Cargo.toml`. Cargo prints its progress to
/// stderr, and ends when the future is dropped.
///
/// # Errors
/// [`StartError::Build`] where cargo cannot be run, fails, or does not build one of the binaries.
pub async fn build_functions(
    plan: &Plan,
    workspace: &Path,
    release: bool,
) -> Result<BTreeMap<String, PathBuf>, StartError> {
    let failed = |problem: String| StartError::Build(problem);
    let mut command = build_command(plan, workspace, release);
    let mut child = command.spawn().map_err(|error| {
        failed(format!("{}: {error}", command.as_std().get_program().display()))
    })?;
    let mut built = BTreeMap::<String, PathBuf>::new();
    if let Some(messages) = child.stdout.take() {
        let mut messages = BufReader::new(messages).lines();
        while let Ok(Some(message)) = messages.next_line().await {
            built.extend(executable(&message));
        }
    }
    let status = child.wait().await.map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(format!("cargo build ended with {status}; what it printed is above")));
    }
    let wanted = plan.binaries();
    if let Some(missing) = wanted.iter().find(|binary| !built.contains_key(**binary)) {
        return Err(failed(format!("the workspace has no binary {missing}")));
    }
    built.retain(|binary, _| wanted.contains(binary.as_str()));
    Ok(built)
}

fn build_command(plan: &Plan, workspace: &Path, release: bool) -> Command {
    // `cargo run` and `cargo test` say which cargo they are.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .arg("build")
        .arg("--message-format=json-render-diagnostics")
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    // They also describe the package that they run. A build script that asks for the description of
    // its own package would be run again for that, and every crate that depends on it compiled again.
    for (name, _) in std::env::vars_os() {
        let name_bytes = name.as_encoded_bytes();
        if DESCRIBES_A_PACKAGE.iter().any(|prefix| name_bytes.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    if release {
        command.arg("--release");
    }
    for binary in plan.binaries() {
        command.args(["--bin", binary]);
    }
    command
}

/// How the environment variables begin by which cargo describes a package to what it runs.
const DESCRIBES_A_PACKAGE: [&[u8]; 2] = [b"CARGO_MANIFEST_", b"CARGO_PKG_"];

impl Functions {
    /// The executable of each function, by logical id.
    pub(crate) fn locate(
        &self,
        functions: &[Function],
    ) -> Result<BTreeMap<String, PathBuf>, StartError> {
        functions.iter().map(|function| Ok((function.name.clone(), self.find(function)?))).collect()
    }

    fn find(&self, function: &Function) -> Result<PathBuf, StartError> {
        let missing = |problem: String| StartError::MissingBootstrap {
            function: function.name.clone(),
            binary: function.binary.clone(),
            problem,
        };
        match self {
            Self::Built(built) => match built.get(&function.binary) {
                Some(path) if is_executable(path) => Ok(path.clone()),
                Some(path) => {
                    Err(missing(format!("{} cannot be executed; build it again", path.display())))
                }
                None => Err(missing("it was not built".to_owned())),
            },
            Self::Prebuilt(directory) => {
                let (binary, name) = (&function.binary, &function.name);
                let places = [
                    directory.join(format!("{binary}{EXE_SUFFIX}")),
                    directory.join(binary).join("bootstrap"),
                    directory.join(name).join("bootstrap"),
                ];
                let found = places.into_iter().find(|path| is_executable(path));
                found.ok_or_else(|| {
                    missing(format!(
                        "{directory} holds no executable {binary}, {binary}/bootstrap or \
                         {name}/bootstrap; build it, or choose the directory that holds it",
                        directory = directory.display()
                    ))
                })
            }
        }
    }
}

/// The name and the place of the executable that a message of cargo tells of.
fn executable(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some((message["target"]["name"].as_str()?.to_owned(), message["executable"].as_str()?.into()))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Windows tells it by the name.
#[cfg(windows)]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::net::Ipv4Addr;
    use std::os::unix::fs::PermissionsExt;

    use tokio::net::TcpListener;

    use super::*;
    use crate::template::{TemplateSource, load_template};

    fn template() -> Plan {
        let text = r"
            Transform: AWS::Serverless-2016-10-31
            Resources:
              Greeter:
                Type: AWS::Serverless::Function
                Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: greet } }
                Properties: { Runtime: provided.al2023, Handler: bootstrap, CodeUri: . }
        ";
        let source =
            TemplateSource::Text { name: "template.yaml".to_owned(), text: text.to_owned() };
        load_template(&source, &[]).expect("a template")
    }

    #[test]
    fn prebuilt_bootstraps_are_found_in_the_layouts_of_cargo_cargo_lambda_and_sam() {
        for place in ["greet", "greet/bootstrap", "Greeter/bootstrap"] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let path = directory.path().join(place);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            let functions = Functions::Prebuilt(directory.path().to_owned());
            let file = File::create(&path).expect("a file");
            let error = functions.locate(&template().functions).expect_err("not executable");
            assert!(error.to_string().contains("Greeter/bootstrap"), "{error}");

            file.set_permissions(Permissions::from_mode(0o755)).expect("permissions");
            let found = functions.locate(&template().functions).expect("an executable");
            assert_eq!(found["Greeter"], path);
        }
    }

    #[tokio::test]
    async fn the_binaries_of_a_template_are_built_in_their_workspace() {
        let workspace = tempfile::tempdir().expect("a temporary directory");
        let manifest = "[package]\nname = \"NAME\"\nedition = \"2024\"\n[workspace]\n";
        let manifest_path = workspace.path().join("Cargo.toml");
        fs::write(&manifest_path, manifest.replace("NAME", "greet")).expect("a manifest");
        fs::create_dir(workspace.path().join("src")).expect("a directory");
        fs::write(workspace.path().join("src/main.rs"), "fn main() {}\n").expect("a program");
        let built = build_functions(&template(), workspace.path(), false).await;
        let built = built.expect("a binary");
        let found = Functions::Built(built).locate(&template().functions).expect("an executable");
        assert!(found["Greeter"].ends_with("debug/greet"), "{found:?}");

        fs::write(&manifest_path, manifest.replace("NAME", "part")).expect("a manifest");
        let error = build_functions(&template(), workspace.path(), false).await;
        let error = error.expect_err("no binary");
        assert!(error.to_string().starts_with("building the functions failed: "), "{error}");
    }

    /// A signal during the build was not heeded until cargo had ended by itself.
    #[tokio::test]
    async fn regression_a_build_went_on_when_nobody_waited_for_it() {
        let workspace = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: &str| {
            fs::write(workspace.path().join(name), text).expect("a file");
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("a port").port();
        fs::create_dir(workspace.path().join("src")).expect("a directory");
        write("Cargo.toml", "[package]\nname = \"greet\"\nedition = \"2024\"\n[workspace]\n");
        write("src/main.rs", "fn main() {}\n");
        // Tells that it runs, and ends when the test does.
        let script = format!(
            "fn main() {{
                let mut test = std::net::TcpStream::connect((\"127.0.0.1\", {port})).unwrap();
                let _ = std::io::Read::read(&mut test, &mut [0]);
            }}"
        );
        write("build.rs", &script);
        let template = template();
        let _script = tokio::select! {
            built = build_functions(&template, workspace.path(), false) => panic!("{built:?}"),
            script = listener.accept() => script.expect("a build script"),
        };
        // Cargo locks its directory for as long as it runs.
        fs::remove_file(workspace.path().join("build.rs")).expect("the script");
        let built = build_functions(&template, workspace.path(), false).await;
        assert!(built.expect("a binary").contains_key("greet"));
    }

    /// `ring` was compiled again, with the TLS library and the clients that depend on it.
    #[test]
    fn regression_a_build_under_cargo_run_compiled_crates_that_were_there_already() {
        let command = build_command(&template(), Path::new("."), true);
        let removed = command.as_std().get_envs().filter(|(_, value)| value.is_none());
        let removed = removed.map(|(name, _)| name).collect::<Vec<_>>();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(std::env::var_os(name).is_some(), "cargo tells a test its {name}");
            assert!(removed.contains(&name.as_ref()), "{name}");
        }
    }

    #[test]
    fn executables_are_told_from_the_other_messages_of_cargo() {
        let bin = r#"{"reason":"compiler-artifact","target":{"name":"greet","kind":["bin"]},"executable":"/t/greet"}"#;
        assert_eq!(executable(bin), Some(("greet".to_owned(), "/t/greet".into())));
        for other in [
            r#"{"reason":"compiler-artifact","target":{"name":"lib","kind":["lib"]},"executable":null}"#,
            r#"{"reason":"build-finished","success":true}"#,
            "not JSON",
        ] {
            assert_eq!(executable(other), None);
        }
    }
}
