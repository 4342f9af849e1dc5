//! How the function ends where it cannot start.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

#[test]
fn regression_a_missing_variable_was_dumped_as_a_struct() {
    let function =
        Command::new(env!("CARGO_BIN_EXE_dynashard-read")).env_clear().output().expect("it runs");
    assert!(!function.status.success());
    let stderr = String::from_utf8_lossy(&function.stderr);
    assert!(
        stderr.starts_with("the environment variable PARTITION_KEY_NAME is missing\n"),
        "{stderr}"
    );
}

#[test]
fn everything_that_is_wrong_is_said_before_the_first_event_is_asked_for() {
    let runtime_api = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = runtime_api.local_addr().expect("an address").to_string();
    let function = Command::new(env!("CARGO_BIN_EXE_dynashard-read"))
        .env_clear()
        .envs([
            ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
            ("MAIN_TABLE", "MainTable"),
            ("METADATA_TABLE", "MetadataTable"),
            ("PARTITION_KEY_NAME", "pk"),
            ("SORT_KEY_NAME", "sk"),
            ("SEPARATOR", "##"),
            ("LEASE_SECS", "five"),
            ("LOG_KEYS", "digest"),
        ])
        .output()
        .expect("it runs");
    assert_eq!(function.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&function.stderr);
    for said in [
        "SORT_KEY_TYPE is missing",
        "SEPARATOR is wrong: ",
        "LEASE_SECS is wrong: ",
        "LOG_KEY_SECRET is missing",
        "AWS_LAMBDA_FUNCTION_NAME is missing",
    ] {
        assert!(stderr.lines().any(|line| line.contains(said)), "{said}: {stderr}");
    }
    assert!(!stderr.contains("MAIN_TABLE"), "it is right: {stderr}");
    assert!(function.stdout.is_empty());
    runtime_api.set_nonblocking(true).expect("a socket");
    let asked = runtime_api.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(asked, Err(ErrorKind::WouldBlock), "it asked the Runtime API");
}
