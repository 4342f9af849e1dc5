//! How the function ends where it cannot start.

use std::process::Command;

#[test]
fn regression_a_missing_variable_was_dumped_as_a_struct() {
    let function =
        Command::new(env!("CARGO_BIN_EXE_dynashard-read")).env_clear().output().expect("it runs");
    assert!(!function.status.success());
    assert_eq!(
        String::from_utf8_lossy(&function.stderr),
        "the environment variable PARTITION_KEY_NAME is missing\n"
    );
}
