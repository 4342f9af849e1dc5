//! Programs of the plain engine beside itself, of sides with a fault, and of the endpoint.

use dynashard_differential::{
    Endpoint, Engine, Failure, Mutation, Program, Setting, Side, Sides, Sketch, Tally, minimise,
    program, run,
};

/// A fault is found within so many programs.
const ENOUGH: u64 = 1_000;

/// Runs programs until one fails, and makes that one small.
async fn first_failure(
    plain: &dyn Side,
    other: &dyn Side,
    programs: u64,
    tally: &mut Tally,
) -> Option<(Program, Failure)> {
    let sides = Sides { plain, other, setting: Setting::Cold };
    for seed in 0..programs {
        let whole = program(seed);
        let failures = run(&whole, seed, sides, tally).await.expect("the engine runs");
        if let Some(failure) = failures.into_iter().next() {
            let small = minimise(&whole, failure, programs, sides).await;
            return Some(small.expect("the engine runs"));
        }
    }
    None
}

async fn engine() -> Engine {
    Engine::start().await.expect("the engine starts")
}

#[tokio::test]
async fn the_plain_engine_answers_as_itself_and_most_of_what_it_is_asked_is_no_refusal() {
    let mut tally = Tally::default();
    let failure = first_failure(&engine().await, &engine().await, 150, &mut tally).await;
    assert!(failure.is_none(), "{failure:?}");
    assert!(tally.rows.is_empty(), "{tally}");
    let (met, succeeded) = tally
        .operations
        .values()
        .fold((0, 0), |(met, succeeded), count| (met + count.met, succeeded + count.succeeded));
    assert!(succeeded * 10 > met * 6, "{succeeded} of {met} succeeded");
    assert!(tally.operations.len() >= 10, "{tally}");
}

#[test]
fn a_seed_always_makes_the_same_program() {
    assert_eq!(program(7), program(7));
    assert_ne!(program(7).steps, program(8).steps);
}

#[tokio::test]
async fn every_fault_is_found_and_its_program_made_small() {
    for mutation in Mutation::ALL {
        // Anew, since it knows the tokens of earlier runs.
        let plain = engine().await;
        let side = Sketch::new(engine().await, mutation);
        let found = first_failure(&plain, &side, ENOUGH, &mut Tally::default()).await;
        let (small, failure) = found.unwrap_or_else(|| panic!("{mutation:?} was not found"));
        println!("{mutation:?}, seed {}:\n{}{failure}\n", small.seed, small.to_curl());
        // An empty page that is not the last may take as many items as its limit.
        assert!(small.steps.len() <= 8, "{mutation:?}: {}", small.to_curl());
    }
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_but_for_the_rows_of_the_table_each_of_which_is_met()
{
    let endpoint = Endpoint::start().await.expect("the endpoint starts");
    let mut tally = Tally::default();
    let failure = first_failure(&engine().await, &endpoint, 400, &mut tally).await;
    if let Some((small, failure)) = failure {
        panic!("{}{failure}", small.to_curl());
    }
    assert!(tally.unmet().is_empty(), "no program met {:?}", tally.unmet());
}
