//! How the function ends where it cannot start.

use std::process::Command;

#[test]
fn the_alarms_are_missed_with_everything_else() {
    let function =
        Command::new(env!("CARGO_BIN_EXE_dynashard-scale")).env_clear().output().expect("it runs");
    assert_eq!(function.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&function.stderr);
    for name in ["ALARM_NAME", "READ_ALARM_NAME", "MAIN_TABLE", "LOG_KEYS"] {
        let said = format!("the environment variable {name} is missing");
        assert!(stderr.lines().any(|line| line == said), "{said}: {stderr}");
    }
}
