//! What follows from what DynamoDB says of a table: whether it can be a main table, and what those who
//! use it will see.

use dynashard_aws_operator::{IndexState, KeyAttribute, TableState, Unseen};
use dynashard_core::TableSchema;
use dynashard_keys::{Separator, SortKeyType};

use super::super::check::{Check, Status};
use super::survey::GENERATION;

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
pub(super) fn schema(state: &TableState, separator: Separator) -> Result<TableSchema, Vec<Check>> {
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
    let is = |key: &Option<KeyAttribute>, letters: &[&str]| {
        key.as_ref().is_some_and(|key| letters.contains(&key.letter.as_str()))
    };
    let typed = |check: &'static str, what: &str, key: &Option<KeyAttribute>, letters: &[&str]| {
        let advice = "copy the table into one whose partition key is a string and whose sort key is a \
                      string or a number: the keys of a table never change";
        match key {
            None => Check::new(check, Status::Problem, format!("the table has no {what}"))
                .advise(advice),
            Some(KeyAttribute { name, letter }) if is(key, letters) => {
                Check::ok(check, format!("the {what} is {name:?}, of type {letter}"))
            }
            Some(KeyAttribute { name, letter }) => Check::new(
                check,
                Status::Problem,
                format!("the {what} {name:?} has type {letter}, and not {}", letters.join(" or ")),
            )
            .advise(advice),
        }
    };
    let mut checks = vec![
        typed("partition_key", "partition key", &state.partition_key, &["S"]),
        typed("sort_key", "sort key", &state.sort_key, &["S", "N"]),
    ];
    if let (Some(partition), Some(sort)) = (&state.partition_key, &state.sort_key) {
        checks.push(names(&partition.name, &sort.name));
    }
    checks
}

/// What the template's parameters and the metadata table allow as names.
fn names(partition: &str, sort: &str) -> Check {
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
    Check::new(CHECK, Status::Problem, why)
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
    let mut checks = vec![status(table, state), replicas(state)];
    checks.push(legacy_replicas(table, &around.legacy_replicas));
    checks.push(time_to_live(table, state, &around.ttl));
    checks.push(stream(state));
    checks.push(kinesis(table, &around.kinesis));
    checks.push(local_indexes(state));
    checks.push(vector_indexes(state));
    checks.extend(global_indexes(state));
    checks.push(encryption(state));
    checks.push(policy(table, &around.policy));
    checks.push(insights(table, &around.caller, &around.insights));
    checks.push(recovery(table, &around.caller, &around.recovery));
    checks.push(if state.is_protected {
        Check::ok("deletion_protection", "the table is protected against deletion")
    } else {
        Check::new("deletion_protection", Status::Warning, "the table can be deleted").advise(
            format!(
                "`aws dynamodb update-table --table-name {table} --deletion-protection-enabled{}`",
                around.caller
            ),
        )
    });
    checks.push(billing(state));
    checks
}

fn status(table: &str, state: &TableState) -> Check {
    let seen = format!("{table} is {}", state.status);
    if state.is_active {
        return Check::ok("table", seen);
    }
    Check::new("table", Status::Problem, seen)
        .advise("wait until DynamoDB has finished, and run the command again")
}

fn replicas(state: &TableState) -> Check {
    const CHECK: &str = "replicas";
    if state.replicas.is_empty() {
        return Check::ok(CHECK, "the table is in one region");
    }
    let regions = state.replicas.join(", ");
    Check::new(CHECK, Status::Problem, format!("a global table, with replicas in {regions}"))
        .advise(LAST_WRITER)
}

const LAST_WRITER: &str = "remove the replicas: the last write of two regions wins, whatever the conditions of \
                           either said, so writes elsewhere go around the guard";

/// `DescribeTable` names replicas of the version 2019.11.21 only.
fn legacy_replicas(table: &str, found: &Result<Option<Vec<String>>, Unseen>) -> Check {
    const CHECK: &str = "legacy_replicas";
    match found {
        Ok(None) => {
            Check::ok(CHECK, "the table belongs to no global table of the version 2017.11.29")
        }
        Ok(Some(regions)) => {
            let regions = regions.join(", ");
            let seen =
                format!("a global table of the version 2017.11.29, with replicas in {regions}");
            Check::new(CHECK, Status::Problem, seen).advise(LAST_WRITER)
        }
        Err(unseen) => Check::unseen(CHECK, unseen, "DescribeGlobalTable", table),
    }
}

fn time_to_live(table: &str, state: &TableState, found: &Result<Option<String>, Unseen>) -> Check {
    const CHECK: &str = "time_to_live";
    let keys = [&state.partition_key, &state.sort_key].map(|key| name(key.as_ref()));
    match found {
        Ok(None) => Check::ok(CHECK, "items do not expire"),
        Ok(Some(name)) if keys.contains(&name.as_str()) => Check::new(
            CHECK,
            Status::Problem,
            format!("items expire by {name:?}, which is an attribute of the key"),
        )
        .advise(
            "let items expire by another attribute: markers have the key, so they would expire before \
             they may be removed, and the functions refuse such a TtlAttribute",
        ),
        Ok(Some(name)) if is_parameter_name(name) => {
            Check::ok(CHECK, format!("items expire by {name:?}"))
                .advise(format!("deploy with TtlAttribute={name}, and leave it on at the table"))
        }
        Ok(Some(name)) => Check::new(
            CHECK,
            Status::Problem,
            format!("items expire by {name:?}, which the parameter TtlAttribute does not take"),
        )
        .advise(
            "let items expire by an attribute of letters, digits, underscores, dots and hyphens",
        ),
        Err(unseen) => Check::unseen(CHECK, unseen, "DescribeTimeToLive", table),
    }
}

const MOVES: &str = "a move of an item appears as an INSERT under another partition key, a MODIFY of the old \
                     place into a marker (`_ds_fwd`), and later its REMOVE: let consumers skip images with \
                     `_ds_fwd`, and take the partition key for a physical one";

fn stream(state: &TableState) -> Check {
    const CHECK: &str = "stream";
    match &state.stream_view {
        None => Check::ok(CHECK, "the table has no stream"),
        Some(view) => {
            Check::new(CHECK, Status::Warning, format!("the table has a stream ({view})")).advise(
                if view == "KEYS_ONLY" {
                    format!("{MOVES}; without images they cannot tell a marker")
                } else {
                    MOVES.to_owned()
                },
            )
        }
    }
}

fn kinesis(table: &str, found: &Result<Vec<String>, Unseen>) -> Check {
    const CHECK: &str = "kinesis";
    match found {
        Ok(streams) if streams.is_empty() => {
            Check::ok(CHECK, "the table's changes go to no Kinesis stream")
        }
        Ok(streams) => {
            let seen = format!("the table's changes go to {}", streams.join(", "));
            Check::new(CHECK, Status::Warning, seen).advise(MOVES)
        }
        Err(unseen) => Check::unseen(CHECK, unseen, "DescribeKinesisStreamingDestination", table),
    }
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
    Check::new(CHECK, Status::Warning, seen).advise(
        "each shard has these limits for itself, so growth helps; queries of such an index see one shard",
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
    Check::new(CHECK, Status::Warning, seen).advise(
        "let searches take the key without its suffix; while items move, they may find one twice, or for a \
         moment not at all",
    )
}

/// Which indexes show markers, and which are asked by partition key.
fn global_indexes(state: &TableState) -> Vec<Check> {
    let (partition, sort) = (name(state.partition_key.as_ref()), name(state.sort_key.as_ref()));
    // A marker holds these attributes and `_ds_fwd`, which cannot be a key.
    let is_of_marker = |attribute: &String| [partition, sort, GENERATION].contains(&&**attribute);
    let shows_markers = |index: &&IndexState| index.key.iter().all(is_of_marker);
    let by_partition = |index: &&IndexState| index.key.iter().any(|key| key == partition);
    let found =
        |is: &dyn Fn(&&IndexState) -> bool| state.indexes.iter().filter(is).collect::<Vec<_>>();
    let list = |indexes: &[&IndexState]| {
        indexes.iter().map(|index| index.name.as_str()).collect::<Vec<_>>().join(", ")
    };

    let marked = found(&shows_markers);
    let markers = if marked.is_empty() {
        Check::ok("index_markers", "markers enter no global secondary index")
    } else {
        let blind = |index: &&&IndexState| {
            !index.holds_all && !index.projected.iter().any(|name| name == "_ds_fwd")
        };
        let blind = marked.iter().filter(blind).copied().collect::<Vec<_>>();
        let filter = "filter queries of them by attribute_not_exists(_ds_fwd)";
        Check::new(
            "index_markers",
            Status::Warning,
            format!(
                "while items move, markers enter {}: their keys consist of the table's own",
                list(&marked)
            ),
        )
        .advise(if blind.is_empty() {
            filter.to_owned()
        } else {
            let blind = list(&blind);
            format!(
                "{filter}; {blind} must project `_ds_fwd` or whole items for that, so make it anew"
            )
        })
    };

    let keyed = found(&by_partition);
    let keys = if state.indexes.is_empty() {
        Check::ok("index_keys", "the table has no global secondary indexes")
    } else {
        let (seen, advice) = if keyed.is_empty() {
            let seen = format!("other attributes are the keys of {}", list(&found(&|_| true)));
            let physical = format!(
                "what they return of collections with several shards has physical keys as {partition:?}"
            );
            (seen, physical)
        } else {
            let physical = "they hold physical keys: a query for a logical key sees its first shard only. \
                            Leave out of GrowKeys what is queried so, or query the API";
            let seen =
                format!("the partition key {partition:?} is in the keys of {}", list(&keyed));
            (seen, physical.to_owned())
        };
        // An index is eventually consistent, and the two places of an item are two entries of it.
        Check::new("index_keys", Status::Warning, seen).advise(format!(
            "{advice}. While items move, an index may show an item twice, the older version too, or for a \
             moment not at all"
        ))
    };
    vec![markers, keys]
}

fn name(key: Option<&KeyAttribute>) -> &str {
    key.map_or("", |key| key.name.as_str())
}

fn encryption(state: &TableState) -> Check {
    const CHECK: &str = "encryption";
    match &state.kms_key {
        None => Check::ok(CHECK, "the table is encrypted with a key of DynamoDB's own"),
        Some(key) => Check::new(
            CHECK,
            Status::Warning,
            format!("the table is encrypted with {key}"),
        )
        .advise(
            "if that is a customer managed key, let the functions' roles use it through DynamoDB \
                 (kms:Decrypt, kms:DescribeKey, kms:CreateGrant)",
        ),
    }
}

fn policy(table: &str, found: &Result<Option<String>, Unseen>) -> Check {
    const CHECK: &str = "resource_policy";
    match found {
        Ok(None) => Check::ok(CHECK, "the table has no resource-based policy"),
        Ok(Some(_)) => {
            Check::new(CHECK, Status::Warning, "the table has a resource-based policy already")
                .advise("add the statement to that one: PutResourcePolicy replaces a policy")
        }
        Err(unseen) => Check::unseen(CHECK, unseen, "GetResourcePolicy", table),
    }
}

fn insights(table: &str, caller: &str, found: &Result<bool, Unseen>) -> Check {
    const CHECK: &str = "contributor_insights";
    match found {
        Ok(true) => Check::ok(CHECK, "Contributor Insights name the throttled keys"),
        Ok(false) => Check::new(
            CHECK,
            Status::Warning,
            "Contributor Insights are off, so alarms let nothing grow",
        )
        .advise(format!(
            "`aws dynamodb update-contributor-insights --table-name {table} \
             --contributor-insights-action ENABLE --contributor-insights-mode THROTTLED_KEYS{caller}`; writers \
             that are throttled start growths without them"
        )),
        Err(unseen) => Check::unseen(CHECK, unseen, "DescribeContributorInsights", table),
    }
}

fn recovery(table: &str, caller: &str, found: &Result<bool, Unseen>) -> Check {
    const CHECK: &str = "recovery";
    match found {
        Ok(true) => Check::ok(CHECK, "the table has point-in-time recovery"),
        Ok(false) => Check::new(CHECK, Status::Warning, "the table has no point-in-time recovery")
            .advise(format!(
                "`aws dynamodb update-continuous-backups --table-name {table} \
                 --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true{caller}`: the metadata \
                 table has it, and one without the other cannot be restored"
            )),
        Err(unseen) => Check::unseen(CHECK, unseen, "DescribeContinuousBackups", table),
    }
}

fn billing(state: &TableState) -> Check {
    const CHECK: &str = "billing";
    match state.provisioned {
        None => Check::ok(CHECK, "the table is on demand"),
        Some((read, write)) => Check::ok(
            CHECK,
            format!("the table is provisioned with {read} read and {write} write units a second"),
        )
        .advise(
            "a move of an item of 1 KB takes 4 write units: leave room for that, or set MoverWriteUnits; a \
             throttle of the whole table lets no collection grow",
        ),
    }
}

#[cfg(test)]
mod tests;
