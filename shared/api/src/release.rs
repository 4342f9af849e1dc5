//! What a build says of itself.

/// The version of the package, as `Cargo.toml` has it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built, if the build had it in the environment variable `DYNASHARD_COMMIT`.
pub const COMMIT: Option<&str> = option_env!("DYNASHARD_COMMIT");
