//! What caches in front of the API are told, and what is kept behind it.

use std::time::Duration;

use super::handler;
use dynashard_eventkit::{Answer, Call, FLIGHT, OLD_ETAG, World};

const TERM: Duration = Duration::from_secs(30);

fn get() -> Call {
    Call::new(&format!("GET /item?{FLIGHT}"))
}

/// What an answer says to caches: `Cache-Control`, `Age` and `Vary`.
fn to_caches(answer: &Answer) -> [Option<&str>; 3] {
    ["cache-control", "age", "vary"].map(|name| answer.header(name))
}

#[test]
fn caches_may_keep_an_answer_for_as_long_as_the_function_would() {
    let world = World::of_kept_flights(TERM);
    let handler = handler(&world);
    let of = |call: Call| Answer::of(&handler, &call);
    let first = of(get());
    assert_eq!(
        to_caches(&first),
        [Some("max-age=30"), Some("0"), Some("accept, authorization, origin")]
    );
    assert_eq!(first.header("dynashard-items-read"), Some("1"));
    world.clock.advance(Duration::from_secs(20));
    for (call, status) in [
        (get(), 200),
        (Call::new(&format!("HEAD /item?{FLIGHT}")), 200),
        (get().header("if-none-match", OLD_ETAG), 304),
    ] {
        let kept = of(call);
        assert_eq!((kept.status, kept.header("etag")), (status, Some(OLD_ETAG)));
        assert_eq!(
            to_caches(&kept),
            [Some("max-age=30"), Some("20"), Some("accept, authorization, origin")]
        );
        for cost in ["dynashard-items-read", "dynashard-consumed-rcu"] {
            assert_eq!(kept.header(cost), Some("0"), "{cost}");
        }
    }
    assert_eq!(world.memory.requests().gets, 1);
    world.clock.advance(TERM);
    assert_eq!(of(get()).header("age"), Some("0"), "it was read again");
}

#[test]
fn what_is_to_be_current_no_cache_may_keep() {
    let world = World::of_kept_flights(TERM);
    let handler = handler(&world);
    for _ in 0..2 {
        let answer =
            Answer::of(&handler, &Call::new(&format!("GET /item?{FLIGHT}&consistent=true")));
        assert_eq!(to_caches(&answer), [Some("no-store"), None, None]);
    }
    assert_eq!(world.memory.requests().gets, 2);
}

/// Caches may keep a 404 that says nothing of that, and gave it to strong reads of an item that was put since.
#[test]
fn regression_caches_in_front_were_free_to_keep_that_an_item_is_absent() {
    let handler = handler(&World::of_kept_flights(TERM));
    for strong in ["", "&consistent=true"] {
        let answer = Answer::of(&handler, &Call::new(&format!("GET /item?pk=EWR&sk=none{strong}")));
        assert_eq!((answer.status, to_caches(&answer)), (404, [Some("no-store"), None, None]));
    }
    // Errors that were found before the read said nothing of it, either.
    let answer = Answer::of(&handler, &Call::new("GET /item?pk=EWR&pk=EWR"));
    assert_eq!((answer.status, to_caches(&answer)), (400, [Some("no-store"), None, None]));
}

/// A cache in front kept a count, a page and the state of a collection for as long as it liked.
#[test]
fn regression_caches_in_front_were_free_to_keep_what_is_no_item() {
    let handler = handler(&World::of_kept_flights(TERM));
    for (call, status) in [
        ("GET /query?pk=EWR", 200),
        ("GET /query?pk=EWR&consistent=true", 200),
        ("GET /collection?pk=EWR", 200),
        ("GET /counter?pk=EWR&sk=none", 404),
        ("GET /query?pk=EWR&limit=x", 400),
    ] {
        let answer = Answer::of(&handler, &Call::new(call));
        let said = to_caches(&answer);
        assert_eq!((answer.status, said), (status, [Some("no-store"), None, None]), "{call}");
    }
}

#[test]
fn nothing_is_said_to_caches_where_nothing_is_kept() {
    let world = World::of_flights();
    for call in [get(), Call::new(&format!("GET /item?{FLIGHT}&consistent=true"))] {
        assert_eq!(to_caches(&Answer::of(&handler(&world), &call)), [None, None, None]);
    }
}

#[test]
fn an_answer_for_which_a_key_was_granted_is_the_callers_alone() {
    let mut world = World::of_kept_flights(TERM);
    world.admission.grants = "*={tenant}".parse().expect("a rule");
    let handler = handler(&world);
    let granted = Answer::of(&handler, &get().with_claim("tenant", "EWR"));
    assert_eq!(granted.header("cache-control"), Some("private, max-age=30"));
    // Though it is kept.
    let other = Answer::of(&handler, &get().with_claim("tenant", "JFK"));
    other.assert_problem(403, "key_not_granted", "another tenant");
}
