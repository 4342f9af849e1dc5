use super::*;

use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_api::settings::check_dates;
use dynashard_core::RequestDates;

const MAIN: Table<'static> = Table { role: Role::Main, name: "items" };
const METADATA: Table<'static> = Table { role: Role::Metadata, name: "collections" };

fn window(bound: Bound) -> Window {
    Window {
        shortest_secs: match bound {
            Bound::Within { window_secs } => Some(window_secs),
            _ => None,
        },
        bound,
        named_secs: None,
        largest_accepted_secs: None,
        smallest_refused_secs: None,
        connections: 8,
        judged_connections: 8,
        connections_agree: true,
    }
}

fn within(window_secs: u64) -> Window {
    window(Bound::Within { window_secs })
}

fn on_aws(secs: u64, is_verified: bool) -> Lifetime {
    let is_refused = !is_verified && secs < 960;
    Lifetime { secs: Some(secs), age_secs: 0, is_refused, is_on_this_machine: false }
}

fn here(secs: u64) -> Lifetime {
    Lifetime { secs: Some(secs), age_secs: 0, is_refused: false, is_on_this_machine: true }
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

fn judged(window: &Window, lifetime: Lifetime) -> (Status, String) {
    let check = request_lifetime(window, lifetime);
    (check.status, check.advice.unwrap_or_default())
}

#[test]
fn a_request_lifetime_is_the_window_and_a_minute() {
    assert_eq!(judged(&within(900), on_aws(960, false)).0, Status::Ok);
    assert_eq!(judged(&within(300), on_aws(360, true)).0, Status::Ok);
    let (status, advice) = judged(&within(300), on_aws(960, false));
    assert_eq!(status, Status::Ok);
    for part in [
        "if runs on several days say the same",
        "run `dynashard settings --set SignatureAgeSecs=270 --set RequestLifetimeSecs=120 --verified`",
        "840 s sooner",
    ] {
        assert!(advice.contains(part), "{advice}");
    }
    // A minute is for the clocks of those who sign and check. One run does not show that less than
    // sixteen will do.
    for too_short in [1, 300, 359] {
        let (status, advice) = judged(&within(300), on_aws(too_short, true));
        assert_eq!(status, Status::Problem, "{too_short}");
        assert_eq!(advice, "run `dynashard settings --set RequestLifetimeSecs=960` at once");
    }
    assert_eq!(judged(&within(450), on_aws(480, true)).0, Status::Problem);
    let too_short = judged(&within(1_000), on_aws(960, false));
    assert_eq!(
        too_short,
        (
            Status::Problem,
            "run `dynashard settings --set RequestLifetimeSecs=1080` at once".to_owned()
        )
    );
    let (status, advice) = judged(&within(300), on_aws(400, false));
    assert_eq!(status, Status::Problem);
    assert!(
        advice.starts_with("deploy RequestLifetimeSecs=960, or RequestLifetimeVerified=yes if")
    );
}

/// The default is a minute more than the window, which is known to seconds.
#[test]
fn regression_the_default_was_a_problem_by_a_second() {
    for window_secs in 898..=903 {
        assert_eq!(judged(&within(window_secs), on_aws(960, false)).0, Status::Ok);
    }
    assert_eq!(judged(&within(904), on_aws(960, false)).0, Status::Problem);
}

#[test]
fn no_value_is_long_enough_for_a_window_of_half_an_hour() {
    let (status, advice) = judged(&within(1_760), on_aws(1_800, false));
    assert_eq!(status, Status::Problem);
    assert!(advice.contains("no RequestLifetimeSecs is long enough"), "{advice}");
    assert_eq!(within(1_760).request_lifetime_secs(), None);
}

#[test]
fn one_clock_needs_no_minute() {
    let check = request_lifetime(&within(5), here(5));
    assert_eq!(check.status, Status::Ok);
    assert!(check.seen.contains("left out, since the endpoint is on this machine"), "{check:?}");
    assert_eq!(request_lifetime(&within(960), here(960)).status, Status::Ok);
    assert_eq!(
        judged(&within(5), here(4)),
        (Status::Problem, "set RequestLifetimeSecs=5".to_owned())
    );
}

/// The flag's default passed for the value of a stack that nobody had named.
#[test]
fn regression_a_lifetime_that_nobody_named_was_judged() {
    let unnamed =
        Lifetime { secs: None, age_secs: 0, is_refused: false, is_on_this_machine: false };
    for (window, follows) in [
        (within(900), "RequestLifetimeSecs 960 follows"),
        (within(1_760), "no RequestLifetimeSecs follows"),
        (window(Bound::NoneAccepted), "no RequestLifetimeSecs follows"),
    ] {
        let check = request_lifetime(&window, unnamed);
        assert_eq!(check.status, Status::Unknown);
        assert!(check.seen.starts_with(&format!("no stack was named; {follows}")), "{check:?}");
        let advice = "give --stack-name or --request-lifetime-secs";
        assert_eq!(check.advice.as_deref(), Some(advice));
    }
}

#[test]
fn without_a_window_nothing_shorter_is_recommended() {
    let any_age = Window {
        largest_accepted_secs: Some(1_860),
        ..window(Bound::NoneRefused { tried_secs: 1_860 })
    };
    assert_eq!(request_lifetime(&any_age, here(960)).status, Status::Warning);
    for lifetime in [here(5), on_aws(959, true), on_aws(960, false), on_aws(1_800, false)] {
        assert_eq!(request_lifetime(&any_age, lifetime).status, Status::Problem, "{lifetime:?}");
    }
    let seen = signature_window(&any_age);
    assert_eq!(seen.status, Status::Warning);
    assert!(seen.seen.contains("up to 31 min, judged on 8 of 8 connections"), "{seen:?}");
    assert!(
        seen.advice.is_some_and(|advice| advice.contains("RequestLifetimeSecs at 960 or more"))
    );
    let nothing = window(Bound::NoneAccepted);
    assert_eq!(signature_window(&nothing).status, Status::Unknown);
    assert_eq!(request_lifetime(&nothing, on_aws(960, false)).status, Status::Unknown);
}

#[test]
fn an_incomplete_measurement_shows_only_what_is_too_short() {
    let why = "the answers stopped at an age of 870 s: lost".to_owned();
    let incomplete = Window {
        largest_accepted_secs: Some(600),
        judged_connections: 7,
        connections_agree: false,
        ..window(Bound::Incomplete { why })
    };
    let seen = signature_window(&incomplete);
    assert_eq!(seen.status, Status::Unknown);
    assert!(seen.seen.ends_with("870 s: lost, judged on 7 of 8 connections"), "{seen:?}");
    let advice = "run the command again, and keep RequestLifetimeSecs at 960 or more until then";
    assert_eq!(seen.advice.as_deref(), Some(advice));
    assert_eq!(judged(&incomplete, on_aws(960, false)), (Status::Unknown, String::new()));
    let (status, advice) = judged(&incomplete, on_aws(660, true));
    assert_eq!(status, Status::Unknown);
    assert!(
        advice.starts_with("run `dynashard settings --set RequestLifetimeSecs=960` unless"),
        "{advice}"
    );
    let too_short = judged(&incomplete, on_aws(360, true));
    assert_eq!(
        too_short,
        (
            Status::Problem,
            "run `dynashard settings --set RequestLifetimeSecs=960` at once".to_owned()
        )
    );
}

#[test]
fn connections_that_disagree_are_a_warning() {
    let mixed = Window { connections_agree: false, named_secs: Some(900), ..within(900) };
    let check = signature_window(&mixed);
    assert_eq!(check.status, Status::Warning);
    assert!(check.seen.contains("15 min") && check.seen.contains("the longest counts"));
}

/// Whether the template's rule lets these parameters stand.
fn rule_takes(secs: u64, verified: &str) -> bool {
    let template = include_str!("../../../../../template.yaml");
    let assertion = template.split("- Assert:\n").nth(1).expect("the only rule");
    let lines = assertion.lines().map(str::trim).take(5).collect::<Vec<_>>();
    let ["Fn::Or:", confirmed, "- Fn::Contains:", list, "- !Ref RequestLifetimeSecs"] = lines[..]
    else {
        panic!("another rule: {lines:?}")
    };
    let list = list.strip_prefix("- ").expect("a list");
    let list = serde_json::from_str::<Vec<String>>(list).expect("texts");
    confirmed == format!("- !Equals [!Ref RequestLifetimeVerified, {verified:?}]")
        || list.contains(&secs.to_string())
}

#[test]
fn the_rule_of_the_template_takes_what_is_verified_and_whole_minutes_from_sixteen_on() {
    for (secs, verified, is_taken) in [
        (360, "no", false),
        (360, "yes", true),
        (900, "no", false),
        (959, "no", false),
        (960, "no", true),
        (963, "no", false),
        (1_000, "no", false),
        (1_000, "yes", true),
        (1_020, "no", true),
        (1_800, "no", true),
        (1_860, "no", false),
    ] {
        assert_eq!(rule_takes(secs, verified), is_taken, "{secs} {verified}");
    }
}

#[test]
fn what_is_advised_is_what_settings_takes_and_what_the_next_run_finds_right() {
    let mut advised = 0;
    for window_secs in 300..=1_860 {
        for (secs, age_secs) in [(1, 0), (360, 0), (960, 0), (1_800, 0), (120, 270), (360, 600)] {
            let (_, advice) =
                judged(&within(window_secs), Lifetime { age_secs, ..on_aws(secs, true) });
            let Some((_, command)) = advice.split_once("`dynashard settings") else { continue };
            let value = |name: &str| {
                let (_, rest) = command.split_once(name)?;
                rest.split([' ', '`']).next()?.parse().ok()
            };
            let age_secs = value("SignatureAgeSecs=").unwrap_or(0);
            let secs = value("RequestLifetimeSecs=").expect("a time");
            let dates = RequestDates {
                age: Duration::from_secs(age_secs),
                lifetime: Duration::from_secs(secs),
            };
            assert_eq!(check_dates(dates, command.contains("--verified")), Ok(()), "{advice}");
            assert!(secs <= 1_800, "{advice}");
            let next = judged(&within(window_secs), Lifetime { age_secs, ..on_aws(secs, true) });
            assert_eq!(next.0, Status::Ok, "{advice}, and then {next:?}");
            advised += 1;
        }
    }
    assert!(advised > 1_000, "{advised}");
}

#[test]
fn dates_are_judged_by_both_ends_of_the_window() {
    let dated = |age_secs, secs| Lifetime { age_secs, ..on_aws(secs, true) };
    assert_eq!(judged(&within(300), dated(270, 120)), (Status::Ok, String::new()));
    let (status, advice) = judged(&within(900), dated(270, 120));
    assert_eq!(status, Status::Problem, "DynamoDB takes them for ten minutes more");
    assert!(advice.contains("SignatureAgeSecs=270 --set RequestLifetimeSecs=720"), "{advice}");
    let (status, advice) = judged(&within(240), dated(270, 120));
    assert_eq!(status, Status::Problem, "DynamoDB refuses every write");
    assert!(advice.contains("SignatureAgeSecs=210"), "{advice}");
    let one_is_shorter = Window { shortest_secs: Some(280), ..within(300) };
    assert!(judged(&one_is_shorter, dated(270, 120)).1.contains("SignatureAgeSecs=250"));
}

#[test]
fn tables_are_as_the_template_makes_them() {
    let active = TableState {
        is_active: true,
        status: "ACTIVE".to_owned(),
        is_protected: true,
        streams_both_images: true,
        indexes: [("active", "_ds_active"), ("decisions", "_ds_decisions")]
            .map(|(name, key)| IndexState {
                name: name.to_owned(),
                key: vec![key.to_owned()],
                holds_all: true,
                is_active: true,
                ..IndexState::default()
            })
            .to_vec(),
        ..TableState::default()
    };
    let status = |of: Table<'_>, state: TableState| table(of, &Ok(state)).status;
    assert_eq!(status(MAIN, TableState { indexes: Vec::new(), ..active.clone() }), Status::Ok);
    assert_eq!(status(METADATA, active.clone()), Status::Ok);
    assert_eq!(protection(MAIN, &active).status, Status::Ok);
    let open = TableState { is_protected: false, ..active.clone() };
    assert_eq!(protection(MAIN, &open).status, Status::Warning);

    let index = |change: fn(&mut IndexState)| {
        let mut state = active.clone();
        change(&mut state.indexes[0]);
        state
    };
    for wrong in [
        TableState { is_active: false, ..active.clone() },
        TableState { streams_both_images: false, ..active.clone() },
        TableState { indexes: Vec::new(), ..active.clone() },
        index(|index| index.key.push("pk".to_owned())),
        index(|index| index.key[0] = "sk".to_owned()),
        index(|index| index.holds_all = false),
        index(|index| index.is_active = false),
    ] {
        assert_eq!(status(METADATA, wrong.clone()), Status::Problem, "{wrong:?}");
    }
}

#[test]
fn what_could_not_be_seen_names_the_permission() {
    for check in [
        table(MAIN, &Err(Unseen::NotPermitted)),
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
    assert_eq!(table(MAIN, &Err(Unseen::NotFound)).status, Status::Problem);
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
    assert_eq!(concurrency(Some("5"), Some("0")).status, Status::Ok);
    assert_eq!(concurrency(Some("5"), Some("22")).status, Status::Ok);
    assert_eq!(concurrency(Some("1"), Some("0")).status, Status::Warning);
    // A stack that was deployed before there were such parameters has none.
    for (scale, rebalance) in
        [(Some("0"), Some("0")), (Some("0"), Some("22")), (Some(""), Some(""))]
    {
        let check = concurrency(scale, rebalance);
        assert_eq!(check.status, Status::Unknown);
        let advice = check.advice.expect("a command");
        assert!(advice.contains("aws lambda get-account-settings"), "{advice}");
    }
    assert_eq!(concurrency(None, None).status, Status::Unknown);
}

#[test]
fn more_environments_than_the_directory_serves_are_a_warning() {
    let of = |lease, write, read| environments(Duration::from_secs(lease), write, read);
    for (lease, most) in [(2, "2250"), (5, "7500"), (10, "15000")] {
        assert!(of(lease, None, None).seen.contains(most), "{lease}: {:?}", of(lease, None, None));
    }
    assert_eq!(of(2, Some("0"), Some("2000")).status, Status::Ok);
    assert_eq!(of(2, Some("1250"), Some("1000")).status, Status::Ok);
    for (lease, write, read, longer) in
        [(2, "1251", "1000", "=3"), (2, "0", "3000", "=3"), (5, "7000", "1000", "=6")]
    {
        let check = of(lease, Some(write), Some(read));
        assert_eq!(check.status, Status::Warning, "{write} and {read}");
        assert!(check.advice.is_some_and(|advice| advice.contains(longer)), "{longer}");
    }
}

/// The first day of a launch was throttled, and nothing had said that shards share what the table takes.
#[test]
fn regression_nobody_said_how_many_shards_a_new_table_carries() {
    let settings = Settings::default();
    let new = TableState { warm: Some((12_000, 4_000)), ..TableState::default() };
    let check = room(&new, &Ok((40_000, 40_000)), PartitionLimits::default(), Some(&settings));
    assert_eq!(check.status, Status::Ok);
    for part in ["4000 write", "as 4 shards", "40000 write units"] {
        assert!(check.seen.contains(part), "{}", check.seen);
    }
    assert!(check.advice.expect("what to deploy").contains("WarmWriteUnits"));
    let check = room(&new, &Err(Unseen::NotPermitted), PartitionLimits::default(), Some(&settings));
    assert_eq!(check.status, Status::Unknown);
    let check = room(&new, &Err(Unseen::NotSupported), PartitionLimits::default(), Some(&settings));
    assert_eq!(check.status, Status::Ok, "a server without quotas has told everything");
    let unsaid = TableState::default();
    let check =
        room(&unsaid, &Err(Unseen::NotSupported), PartitionLimits::default(), Some(&settings));
    assert_eq!(check.status, Status::Unknown);
    let provisioned = TableState { provisioned: Some((5, 40_000)), ..TableState::default() };
    let check =
        room(&provisioned, &Ok((40_000, 40_000)), PartitionLimits::default(), Some(&settings));
    assert_eq!((check.status, check.advice), (Status::Ok, None));
}

/// On a table of 2,000 units a growth moved items with 2,000, and clients were throttled as long as it ran.
#[test]
fn regression_nobody_said_that_movers_may_take_all_that_is_provisioned() {
    let settings = Settings::default();
    let provisioned = TableState { provisioned: Some((5, 2_000)), ..TableState::default() };
    let check =
        room(&provisioned, &Ok((40_000, 40_000)), PartitionLimits::default(), Some(&settings));
    assert_eq!(check.status, Status::Warning);
    assert!(check.advice.expect("what to deploy").contains("AllMoversWriteUnits"));
    let bounded = Settings { all_movers_wcu: NonZeroU32::new(400), ..settings };
    for of_stack in [Some(&bounded), None] {
        let check = room(&provisioned, &Ok((40_000, 40_000)), PartitionLimits::default(), of_stack);
        assert_eq!(check.status, Status::Ok);
    }
}

#[test]
fn vector_indexes_are_named_where_there_are_some() {
    assert_eq!(vector_indexes(&TableState::default()), None);
    let names = ["ByImage", "ByText"].map(str::to_owned);
    let check =
        vector_indexes(&TableState { vector_indexes: names.into(), ..TableState::default() });
    let check = check.expect("a line");
    assert_eq!((check.name, check.status), ("vector_indexes", Status::Warning));
    assert!(check.seen.contains("ByImage, ByText"), "{}", check.seen);
}

#[test]
fn replicas_that_are_to_be_read_are_to_be_there() {
    let of = |read_replicas, main: &TableState| {
        replicas(main, &Settings { read_replicas, ..Settings::default() })
    };
    let mut main = TableState::default();
    assert_eq!(of(0, &main), None);
    let index = |name: &str| IndexState {
        name: name.to_owned(),
        key: ["pk", "sk"].map(str::to_owned).to_vec(),
        holds_all: true,
        is_active: true,
        ..IndexState::default()
    };
    main.indexes = vec![index("replica-1"), index("replica-2")];
    assert_eq!(of(2, &main).map(|check| check.status), Some(Status::Ok));
    let missing = of(3, &main).expect("a line");
    assert_eq!(missing.status, Status::Warning);
    assert!(missing.seen.contains("no index replica-3 with"), "{}", missing.seen);
    for spoil in [
        (|index: &mut IndexState| index.is_active = false) as fn(&mut IndexState),
        |index| index.holds_all = false,
        |index| index.key.reverse(),
    ] {
        let mut spoilt = main.clone();
        spoil(&mut spoilt.indexes[0]);
        let check = of(2, &spoilt).expect("a line");
        assert!(check.seen.contains("no index replica-1 with"), "{}", check.seen);
    }
}

/// A reservation is a maximum, and this one was recommended.
#[test]
fn regression_relief_waited_for_moves_with_a_reservation_of_two() {
    for rebalance in ["1", "2", "12", "21"] {
        let check = concurrency(Some("1"), Some(rebalance));
        assert_eq!(check.status, Status::Warning, "{rebalance}");
        let advice = check.advice.expect("what to deploy");
        assert!(advice.contains("RebalanceReservedConcurrency=0"), "{advice}");
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
