//! What follows from what DynamoDB says of a table: whether it can be a main table, and what those who
//! use it will see.

use dynashard_aws_operator::{IndexState, KeyAttribute, TableState, Unseen};
use dynashard_core::TableSchema;
use dynashard_keys::{Separator, SortKeyType};

use super::super::check::{Check, Status};
use super::survey::{FORWARDED, GENERATION, VERSION};

/// What was asked about a table beside its description.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) ttl: Result<Option<String>, Unseen>,
    /// The regions of a global table of the version 2017.11.29; none if it is not one.
    pub(super) legacy_replicas: Result<Option<Vec<String>>, Unseen>,
    pub(super) kinesis: Result<Vec<String>, Unseen>,
    pub(super) insights: Result<bool, Unseen>,
    pub(super) recovery: Result<bool, Unseen>,
    pub(super) policy: Result<Option<String>, Unseen>,
    /// The flags that say who asks, and where, for commands that are printed.
    pub(super) caller: String,
}

/// The names and types of a table's keys, if it can be a main table.
pub(in super::super) fn schema(
    state: &TableState,
    separator: Separator,
) -> Result<TableSchema, Vec<Check>> {
    let checks = keys(state);
    let (Some(partition), Some(sort)) = (&state.partition_key, &state.sort_key) else {
        return Err(checks);
    };
    let sort_key_type = match sort.letter.parse::<SortKeyType>() {
        Ok(sort_key_type) if checks.iter().all(|check| check.status == Status::Ok) => sort_key_type,
        _ => return Err(checks),
    };
    Ok(TableSchema {
        partition_key_name: partition.name.clone(),
        sort_key_name: sort.name.clone(),
        sort_key_type,
        separator,
    })
}

/// The types and names of the keys.
pub(super) fn keys(state: &TableState) -> Vec<Check> {
    let typed = |check: &'static str, what: &str, key: &Option<KeyAttribute>, letters: &[&str]| {
        let seen = match key {
            None => format!("the table has no {what}"),
            Some(KeyAttribute { name, letter }) if letters.contains(&letter.as_str()) => {
                return Check::ok(check, format!("the {what} is {name:?}, of type {letter}"));
            }
            Some(KeyAttribute { name, letter }) => {
                let letters = letters.join(" or ");
                format!("the {what} {name:?} has type {letter}, and not {letters}")
            }
        };
        Check::problem(check, seen).advise(
            "copy the table into one whose partition key is a string and whose sort key is a string or a number: the \
             keys of a table never change",
        )
    };
    let (partition, sort) = (&state.partition_key, &state.sort_key);
    let names = partition.as_ref().zip(sort.as_ref());
    let names = names.map(|(partition, sort)| names_of(&partition.name, &sort.name));
    [
        typed("partition_key", "partition key", partition, &["S"]),
        typed("sort_key", "sort key", sort, &["S", "N"]),
    ]
    .into_iter()
    .chain(names)
    .collect()
}

/// What the template's parameters and the metadata table allow as names.
fn names_of(partition: &str, sort: &str) -> Check {
    const CHECK: &str = "key_names";
    let schema = TableSchema {
        partition_key_name: partition.to_owned(),
        sort_key_name: sort.to_owned(),
        ..TableSchema::default()
    };
    let refused = [partition, sort].into_iter().find(|name| !is_parameter_name(name));
    let why = match (schema.check(), refused) {
        (Err(error), _) => error.message().to_owned(),
        (Ok(()), Some(name)) => format!(
            "the key attribute name {name:?} does not begin with a letter, or holds other characters \
             than letters, digits, underscores, dots and hyphens"
        ),
        (Ok(()), None) => {
            return Check::ok(CHECK, format!("the template takes {partition:?} and {sort:?}"));
        }
    };
    Check::problem(CHECK, why)
        .advise("copy the table into one with other key names: those of a table never change")
}

/// The pattern of the parameters that name attributes (template.yaml).
fn is_parameter_name(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    name.len() <= 255
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(rest)
}

/// Everything but the keys.
pub(super) fn checks(table: &str, state: &TableState, around: &Surroundings) -> Vec<Check> {
    let mut checks = vec![
        status(table, state),
        replicas("replicas", &state.replicas, "the table is in one region", "a global table"),
        legacy_replicas(table, &around.legacy_replicas),
        time_to_live(table, state, &around.ttl),
        stream(state),
        kinesis(table, &around.kinesis),
        local_indexes(state),
        vector_indexes(state),
    ];
    checks.extend(global_indexes(state));
    checks.push(encryption(state));
    checks.push(Check::of("resource_policy", &around.policy, ("GetResourcePolicy", table), |is| {
        match is {
            None => Check::ok("resource_policy", "the table has no resource-based policy"),
            Some(_) => {
                Check::warning("resource_policy", "the table has a resource-based policy already")
                    .advise("add the statement to that one: PutResourcePolicy replaces a policy")
            }
        }
    }));
    checks.extend(protections(table, state, around));
    checks.push(billing(state));
    checks
}

/// What ought to be on at any main table, each with the command that turns it on.
fn protections(table: &str, state: &TableState, around: &Surroundings) -> [Check; 3] {
    let caller = &around.caller;
    let insights = |is_on: &bool| {
        const CHECK: &str = "contributor_insights";
        if *is_on {
            return Check::ok(CHECK, "Contributor Insights name the throttled keys");
        }
        Check::warning(CHECK, "Contributor Insights are off, so alarms let nothing grow").advise(format!(
            "`aws dynamodb update-contributor-insights --table-name {table} \
             --contributor-insights-action ENABLE --contributor-insights-mode THROTTLED_KEYS{caller}`; writers \
             that are throttled start growths without them"
        ))
    };
    let recovery = |is_on: &bool| {
        if *is_on {
            return Check::ok("recovery", "the table has point-in-time recovery");
        }
        Check::warning("recovery", "the table has no point-in-time recovery").advise(format!(
            "`aws dynamodb update-continuous-backups --table-name {table} \
             --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true{caller}`: the metadata \
             table has it, and one without the other cannot be restored"
        ))
    };
    let deletion = if state.is_protected {
        Check::ok("deletion_protection", "the table is protected against deletion")
    } else {
        Check::warning("deletion_protection", "the table can be deleted").advise(format!(
            "`aws dynamodb update-table --table-name {table} --deletion-protection-enabled{caller}`"
        ))
    };
    [
        Check::of(
            "contributor_insights",
            &around.insights,
            ("DescribeContributorInsights", table),
            insights,
        ),
        Check::of("recovery", &around.recovery, ("DescribeContinuousBackups", table), recovery),
        deletion,
    ]
}

fn status(table: &str, state: &TableState) -> Check {
    let seen = format!("{table} is {}", state.status);
    if state.is_active {
        return Check::ok("table", seen);
    }
    Check::problem("table", seen)
        .advise("wait until DynamoDB has finished, and run the command again")
}

fn replicas(check: &'static str, regions: &[String], none: &str, what: &str) -> Check {
    if regions.is_empty() {
        return Check::ok(check, none);
    }
    Check::problem(check, format!("{what}, with replicas in {}", regions.join(", "))).advise(
        "remove the replicas: the last write of two regions wins, whatever the conditions of either said, so writes \
         elsewhere go around the guard",
    )
}

/// `DescribeTable` names replicas of the version 2019.11.21 only.
fn legacy_replicas(table: &str, found: &Result<Option<Vec<String>>, Unseen>) -> Check {
    const CHECK: &str = "legacy_replicas";
    const NONE: &str = "the table belongs to no global table of the version 2017.11.29";
    Check::of(CHECK, found, ("DescribeGlobalTable", table), |regions| {
        let regions = regions.as_deref().unwrap_or_default();
        replicas(CHECK, regions, NONE, "a global table of the version 2017.11.29")
    })
}

fn time_to_live(table: &str, state: &TableState, found: &Result<Option<String>, Unseen>) -> Check {
    const CHECK: &str = "time_to_live";
    let keys = [&state.partition_key, &state.sort_key].map(|key| name(key.as_ref()));
    Check::of(CHECK, found, ("DescribeTimeToLive", table), |found| {
        match found {
        None => Check::ok(CHECK, "items do not expire"),
        Some(name) if keys.contains(&name.as_str()) => Check::problem(
            CHECK,
            format!("items expire by {name:?}, which is an attribute of the key"),
        )
        .advise(
            "let items expire by another attribute: markers have the key, so they would expire before \
             they may be removed, and the functions refuse such a TtlAttribute",
        ),
        Some(name) if is_parameter_name(name) => {
            Check::ok(CHECK, format!("items expire by {name:?}"))
                .advise(format!("deploy with TtlAttribute={name}, and leave it on at the table"))
        }
        Some(name) => Check::problem(
            CHECK,
            format!("items expire by {name:?}, which the parameter TtlAttribute does not take"),
        )
        .advise(
            "let items expire by an attribute of letters, digits, underscores, dots and hyphens",
        ),
    }
    })
}

const MOVES: &str = "a move of an item appears as an INSERT under another partition key, a MODIFY of the old \
                     place into a marker, and later its REMOVE: let consumers read it as docs/ADOPTING.md says \
                     (\"Triggers\")";

fn stream(state: &TableState) -> Check {
    let Some(view) = &state.stream_view else {
        return Check::ok("stream", "the table has no stream");
    };
    let blind = match view.as_str() {
        "NEW_AND_OLD_IMAGES" => "",
        _ => "; without new and old images they cannot tell a marker",
    };
    Check::warning("stream", format!("the table has a stream ({view})"))
        .advise(format!("{MOVES}{blind}"))
}

fn kinesis(table: &str, found: &Result<Vec<String>, Unseen>) -> Check {
    const CHECK: &str = "kinesis";
    Check::of(CHECK, found, ("DescribeKinesisStreamingDestination", table), |streams| {
        if streams.is_empty() {
            return Check::ok(CHECK, "the table's changes go to no Kinesis stream");
        }
        let streams = streams.join(", ");
        Check::warning(CHECK, format!("the table's changes go to {streams}")).advise(MOVES)
    })
}

fn local_indexes(state: &TableState) -> Check {
    const CHECK: &str = "local_indexes";
    if state.local_indexes.is_empty() {
        return Check::ok(CHECK, "the table has no local secondary indexes");
    }
    // AWS, "Item collections in Local Secondary Indexes", and "Using write sharding to distribute
    // workloads evenly": adaptive capacity does not split an item collection then.
    let seen = format!(
        "with the local secondary indexes {} a partition key takes at most 10 GB, and DynamoDB does not \
         split it for heat",
        state.local_indexes.join(", ")
    );
    Check::warning(CHECK, seen).advise(
        "each shard has these limits for itself, so growth helps; DynamoDB's queries of such an index see one shard, and \
         GET /query?index= sees all",
    )
}

pub(in crate::operator) fn vector_indexes(state: &TableState) -> Check {
    const CHECK: &str = "vector_indexes";
    if state.vector_indexes.is_empty() {
        return Check::ok(CHECK, "the table has no vector indexes");
    }
    let seen = format!(
        "what the vector indexes {} find has physical partition keys once its collection has grown",
        state.vector_indexes.join(", ")
    );
    Check::warning(CHECK, seen).advise(
        "let searches take the key without its suffix; while items move, they may find one twice, or for a \
         moment not at all",
    )
}

/// Which indexes show markers, and which are asked by partition key.
fn global_indexes(state: &TableState) -> [Check; 2] {
    let (partition, sort) = (name(state.partition_key.as_ref()), name(state.sort_key.as_ref()));
    // A marker holds these attributes and `_ds_fwd`, which cannot be a key.
    let of_marker = [partition, sort, GENERATION, VERSION];
    let shows_markers =
        |index: &IndexState| index.key.iter().all(|key| of_marker.contains(&key.as_str()));
    let is_blind = |index: &IndexState| {
        shows_markers(index)
            && !index.holds_all
            && !index.projected.iter().any(|name| name == FORWARDED)
    };
    let by_partition = |index: &IndexState| index.key.iter().any(|key| key == partition);
    let list = |is_wanted: &dyn Fn(&IndexState) -> bool| {
        let indexes = state.indexes.iter().filter(|index| is_wanted(index));
        indexes.map(|index| index.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (marked, blind, keyed) = (list(&shows_markers), list(&is_blind), list(&by_partition));

    let markers = if marked.is_empty() {
        Check::ok("index_markers", "markers enter no global secondary index")
    } else {
        let mut advice = "filter queries of them by attribute_not_exists(_ds_fwd)".to_owned();
        if !blind.is_empty() {
            advice = format!(
                "{advice}; {blind} must project `_ds_fwd` or whole items for that, so make it anew"
            );
        }
        let seen = format!(
            "while items move, markers enter {marked}: their keys consist of the table's own"
        );
        Check::warning("index_markers", seen).advise(advice)
    };
    if state.indexes.is_empty() {
        return [markers, Check::ok("index_keys", "the table has no global secondary indexes")];
    }
    let (seen, advice) = if keyed.is_empty() {
        let all = list(&|_| true);
        let physical = format!(
            "what they return of collections with several shards has physical keys as {partition:?}"
        );
        (format!("other attributes are the keys of {all}"), physical)
    } else {
        let physical = "they hold physical keys: a query for a logical key sees its first shard only. \
                        Leave out of GrowKeys what is queried so, or query the API";
        let seen = format!("the partition key {partition:?} is in the keys of {keyed}");
        (seen, physical.to_owned())
    };
    // An index is eventually consistent, and the two places of an item are two entries of it.
    let keys = Check::warning("index_keys", seen).advise(format!(
        "{advice}. While items move, an index may show an item twice, the older version too, or for a \
         moment not at all"
    ));
    [markers, keys]
}

fn name(key: Option<&KeyAttribute>) -> &str {
    key.map_or("", |key| key.name.as_str())
}

fn encryption(state: &TableState) -> Check {
    let Some(key) = &state.kms_key else {
        return Check::ok("encryption", "the table is encrypted with a key of DynamoDB's own");
    };
    Check::warning("encryption", format!("the table is encrypted with {key}")).advise(
        "if that is a customer managed key, let the functions' roles use it through DynamoDB \
         (kms:Decrypt, kms:DescribeKey, kms:CreateGrant)",
    )
}

fn billing(state: &TableState) -> Check {
    let Some((read, write)) = state.provisioned else {
        return Check::ok("billing", "the table is on demand");
    };
    let seen =
        format!("the table is provisioned with {read} read and {write} write units a second");
    Check::ok("billing", seen).advise(
        "a move of an item of 1 KB takes 4 write units: leave room for that, or set MoverWriteUnits; a \
         throttle of the whole table lets no collection grow",
    )
}

#[cfg(test)]
mod tests;
