//! What the embedded engine makes of expressions and legacy parameters, before and after this crate has had them.

mod conditions;
mod legacy;
mod meaning;
mod store;
mod updates;
mod values;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

/// Runs a property on this many inputs. One store serves them all, since it takes longer to make than a case.
fn check<S: Strategy>(cases: u32, inputs: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config { failure_persistence: None, ..Config::with_cases(cases) };
    if let Err(error) = TestRunner::new(config).run(inputs, property) {
        panic!("{error}");
    }
}
