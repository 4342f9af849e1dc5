use super::*;

use dynashard_aws::IndexState;

const MAIN: Table<'static> = Table { role: Role::Main, name: "items" };
const METADATA: Table<'static> = Table { role: Role::Metadata, name: "collections" };

fn window(bound: Bound) -> Window {
    Window {
        bound,
        named_secs: None,
        largest_accepted_secs: None,
        smallest_refused_secs: None,
        connections_agree: true,
    }
}

fn within(window_secs: u64) -> Window {
    window(Bound::Within { window_secs })
}

fn on_aws(secs: u64, is_verified: bool) -> Lifetime {
    Lifetime { secs, is_verified: Some(is_verified), is_on_this_machine: false }
}

fn here(secs: u64) -> Lifetime {
    Lifetime { secs, is_verified: None, is_on_this_machine: true }
}

#[test]
fn a_clock_may_be_off_by_seconds_and_not_by_a_minute() {
    for (ahead_secs, status) in [
        (Some(0), Status::Ok),
        (Some(5), Status::Ok),
        (Some(-5), Status::Ok),
        (Some(6), Status::Warning),
        (Some(-59), Status::Warning),
        (Some(60), Status::Problem),
        (Some(i64::MIN), Status::Problem),
        (None, Status::Unknown),
    ] {
        assert_eq!(clock(ahead_secs).status, status, "{ahead_secs:?}");
    }
    assert!(clock(Some(-7)).seen.contains("7 s behind"));
    assert!(clock(Some(7)).seen.contains("7 s ahead"));
}

#[test]
fn a_request_lifetime_is_the_window_and_a_minute() {
    let judged = |window: &Window, lifetime| {
        let check = request_lifetime(window, lifetime);
        (check.status, check.advice.unwrap_or_default())
    };
    assert_eq!(judged(&within(900), on_aws(960, false)), (Status::Ok, String::new()));
    assert_eq!(judged(&within(300), on_aws(360, true)), (Status::Ok, String::new()));
    let (status, advice) = judged(&within(300), on_aws(960, false));
    assert_eq!(status, Status::Ok);
    assert!(advice.contains("lowered by 600 s"), "{advice}");
    assert!(
        advice.ends_with("RequestLifetimeSecs=360 and RequestLifetimeVerified=yes"),
        "{advice}"
    );
    // A minute is for the clocks of those who sign and check.
    for too_short in [1, 300, 359] {
        let (status, advice) = judged(&within(300), on_aws(too_short, true));
        assert_eq!(status, Status::Problem, "{too_short}");
        assert!(advice.contains("RequestLifetimeSecs=360"), "{advice}");
    }
    let (status, advice) = judged(&within(1_000), on_aws(960, false));
    assert_eq!((status, advice.as_str()), (Status::Problem, "set RequestLifetimeSecs=1060"));
    let (status, advice) = judged(&within(300), on_aws(400, false));
    assert_eq!((status, advice.as_str()), (Status::Problem, "set RequestLifetimeVerified=yes"));
}

#[test]
fn one_clock_needs_no_minute() {
    assert_eq!(request_lifetime(&within(5), here(5)).status, Status::Ok);
    assert_eq!(request_lifetime(&within(960), here(960)).status, Status::Ok);
    assert_eq!(request_lifetime(&within(5), here(4)).status, Status::Problem);
}

#[test]
fn without_a_window_nothing_shorter_is_recommended() {
    let any_age = window(Bound::NoneRefused { tried_secs: 1_860 });
    assert_eq!(request_lifetime(&any_age, here(960)).status, Status::Warning);
    for lifetime in [here(5), on_aws(959, true), on_aws(960, false)] {
        assert_eq!(request_lifetime(&any_age, lifetime).status, Status::Problem, "{lifetime:?}");
    }
    let seen = signature_window(&any_age, 8);
    assert_eq!(seen.status, Status::Warning);
    assert!(seen.seen.contains("any age that was tried, up to 31 min on 8 connections"));
    assert!(
        seen.advice.is_some_and(|advice| advice.contains("RequestLifetimeSecs at 960 or more"))
    );
    let nothing = window(Bound::NoneAccepted);
    assert_eq!(signature_window(&nothing, 1).status, Status::Unknown);
    assert_eq!(request_lifetime(&nothing, on_aws(960, false)).status, Status::Unknown);
}

#[test]
fn connections_that_disagree_are_a_warning() {
    let mixed = Window { connections_agree: false, named_secs: Some(900), ..within(900) };
    let check = signature_window(&mixed, 8);
    assert_eq!(check.status, Status::Warning);
    assert!(check.seen.contains("15 min") && check.seen.contains("the longest counts"));
}

/// What is recommended below 960 takes `RequestLifetimeVerified=yes`, and nothing that the rule lets
/// stand without it may be shorter.
#[test]
fn the_rule_of_the_template_lets_stand_what_needs_no_measurement() {
    let template = include_str!("../../../../../template.yaml");
    let rules = template.split("\nRules:\n").nth(1).expect("rules");
    let list = rules.split('[').find(|part| part.starts_with("\"960\"")).expect("a list");
    let list = list.split(']').next().expect("its end").split(", ");
    let allowed = list.map(|value| value.trim_matches('"').parse::<u64>().expect("a number"));
    let minutes = (unverified_secs()..=1_800).step_by(60).collect::<Vec<_>>();
    assert_eq!(allowed.collect::<Vec<_>>(), minutes);
}

#[test]
fn tables_are_as_the_template_makes_them() {
    let active = TableState {
        is_active: true,
        status: "ACTIVE".to_owned(),
        is_protected: true,
        streams_both_images: true,
        indexes: vec![IndexState {
            name: "active".to_owned(),
            key: vec!["_ds_active".to_owned(), "pk".to_owned()],
            holds_all: true,
            is_active: true,
        }],
    };
    let status = |of: Table<'_>, state: TableState| table(of, &Ok(state), "pk").status;
    assert_eq!(status(MAIN, TableState { indexes: Vec::new(), ..active.clone() }), Status::Ok);
    assert_eq!(status(METADATA, active.clone()), Status::Ok);
    assert_eq!(protection(MAIN, &Ok(active.clone())).map(|check| check.status), Some(Status::Ok));
    let open = TableState { is_protected: false, ..active.clone() };
    assert_eq!(protection(MAIN, &Ok(open)).map(|check| check.status), Some(Status::Warning));

    let index = |change: fn(&mut IndexState)| {
        let mut state = active.clone();
        change(&mut state.indexes[0]);
        state
    };
    for wrong in [
        TableState { is_active: false, ..active.clone() },
        TableState { streams_both_images: false, ..active.clone() },
        TableState { indexes: Vec::new(), ..active.clone() },
        index(|index| index.key.truncate(1)),
        index(|index| index.key[1] = "sk".to_owned()),
        index(|index| index.holds_all = false),
        index(|index| index.is_active = false),
    ] {
        assert_eq!(status(METADATA, wrong.clone()), Status::Problem, "{wrong:?}");
    }
}

#[test]
fn what_could_not_be_seen_names_the_permission() {
    for check in [
        table(MAIN, &Err(Unseen::NotPermitted), "pk"),
        recovery(METADATA, &Err(Unseen::NotPermitted)),
        time_to_live("items", &Err(Unseen::NotPermitted), None),
        contributor_insights("items", &Err(Unseen::NotPermitted)),
        read_permission(METADATA, TrialRead::Scan, &Err(Unseen::NotPermitted)),
    ] {
        assert_eq!(check.status, Status::Unknown);
        let advice = check.advice.expect("a remedy");
        assert!(advice.starts_with("allow dynamodb:"), "{advice}");
    }
    assert_eq!(recovery(MAIN, &Err(Unseen::NotSupported)).status, Status::Unknown);
    assert_eq!(table(MAIN, &Err(Unseen::NotFound), "pk").status, Status::Problem);
    assert_eq!(protection(MAIN, &Err(Unseen::NotFound)), None, "the table has a line of its own");
}

#[test]
fn items_expire_as_the_functions_know_it() {
    let status = |found: Option<&str>, parameter: Option<&str>| {
        time_to_live("items", &Ok(found.map(str::to_owned)), parameter).status
    };
    assert_eq!(status(None, None), Status::Ok);
    assert_eq!(status(None, Some("")), Status::Ok);
    assert_eq!(status(Some("at"), Some("at")), Status::Ok);
    assert_eq!(status(Some("at"), None), Status::Unknown);
    assert_eq!(status(None, Some("at")), Status::Warning);
    assert_eq!(status(Some("at"), Some("")), Status::Problem);
    assert_eq!(status(Some("at"), Some("until")), Status::Problem);
}

#[test]
fn what_lambda_keeps_is_a_parameter_and_the_limit_of_the_account_is_not() {
    assert_eq!(concurrency(Some("1"), Some("2")).status, Status::Ok);
    // A stack that was deployed before there were such parameters has none.
    let unreserved =
        [(Some("0"), Some("0")), (Some("0"), Some("2")), (Some(""), Some("")), (None, None)];
    for (scale, rebalance) in unreserved {
        let check = concurrency(scale, rebalance);
        assert_eq!(check.status, Status::Unknown);
        let advice = check.advice.expect("a command");
        assert!(advice.contains("aws lambda get-account-settings"), "{advice}");
    }
}

#[test]
fn insights_recovery_and_keys_are_as_they_were_seen() {
    assert_eq!(contributor_insights("items", &Ok(true)).status, Status::Ok);
    assert_eq!(contributor_insights("items", &Ok(false)).status, Status::Warning);
    assert_eq!(recovery(MAIN, &Ok(true)).status, Status::Ok);
    assert_eq!(recovery(MAIN, &Ok(false)).status, Status::Warning);
    assert_eq!(keys(Ok(true)).status, Status::Ok);
    assert_eq!(keys(Ok(false)).status, Status::Problem);
    assert_eq!(keys(Err("no sort key".to_owned())).status, Status::Problem);
    assert_eq!(read_permission(MAIN, TrialRead::Query, &Ok(())).status, Status::Ok);
}
