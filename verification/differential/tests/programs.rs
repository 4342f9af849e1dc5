//! Programs of the plain engine beside itself, of sides with a fault, and of the endpoint.

use dynashard_differential::{
    Endpoint, Engine, Failure, Mutation, Program, Setting, Sides, Sketch, Tally, minimise, program,
    run,
};

/// A fault is found within so many programs.
const ENOUGH: u64 = 1_000;

/// Runs programs until one fails, and makes that one small.
async fn first_failure(
    sides: Sides<'_>,
    programs: u64,
    tally: &mut Tally,
) -> Option<(Program, Failure)> {
    for seed in 0..programs {
        let whole = program(seed, sides.setting);
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
    let (plain, other) = (engine().await, engine().await);
    let sides = Sides { plain: &plain, other: &other, setting: Setting::Cold };
    let failure = first_failure(sides, 150, &mut tally).await;
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
    let setting = Setting::Cold;
    assert_eq!(program(7, setting), program(7, setting));
    assert_ne!(program(7, setting).steps, program(8, setting).steps);
}

#[tokio::test]
async fn every_fault_is_found_and_its_program_made_small() {
    for mutation in Mutation::ALL {
        // Anew, since it knows the tokens of earlier runs.
        let plain = engine().await;
        let side = Sketch::new(engine().await, mutation);
        let sides = Sides { plain: &plain, other: &side, setting: Setting::Cold };
        let found = first_failure(sides, ENOUGH, &mut Tally::default()).await;
        let (small, failure) = found.unwrap_or_else(|| panic!("{mutation:?} was not found"));
        println!("{mutation:?}, seed {}:\n{}{failure}\n", small.seed, small.to_curl());
        // An empty page that is not the last may take as many items as its limit.
        assert!(small.steps.len() <= 8, "{mutation:?}: {}", small.to_curl());
    }
}

/// Runs programs in this setting, and expects all rows that answers show there first.
async fn expect_only_rows(setting: Setting, programs: u64) {
    let plain = engine().await;
    let endpoint = Endpoint::start(setting).await.expect("the endpoint starts");
    let sides = Sides { plain: &plain, other: &endpoint, setting };
    let mut tally = Tally::default();
    if let Some((small, failure)) = first_failure(sides, programs, &mut tally).await {
        panic!("{}{failure}", small.to_curl());
    }
    assert!(tally.unmet(setting).is_empty(), "no program met {:?}", tally.unmet(setting));
    let reshards = endpoint.reshards();
    assert!(setting != Setting::Moving || reshards >= programs, "{reshards} reshards");
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_but_for_the_rows_of_the_table_each_of_which_is_met()
{
    expect_only_rows(Setting::Cold, 400).await;
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_of_keys_of_several_shards() {
    expect_only_rows(Setting::Sharded, 100).await;
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_before_keys_are_moved() {
    expect_only_rows(Setting::Forward, 100).await;
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_while_keys_are_moved() {
    expect_only_rows(Setting::Move, 100).await;
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_of_keys_of_several_epochs() {
    expect_only_rows(Setting::Epochs, 100).await;
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_while_what_lies_behind_a_sort_key_is_moved() {
    expect_only_rows(Setting::Behind, 100).await;
}

#[tokio::test]
async fn the_endpoint_answers_as_dynamodb_does_while_keys_are_resharded_between_any_two_operations()
{
    expect_only_rows(Setting::Moving, 50).await;
}
