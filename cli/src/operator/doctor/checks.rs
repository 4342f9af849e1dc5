//! What follows from what was seen: one line for each thing that an application needs.

use std::time::Duration;

use super::super::adopt;
use super::super::check::{Check, Status};
use super::window::{Bound, Dates, LEFT_SECS, TOLERANCE_SECS, Window, lifetime_secs};
use dynashard_api::settings::{LONGEST_LEASE, shortest_lifetime, spare};
use dynashard_aws::{
    ACTIVE_INDEX, ACTIVE_INDEX_PARTITION, DECISIONS_INDEX, DECISIONS_INDEX_PARTITION,
};
use dynashard_aws_operator::{IndexState, TableState, TrialRead, Unseen};
use dynashard_core::{Error, Lease, PartitionLimits, Replica, Settings, TableSchema};

/// The sparse indexes of the metadata table, each with its only key attribute, and what fails without it.
const SPARSE_INDEXES: [(&str, &str, &str); 2] = [
    (ACTIVE_INDEX, ACTIVE_INDEX_PARTITION, "no sweep finds a reshard"),
    (DECISIONS_INDEX, DECISIONS_INDEX_PARTITION, "nobody can list what was decided"),
];

/// How far the local clock may be off, in seconds, before that is worth a warning, and before
/// requests are in danger of being refused.
const CLOCK_WARNING_SECS: u64 = 5;
const CLOCK_PROBLEM_SECS: u64 = 60;

/// A table of the stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) role: Role,
    pub(super) name: &'a str,
}

/// Which of the two tables it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Main,
    Metadata,
}

/// How long requests live, by what is pinned, or before that by the parameters of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// `RequestLifetimeSecs`; `None` if nobody said what it is.
    pub(super) secs: Option<u64>,
    /// `SignatureAgeSecs`.
    pub(super) age_secs: u64,
    /// Whether the stack has parameters with which its functions do not start, since nobody has verified them.
    pub(super) is_refused: bool,
    /// Whether the server is on this machine and no stack on AWS was named, so that those who sign and
    /// those who check have one clock.
    pub(super) is_on_this_machine: bool,
}

/// The local clock against the server's.
pub(super) fn clock(ahead_secs: Option<i64>) -> Check {
    const CHECK: &str = "clock";
    let Some(ahead_secs) = ahead_secs else {
        return Check::unknown(CHECK, "the server's answers have no Date");
    };
    let off = ahead_secs.unsigned_abs();
    let seen = match ahead_secs {
        0 => "the local clock agrees with the server's to the second".to_owned(),
        1.. => format!("the local clock is {off} s ahead of the server's"),
        _ => format!("the local clock is {off} s behind the server's"),
    };
    let status = match off {
        CLOCK_PROBLEM_SECS.. => Status::Problem,
        secs if secs > CLOCK_WARNING_SECS => Status::Warning,
        _ => return Check::ok(CHECK, seen),
    };
    Check::new(CHECK, status, seen).advise(
        "synchronise it with a time server: DynamoDB refuses what is signed too early or too late",
    )
}

/// How old a signature the server takes.
pub(super) fn signature_window(window: &Window) -> Check {
    const CHECK: &str = "signature_window";
    let connections = match window.connections {
        1 => "1 connection".to_owned(),
        connections => format!("{connections} connections"),
    };
    let on = format!("judged on {} of {connections}", window.judged_connections);
    let named = match window.named_secs {
        Some(secs) => format!("; the error names {}", span(secs)),
        None => String::new(),
    };
    let keep = format!("keep RequestLifetimeSecs at {} or more", unverified_secs());
    match &window.bound {
        Bound::Within { window_secs } => {
            let at =
                |secs: Option<u64>| secs.map_or_else(|| "-".to_owned(), |secs| format!("{secs} s"));
            let seen = format!(
                "requests are refused when they are older than {}: {} was accepted and {} refused, {on}{named}",
                span(*window_secs),
                at(window.largest_accepted_secs),
                at(window.smallest_refused_secs),
            );
            if window.connections_agree {
                return Check::ok(CHECK, seen);
            }
            Check::warning(CHECK, format!("{seen}; connections disagree, and the longest counts"),
            )
            .advise(
                "run the command again with more --connections, to see whether any takes longer",
            )
        }
        Bound::NoneRefused { tried_secs } => Check::warning(
            CHECK,
            format!(
                "the server accepts requests of any age that was tried, up to {}, {on}",
                span(*tried_secs)
            ),
        )
        .advise(keep),
        Bound::NoneAccepted => Check::unknown(
            CHECK,
            format!("no request was accepted, not even a new one, {on}{named}"),
        )
        .advise("check the clock and the credentials, and run the command again"),
        Bound::Incomplete { why } => Check::unknown(CHECK, format!("{why}, {on}{named}"))
            .advise(format!("run the command again, and {keep} until then")),
    }
}

/// What the stack reckons with against what was measured.
pub(super) fn request_lifetime(window: &Window, lifetime: Lifetime) -> Check {
    const CHECK: &str = "request_lifetime";
    let Lifetime { secs, age_secs, is_refused, is_on_this_machine } = lifetime;
    let unknown = |seen: String| Check::unknown(CHECK, seen);
    let recommended = window.request_lifetime_secs();
    let Some(secs) = secs else {
        let follows = match recommended {
            Some(secs) => {
                format!(
                    "RequestLifetimeSecs {secs} follows from the signature window, {IF_CONFIRMED}"
                )
            }
            None => "no RequestLifetimeSecs follows from the answers".to_owned(),
        };
        return unknown(format!("no stack was named; {follows}"))
            .advise("give --stack-name or --request-lifetime-secs");
    };
    let dated = if age_secs == 0 {
        String::new()
    } else {
        format!(" for writes that are dated {age_secs} s ago")
    };
    let seen = format!("RequestLifetimeSecs is {secs}{dated}");
    let problem = |why: &str, advice: String| {
        const LOST: &str = "acknowledged writes can be lost while shard counts change";
        Check::problem(CHECK, format!("{seen}, {why}: {LOST}")).advise(advice)
    };
    // One run does not prove that less will do, and a problem should not wait for more of them.
    let age = Duration::from_secs(age_secs);
    let [unverified, least] =
        [false, true].map(|is_verified| shortest_lifetime(age, is_verified).as_secs());
    let margin = spare(age).as_secs();
    let set_at_once = |window_secs: u64| match lifetime_secs(window_secs) {
        Some(secs) => format!("run {} at once", command(secs.saturating_sub(age_secs), unverified)),
        None => NO_VALUE.to_owned(),
    };
    let window_secs = match (&window.bound, window.largest_accepted_secs) {
        (Bound::Within { window_secs }, _) => *window_secs,
        (_, Some(age)) if !is_on_this_machine && age > secs + age_secs => {
            return problem(&format!("and a request of {age} s was accepted"), set_at_once(age));
        }
        (Bound::NoneRefused { .. }, _) if secs < unverified => {
            return problem("and no age was refused", set_at_once(0));
        }
        (Bound::NoneRefused { .. }, _) => {
            return Check::warning(CHECK, format!("{seen}, and no age was refused")).advise(
                "use this server for tests only: nothing bounds when a late request executes",
            );
        }
        (Bound::NoneAccepted | Bound::Incomplete { .. }, _) => {
            let check = unknown(format!("{seen}, and the signature window was not measured"));
            return if secs < unverified {
                check.advise(format!(
                    "run {} unless another run measures it",
                    command(0, unverified)
                ))
            } else {
                check
            };
        }
    };
    if age_secs > 0 {
        if let Some(why) = contradiction_of_dates(window, window_secs, lifetime) {
            let check = Check::problem(CHECK, format!("{seen}, {why}"));
            let run = |of: Dates| format!("run {}", of.command());
            return check.advise(window.dates().map_or_else(|| NO_VALUE.to_owned(), run));
        }
    } else if is_on_this_machine {
        if secs < window_secs {
            let why = format!("less than the signature window of {}", span(window_secs));
            return problem(&why, format!("set RequestLifetimeSecs={window_secs}"));
        }
    } else if secs < least || secs + TOLERANCE_SECS < window_secs + margin {
        let why = format!("less than the signature window of {} takes", span(window_secs));
        return problem(&why, set_at_once(window_secs));
    }
    if is_refused {
        let seen = "the stack's RequestLifetimeSecs is too short for RequestLifetimeVerified=no: functions do not start";
        return Check::problem(CHECK, seen).advise(format!(
            "deploy RequestLifetimeSecs={}, or RequestLifetimeVerified=yes {IF_CONFIRMED}",
            unverified_secs()
        ));
    }
    if let Some(dates) = window.dates()
        && secs > dates.request_lifetime_secs
    {
        return Check::ok(CHECK, seen).advise(format!(
            "{IF_CONFIRMED}, run {}: reshards then close {} s sooner",
            dates.command(),
            secs - dates.request_lifetime_secs,
        ));
    }
    let enough = format!("{seen}, as the signature window of {} takes", span(window_secs));
    if is_on_this_machine && secs < window_secs + margin {
        return Check::ok(
            CHECK,
            format!(
                "{enough}; the minute for clocks that differ is left out, since the endpoint is on this machine"
            ),
        );
    }
    Check::ok(CHECK, enough)
}

/// Nothing can be held against the window.
pub(super) fn unknown_settings(error: &Error) -> Check {
    let why = format!("the pinned settings cannot be read: {}", error.message());
    Check::unknown("request_lifetime", why)
}

/// Why the age and the lifetime of a stack do not belong to this window.
fn contradiction_of_dates(window: &Window, window_secs: u64, lifetime: Lifetime) -> Option<String> {
    let Lifetime { secs, age_secs, is_on_this_machine, .. } = lifetime;
    let shortest = window.shortest_secs.unwrap_or(window_secs);
    if age_secs + LEFT_SECS > shortest + TOLERANCE_SECS {
        let window = span(shortest);
        return Some(format!("and DynamoDB refuses what is older than {window}: writes fail"));
    }
    let margin =
        if is_on_this_machine { 0 } else { spare(Duration::from_secs(age_secs)).as_secs() };
    let is_short = secs.unwrap_or_default() + age_secs + TOLERANCE_SECS < window_secs + margin;
    is_short.then(|| {
        let window = span(window_secs);
        format!("less than the signature window of {window} takes: acknowledged writes can be lost while shard counts change")
    })
}

/// What one run does not show.
pub(super) const IF_CONFIRMED: &str = "if runs on several days say the same (docs/OPERATIONS.md)";

const NO_VALUE: &str = "no RequestLifetimeSecs is long enough: let no shard count change (ScalingMode=off) until this is explained";

/// Whether a table is there and as the template makes it.
pub(super) fn table(table: Table<'_>, state: &Result<TableState, Unseen>) -> Check {
    let check = table.role.pick("main_table", "metadata_table");
    Check::of(check, state, ("DescribeTable", table.name), |state| {
        let status = format!("{} is {}", table.name, state.status);
        if !state.is_active {
            return Check::problem(check, status)
                .advise("wait until DynamoDB has finished, and run the command again");
        }
        match table.role {
            Role::Main => Check::ok(check, status),
            Role::Metadata => match lack(state) {
                None => Check::ok(check, format!("{status}, with its indexes and stream")),
                Some((what, advice)) => {
                    Check::problem(check, format!("{} has {what}", table.name)).advise(advice)
                }
            },
        }
    })
}

/// What the metadata table has not as it should, and what to do about it.
fn lack(state: &TableState) -> Option<(String, &'static str)> {
    for (name, attribute, what_fails) in SPARSE_INDEXES {
        let Some(index) = state.indexes.iter().find(|index| index.name == name) else {
            return Some((format!("no index {name}, so {what_fails}"), RESTORE_INDEX));
        };
        if index.key != [attribute] || !index.holds_all {
            let what = format!("an index {name} with another key or projection");
            return Some((what, REPLACE_INDEX));
        }
        if !index.is_active {
            let what = format!("an index {name} that is being built");
            return Some((what, "run the command again later"));
        }
    }
    (!state.streams_both_images).then(|| {
        let what = "no stream with new and old images, so reshards wait for the sweep";
        let advice = "turn its stream on with NEW_AND_OLD_IMAGES; after a restore it is off";
        (what.to_owned(), advice)
    })
}

const RESTORE_INDEX: &str =
    "give it the index that template.yaml declares: deploy the template again";

const REPLACE_INDEX: &str = "delete that index, and deploy the template again: it declares the index with \
                             the attribute of the list as its only key";

/// Whether the keys of the tables fit each other, and the parameters of the stack.
pub(super) fn keys(found: Result<bool, String>) -> Check {
    const CHECK: &str = "keys";
    match found {
        Ok(true) => Check::ok(CHECK, "the keys of the tables are as they have to be"),
        Ok(false) => Check::problem(CHECK, "the keys of the tables are not those of the stack")
            .advise("check that the tables are those of this stack: keys never change"),
        Err(why) => Check::problem(CHECK, why).advise("check the names of the tables"),
    }
}

/// Whether a table can be restored to an earlier second.
pub(super) fn recovery(table: Table<'_>, found: &Result<bool, Unseen>) -> Check {
    let check = table.role.pick("main_recovery", "metadata_recovery");
    let name = table.name;
    Check::of(check, found, ("DescribeContinuousBackups", name), |is_on| {
        if *is_on {
            return Check::ok(check, format!("{name} has point-in-time recovery"));
        }
        Check::warning(check, format!("{name} has no point-in-time recovery"))
            .advise("turn it on for both tables: one without the other cannot be restored")
    })
}

/// Whether DynamoDB refuses to delete a table that was seen.
pub(super) fn protection(table: Table<'_>, state: &TableState) -> Check {
    let check = table.role.pick("main_deletion_protection", "metadata_deletion_protection");
    let name = table.name;
    if state.is_protected {
        return Check::ok(check, format!("{name} is protected against deletion"));
    }
    Check::warning(check, format!("{name} is not protected against deletion"))
        .advise("turn on its deletion protection; after a restore it may be off")
}

/// The attribute by which items expire, against the parameter `TtlAttribute`: `None` if no stack was
/// named, and empty if items are not to expire.
pub(super) fn time_to_live(
    table: &str,
    found: &Result<Option<String>, Unseen>,
    parameter: Option<&str>,
) -> Check {
    const CHECK: &str = "time_to_live";
    Check::of(CHECK, found, ("DescribeTimeToLive", table), |found| {
        let seen = match found {
            Some(attribute) => format!("items of {table} expire by {attribute:?}"),
            None => format!("items of {table} do not expire"),
        };
        match (found, parameter) {
            (None, None | Some("")) => Check::ok(CHECK, seen),
            (Some(found), Some(parameter)) if found == parameter => Check::ok(CHECK, seen),
            (Some(found), None) => Check::unknown(CHECK, seen).advise(format!(
                "make sure that the parameter TtlAttribute is {found:?}, or give --stack-name"
            )),
            (Some(_), Some(parameter)) => Check::problem(CHECK, format!(
                "{seen}, and TtlAttribute is {parameter:?}: an item that expires during a reshard uncovers an old one"
            ))
            .advise("turn time to live off at the table, and deploy TtlAttribute instead"),
            (None, Some(parameter)) => {
                Check::warning(CHECK, format!("{seen}, though TtlAttribute is {parameter:?}"))
                    .advise("deploy the template again; DynamoDB may take an hour to turn it on")
            }
        }
    })
}

/// Whether Contributor Insights name the throttled keys.
pub(super) fn contributor_insights(table: &str, found: &Result<bool, Unseen>) -> Check {
    const CHECK: &str = "contributor_insights";
    Check::of(CHECK, found, ("DescribeContributorInsights", table), |is_on| {
        if *is_on {
            return Check::ok(CHECK, format!("they name the throttled keys of {table}"));
        }
        Check::warning(CHECK, format!("they are off for {table}, so alarms let nothing grow"))
            .advise("turn them on in the mode THROTTLED_KEYS; writers that are throttled start growths without them")
    })
}

/// Which of the reads that the operator commands send are permitted.
pub(super) fn read_permission(
    table: Table<'_>,
    read: TrialRead,
    found: &Result<(), Unseen>,
) -> Check {
    let (operation, name) = (read.operation(), table.name);
    let check = match read {
        TrialRead::GetItem => table.role.pick("main_get_item", "metadata_get_item"),
        TrialRead::Query => table.role.pick("main_query", "metadata_query"),
        TrialRead::Scan => table.role.pick("main_scan", "metadata_scan"),
    };
    if let Err(Unseen::NotFound) = found {
        // The table has a line of its own.
        return Check::unknown(check, format!("the table {name} does not exist"));
    }
    Check::of(check, found, (operation, name), |()| {
        Check::ok(check, format!("the credentials allow {operation} of {name}"))
    })
}

/// What this command does not try, because it writes nothing.
pub(super) fn write_permissions(main_table: &str, metadata_table: &str) -> Check {
    Check::unknown("writes", "writes are not tried, since this command writes nothing").advise(
        format!(
            "`scale` takes dynamodb:UpdateItem on {metadata_table}; `verify --repair` takes \
             PutItem, DeleteItem and ConditionCheckItem on {main_table} and {metadata_table}"
        ),
    )
}

/// How much the main table takes at once: shards, of which each takes as much as a partition, share those that it has. Of what is
/// provisioned movers may take all, whatever clients ask for, where nothing of the stack bounds them together.
pub(super) fn room(
    main: &TableState,
    quota: &Result<(u64, u64), Unseen>,
    shard: PartitionLimits,
    of_stack: Option<&Settings>,
) -> Check {
    const CHECK: &str = "room";
    let allowed = match quota {
        Ok((_, writes)) => format!("the account allows a table {writes} write units"),
        Err(Unseen::NotSupported) => "this server has no quota for a table".to_owned(),
        Err(unseen) => format!("the account's quota could not be seen (DescribeLimits): {unseen}"),
    };
    if let Some((_, writes)) = main.provisioned {
        let seen =
            format!("the main table is provisioned with {writes} write units a second; {allowed}");
        let movers = of_stack.filter(|settings| settings.all_movers_wcu.is_none());
        let movers = movers.map(|settings| settings.mover_wcu);
        let Some(movers) = movers.filter(|movers| u64::from(*movers) > writes / 2) else {
            return Check::ok(CHECK, seen);
        };
        return Check::new(CHECK, Status::Warning, seen).advise(format!(
            "moving the items of one key may take {movers} of them, for as long as a change runs: deploy AllMoversWriteUnits with \
             what your clients leave"
        ));
    }
    let Some((reads, writes)) = main.warm else {
        let seen = format!("the server does not say what the main table takes at once; {allowed}");
        return Check::unknown(CHECK, seen);
    };
    let shards = writes / u64::from(shard.write_units).max(1);
    let seen = format!(
        "the main table takes {writes} write and {reads} read units a second at once, as {shards} shards in full use do; \
         {allowed}"
    );
    let status = match quota {
        Ok(_) | Err(Unseen::NotSupported) => Status::Ok,
        Err(_) => Status::Unknown,
    };
    Check::new(CHECK, status, seen).advise(
        "beyond that it throttles until DynamoDB has split partitions, whatever the shards: before a launch deploy \
         WarmWriteUnits and WarmReadUnits",
    )
}

/// A line for each kind of index that there is, or is to be.
pub(super) fn indexes(main: &TableState, settings: &Settings) -> impl Iterator<Item = Check> {
    vector_indexes(main).into_iter().chain(replicas(main, settings))
}

/// Whether the table has the replicas that reads are spread over; `None` where there are to be none.
fn replicas(main: &TableState, settings: &Settings) -> Option<Check> {
    const CHECK: &str = "read_replicas";
    let TableSchema { partition_key_name, sort_key_name, .. } = &settings.schema;
    let names = Replica::first(settings.read_replicas).map(|replica| replica.to_string());
    let names = names.collect::<Vec<_>>();
    let is_read = |index: &IndexState| {
        let has_key = index.key.iter().eq([partition_key_name, sort_key_name]);
        has_key && index.holds_all && index.is_active
    };
    let is_there =
        |name: &str| main.indexes.iter().any(|index| index.name == name && is_read(index));
    let missing = names.iter().map(String::as_str).filter(|name| !is_there(name));
    let missing = missing.collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        None
    } else if missing.is_empty() {
        let seen =
            format!("reads that need not be strong are spread over it and {}", names.join(", "));
        Some(Check::ok(CHECK, seen))
    } else {
        let seen = format!("the table has no index {missing} with its own key and all attributes");
        Some(Check::warning(CHECK, seen).advise(
            "the table answers in their place: make these indexes (docs/OPERATIONS.md), wait until they are active, or deploy a \
             lower ReadReplicas",
        ))
    }
}

/// What searches of the main table see of collections with several shards; `None` if it has no vector indexes.
fn vector_indexes(main: &TableState) -> Option<Check> {
    (!main.vector_indexes.is_empty()).then(|| adopt::vector_indexes(main))
}

/// The least reservation of `RebalanceFunction` with which relief does not wait for moves: the ten batches that Lambda may have
/// under way for one shard of the metadata table's stream by each of two mappings, the sweep, and one more.
const LEAST_FOR_REBALANCE: u32 = 22;

/// The least reservation of `ScaleFunction` with which alarms do not wait for operators' requests.
const LEAST_FOR_SCALE: u32 = 5;

/// What Lambda keeps for the functions that reshard, by the parameters of the stack.
pub(super) fn concurrency(scale: Option<&str>, rebalance: Option<&str>) -> Check {
    const CHECK: &str = "concurrency";
    if scale.is_none() && rebalance.is_none() {
        return Check::unknown(CHECK, "no stack was named");
    }
    let reserved = |count: Option<&str>| count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let (scale, rebalance): (u32, u32) = (reserved(scale), reserved(rebalance));
    let seen =
        format!("Lambda keeps {scale} for ScaleFunction and {rebalance} for RebalanceFunction");
    if (1..LEAST_FOR_REBALANCE).contains(&rebalance) {
        return Check::warning(CHECK, format!("{seen}, which is also its most"))
            .advise(format!(
                "a hot key waits for relief until items of others have moved: deploy RebalanceReservedConcurrency=0, or \
                 {LEAST_FOR_REBALANCE} or more"
            ));
    }
    if (1..LEAST_FOR_SCALE).contains(&scale) {
        return Check::warning(CHECK, format!("{seen}, which is also its most")).advise(format!(
            "a request that makes a collection holds one for seconds, and alarms wait behind it: deploy \
             ScaleReservedConcurrency=0, or {LEAST_FOR_SCALE} or more"
        ));
    }
    if scale > 0 {
        return Check::ok(CHECK, seen);
    }
    let account = 100 + LEAST_FOR_SCALE;
    Check::unknown(CHECK, format!("{seen}, and the account's limit was not asked for")).advise(
        format!(
            "`aws lambda get-account-settings --query AccountLimit` shows it; with {account} or more, deploy \
             ScaleReservedConcurrency={LEAST_FOR_SCALE}"
        ),
    )
}

/// Whether the one item that every environment reads serves as many as there may be, by `LeaseSecs` and by what Lambda keeps for
/// the functions that clients call.
pub(super) fn environments(lease_term: Duration, write: Option<&str>, read: Option<&str>) -> Check {
    const CHECK: &str = "environments";
    const LONGEST_SECS: u64 = LONGEST_LEASE.as_secs();
    let read_units = u128::from(PartitionLimits::default().read_units);
    let most = |secs: u64| {
        read_units * Lease::renewed_every(Duration::from_secs(secs)).as_millis() / 1_000
    };
    let lease_secs = lease_term.as_secs();
    let serves = most(lease_secs);
    let seen =
        format!("with LeaseSecs={lease_secs} the directory serves {serves} environments at once");
    // A reservation of 0 bounds nothing.
    let reserved = |count: Option<&str>| count.and_then(|count| count.parse::<u32>().ok());
    let reserved = [write, read].map(|count| reserved(count).unwrap_or_default());
    let there = reserved.into_iter().map(u128::from).sum::<u128>();
    if reserved.contains(&0) && there <= serves {
        let seen = format!("{seen}; Lambda lets an account have 1,000 if nobody asked for more");
        return Check::ok(CHECK, seen);
    }
    let seen = format!("{seen}, and Lambda keeps {there} for WriteFunction and ReadFunction");
    if there <= serves {
        return Check::ok(CHECK, seen);
    }
    let longer = (lease_secs..=LONGEST_SECS).find(|secs| most(*secs) >= there);
    let longer = longer.unwrap_or(LONGEST_SECS);
    Check::warning(CHECK, seen).advise(format!(
        "beyond that requests to all keys are throttled: `dynashard settings --set LeaseSecs={longer}`, or lower \
         WriteReservedConcurrency and ReadReservedConcurrency"
    ))
}

impl Role {
    fn pick(self, main: &'static str, metadata: &'static str) -> &'static str {
        match self {
            Self::Main => main,
            Self::Metadata => metadata,
        }
    }
}

/// What sets so many seconds, or what nobody has to verify if that is more.
fn command(secs: u64, unverified_secs: u64) -> String {
    let secs = secs.max(unverified_secs);
    format!("`dynashard settings --set RequestLifetimeSecs={secs}`")
}

/// The least `RequestLifetimeSecs` that nobody has to verify.
fn unverified_secs() -> u64 {
    shortest_lifetime(Duration::ZERO, false).as_secs()
}

/// Seconds, for people.
fn span(secs: u64) -> String {
    if secs >= 60 && secs.is_multiple_of(60) {
        format!("{} min", secs / 60)
    } else {
        format!("{secs} s")
    }
}

#[cfg(test)]
mod tests;
