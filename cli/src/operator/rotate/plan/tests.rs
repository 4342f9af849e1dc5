use dynashard_keys::TablePeriod;

use super::*;
use crate::operator::series::tests::table;

const NOVEMBER: i64 = 2026 * 12 + 10;

fn months() -> TimeTables {
    TimeTables::new("events", TablePeriod::Month).expect("a series")
}

/// The tables of these months of 2026.
fn members(months_of_2026: std::ops::RangeInclusive<i64>) -> BTreeMap<i64, Member> {
    let member = |month: i64| {
        let number = NOVEMBER - 11 + month;
        let name = months().numbered(number).expect("a month");
        (number, Member { table: table(&name), ..Member::default() })
    };
    months_of_2026.map(member).collect()
}

fn policy() -> Policy {
    Policy { hot: 1, cooling: Cooling::default(), delete_after: None, archive: Archive::Folder }
}

/// In November, with tables up to it or up to December.
fn plan(members: &BTreeMap<i64, Member>, is_ahead: bool, policy: &Policy) -> Plan {
    let times = Times { now: NOVEMBER, ahead: NOVEMBER + i64::from(is_ahead) };
    Plan::of(&months(), members, times, policy).expect("a plan")
}

fn said(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(Step::says).collect()
}

fn settled(month: i64, like: i64) -> String {
    format!(
        "events-2026-{month}: it has all that events-2026-{like} has, so take the tag dynashard:like off it"
    )
}

fn left(left: &[Left]) -> Vec<(&str, &str)> {
    left.iter().map(|left| (left.table.as_str(), left.why.as_str())).collect()
}

fn of_month(members: &mut BTreeMap<i64, Member>, month: i64) -> &mut Member {
    members.get_mut(&(NOVEMBER - 11 + month)).expect("a table")
}

#[test]
fn the_next_table_is_made_ahead_of_time_with_all_that_the_hot_one_has() {
    let mut members = members(10..=11);
    assert_eq!(plan(&members, false, &policy()), Plan::default(), "not yet");
    assert_eq!(
        said(&plan(&members, true, &policy())),
        ["events-2026-12: make it like events-2026-11", &settled(12, 11)]
    );

    let hot = of_month(&mut members, 11);
    (hot.expires_by, hot.is_recoverable) = (Some("until".to_owned()), Some(true));
    members.extend(self::members(12..=12));
    let new = of_month(&mut members, 12);
    new.table.like = Some("events-2026-11".to_owned());
    new.is_recoverable = Some(false);
    let steps = said(&plan(&members, true, &policy()));
    assert_eq!(
        steps,
        [
            "events-2026-12: let items expire by until",
            "events-2026-12: turn point-in-time recovery on",
            &settled(12, 11)
        ]
    );
    of_month(&mut members, 12).table.state.status = "CREATING".to_owned();
    let waits = plan(&members, true, &policy());
    assert_eq!(
        (waits.steps.len(), left(&waits.waiting)),
        (0, vec![("events-2026-12", "it is CREATING")])
    );
}

#[test]
fn a_rotation_that_is_late_makes_what_it_has_missed_but_not_for_ever() {
    let late = said(&plan(&members(8..=9), true, &policy()));
    assert_eq!(late.len(), 6, "{late:?}");
    assert_eq!(late[0], "events-2026-10: make it like events-2026-09");
    let times = Times { now: NOVEMBER + 20, ahead: NOVEMBER + 20 };
    let refused = Plan::of(&months(), &members(8..=11), times, &policy()).map_err(|e| e.code);
    assert_eq!(refused, Err("series_behind"));
}

#[test]
fn what_has_cooled_costs_less_and_what_is_hot_stays_as_it_is() {
    let mut members = members(8..=12);
    for member in members.values_mut() {
        member.table.state.provisioned = Some((100, 1_000));
    }
    let units = Some((200, 1));
    let lowers = Policy { hot: 2, cooling: Cooling { units, ..Cooling::default() }, ..policy() };
    let lower =
        |month: &str| format!("events-2026-{month}: lower it to 200 read and 1 write units");
    assert_eq!(said(&plan(&members, false, &lowers)), [lower("08"), lower("09")]);
    of_month(&mut members, 8).table.state.provisioned = Some((100, 1));
    assert_eq!(said(&plan(&members, false, &lowers)), [lower("09")]);
    of_month(&mut members, 9).is_owned = true;
    let left = plan(&members, false, &lowers);
    assert_eq!(left, Plan::default(), "a stack has its own capacity");

    let cooling = Cooling { is_on_demand: true, is_infrequent: true, units: None };
    let cools = Policy { hot: 3, cooling, ..policy() };
    let both = ["events-2026-08: put it on demand", "events-2026-08: move it to infrequent access"];
    assert_eq!(said(&plan(&members, false, &cools)), both);
    let state = &mut of_month(&mut members, 8).table.state;
    (state.provisioned, state.class) = (None, "STANDARD_INFREQUENT_ACCESS".to_owned());
    assert_eq!(plan(&members, false, &cools), Plan::default());
}

#[test]
fn the_oldest_goes_first_and_only_behind_its_export() {
    let mut members = members(7..=12);
    let ends = Policy { delete_after: Some(2), ..policy() };
    let month = |month: u32, does: &str| format!("events-2026-{month:02}: {does} it");
    assert_eq!(
        said(&plan(&members, false, &ends)),
        [month(7, "export"), month(7, "delete"), month(8, "export"), month(8, "delete")]
    );
    let without = Policy { archive: Archive::Nowhere, ..ends.clone() };
    assert_eq!(said(&plan(&members, false, &without)), [month(7, "delete"), month(8, "delete")]);

    of_month(&mut members, 7).export = Some(BucketExport::Running);
    let to_bucket = Policy { archive: Archive::Bucket, ..ends.clone() };
    of_month(&mut members, 8).is_recoverable = Some(false);
    let waits = plan(&members, false, &to_bucket);
    let recover = "events-2026-08: turn point-in-time recovery on".to_owned();
    assert_eq!(
        said(&waits),
        [recover, month(8, "export")],
        "its deletion waits for the older one's"
    );
    assert_eq!(left(&waits.waiting), [("events-2026-07", "it is being exported")]);
    of_month(&mut members, 7).export = Some(BucketExport::Complete(5));
    assert_eq!(said(&plan(&members, false, &to_bucket))[0], month(7, "delete"));
}

#[test]
fn what_is_protected_or_of_a_stack_stays_and_all_that_is_newer() {
    let mut members = members(7..=12);
    let cooling = Cooling { is_infrequent: true, ..Cooling::default() };
    let ends = Policy { delete_after: Some(1), cooling, ..policy() };
    of_month(&mut members, 8).table.state.is_protected = true;
    of_month(&mut members, 9).is_owned = true;
    let plan = plan(&members, true, &ends);
    assert_eq!(
        said(&plan),
        [
            "events-2026-10: move it to infrequent access",
            "events-2026-07: export it",
            "events-2026-07: delete it",
            "events-2026-08: move it to infrequent access",
        ]
    );
    assert_eq!(
        left(&plan.kept),
        [
            ("events-2026-08", "its deletion protection is on"),
            ("events-2026-09", "it is the main table of a stack"),
        ]
    );
}

#[test]
fn regression_a_late_rotation_lost_time_to_live_and_recovery() {
    let mut members = members(10..=10);
    let october = of_month(&mut members, 10);
    (october.expires_by, october.is_recoverable) = (Some("until".to_owned()), Some(true));
    let all_of = |month: i64| {
        let table = format!("events-2026-{month}");
        let expires = format!("{table}: let items expire by until");
        [expires, format!("{table}: turn point-in-time recovery on"), settled(month, 10)]
    };
    let made = |month: i64| format!("events-2026-{month}: make it like events-2026-10");
    let all = [vec![made(11)], all_of(11).into(), vec![made(12)], all_of(12).into()].concat();
    assert_eq!(said(&plan(&members, true, &policy())), all);

    members.extend(self::members(11..=11));
    let november = of_month(&mut members, 11);
    november.table.like = Some("events-2026-10".to_owned());
    november.is_recoverable = Some(false);
    let next = [vec![made(12)], all_of(12).into(), all_of(11).into()].concat();
    assert_eq!(said(&plan(&members, true, &policy())), next);
    let ends = Policy { delete_after: Some(1), archive: Archive::Nowhere, ..policy() };
    let later = Times { now: NOVEMBER + 1, ahead: NOVEMBER };
    let kept = Plan::of(&months(), &members, later, &ends).expect("a plan");
    assert_eq!(said(&kept), all_of(11), "what it is made like stays until then");

    of_month(&mut members, 11).table.like = None;
    assert_eq!(plan(&members, false, &policy()), Plan::default(), "an operator has turned it off");
    let like = ["events-2026-12: make it like events-2026-11", &settled(12, 11)];
    assert_eq!(said(&plan(&members, true, &policy())), like);
}

#[test]
fn regression_a_table_with_few_units_was_scanned_for_days_before_it_went() {
    let mut members = members(10..=11);
    of_month(&mut members, 10).table.state.provisioned = Some((10, 1));
    let ends = Policy { delete_after: Some(1), ..policy() };
    let times = Times { now: NOVEMBER + 1, ahead: NOVEMBER };
    let said = |policy| said(&Plan::of(&months(), &members, times, policy).expect("a plan"));
    let steps = ["put it on demand", "export it", "delete it"];
    assert_eq!(said(&ends), steps.map(|does| format!("events-2026-10: {does}")));
    let without = Policy { archive: Archive::Nowhere, ..ends };
    assert_eq!(said(&without), ["events-2026-10: delete it"], "nobody reads it");
}

#[test]
fn regression_one_refused_step_stopped_the_others() {
    let mut members = members(7..=12);
    let cooling = Cooling { is_infrequent: true, ..Cooling::default() };
    let ends = Policy { delete_after: Some(2), cooling, ..policy() };
    of_month(&mut members, 7).has_failed = true;
    of_month(&mut members, 9).has_failed = true;
    let steps = ["10: move it to infrequent access", "08: export it"];
    assert_eq!(
        said(&plan(&members, false, &ends)),
        steps.map(|step| format!("events-2026-{step}")),
        "a newer one is not deleted"
    );
}
