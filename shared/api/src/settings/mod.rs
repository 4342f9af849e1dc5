//! The settings of a stack, from the parameters of its template.

mod variables;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use dynashard_core::{
    IndexShards, ItemCacheLimits, PartitionLimits, Replica, RequestDates, ScalingMode,
    ScalingPolicy, Settings, ShrinkPolicy, TableSchema,
};
use dynashard_keys::{Placement, RESERVED_PREFIX, Separator, ShardCount, SortKeyType};

pub use variables::{ConfigError, ConfigErrors, Variables};

/// The longest `LeaseSecs`, which is the parameter's maximum.
pub const LONGEST_LEASE: Duration = Duration::from_mins(1);

/// The longest `RequestLifetimeSecs`, which is the parameter's maximum.
pub const LONGEST_REQUEST_LIFETIME: Duration = Duration::from_mins(30);

/// The longest `SignatureAgeSecs`: half a minute less than the shortest time for which DynamoDB is known to take a signature.
pub const LONGEST_SIGNATURE_AGE: Duration = Duration::from_secs(270);

/// The shortest and the longest time for which DynamoDB is known to take a signature (AWS Identity and Access Management
/// User Guide, "Troubleshoot Signature Version 4 signed requests for AWS APIs": 15 minutes at the most).
pub const WINDOWS: [Duration; 2] = [Duration::from_mins(5), Duration::from_mins(15)];

/// The longest `ItemCacheSecs`, which is the parameter's maximum.
const LONGEST_ITEM_CACHE_SECS: u64 = 3_600;

/// The largest `ItemCacheMegabytes`, which is the parameter's maximum: half of the largest memory of a function.
const LARGEST_ITEM_CACHE_MEGABYTES: u64 = 5_120;

/// What age and H together have beyond the window: a minute, since the clocks of those who sign and of those who check may
/// differ, and half a minute more where writes are dated back, since what passes between the check of a date and the
/// execution counts for more then (protocol: "Dates of writes").
pub fn spare(age: Duration) -> Duration {
    Duration::from_secs(if age.is_zero() { 60 } else { 90 })
}

/// The shortest H that belongs to this age, where `dynashard doctor` has measured how long DynamoDB takes a signature, and
/// where nobody has.
pub fn shortest_lifetime(age: Duration, is_verified: bool) -> Duration {
    let [shortest, longest] = WINDOWS;
    let window = if is_verified { shortest } else { longest };
    (window + spare(age)).saturating_sub(age)
}

/// Refuses an age without the H that belongs to it, in words for who is to set them.
pub fn check_dates(dates: RequestDates, is_verified: bool) -> Result<(), String> {
    let RequestDates { age, lifetime } = dates;
    let [verified, unverified] = [true, false].map(|verified| shortest_lifetime(age, verified));
    let (age, secs) = (age.as_secs(), lifetime.as_secs());
    if lifetime < verified {
        return Err(format!(
            "RequestLifetimeSecs is {secs}, and DynamoDB executes requests that are dated {age} s ago for longer: it has to be \
             at least {}, or {} if `dynashard doctor` says so",
            unverified.as_secs(),
            verified.as_secs(),
        ));
    }
    if !is_verified && lifetime < unverified {
        return Err(format!(
            "RequestLifetimeSecs is {secs} and not verified: run `dynashard doctor`, and say that it was, or set at least {}",
            unverified.as_secs()
        ));
    }
    Ok(())
}

/// Whether `dynashard doctor` has measured that requests live no longer than the stack's
/// `RequestLifetimeSecs`, by the variable `REQUEST_LIFETIME_VERIFIED`: `yes` or `no`. Stacks that
/// were deployed before there was such a parameter do not have it.
pub fn is_request_lifetime_verified(
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<bool, ConfigError> {
    const NAME: &str = "REQUEST_LIFETIME_VERIFIED";
    match lookup(NAME).as_deref() {
        None | Some("" | "no") => Ok(false),
        Some("yes") => Ok(true),
        Some(other) => Err(ConfigError::unknown(NAME, other, "yes or no")),
    }
}

/// Reads the settings of the stack from the variables that `lookup` finds: one for each parameter of
/// the template, under the parameter's name in capitals.
///
/// # Errors
/// Whatever is missing or wrong, all of it.
pub fn settings_from_variables(
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Settings, ConfigErrors> {
    let variables = Variables::new(lookup);
    let settings = read_settings(&variables).filter(|_| !variables.is_any_wrong());
    settings.ok_or_else(|| variables.wrong())
}

/// Reads the settings from `variables`, and notes there what is missing or wrong. `None` if any of it is.
pub fn read_settings<F: Fn(&str) -> Option<String>>(variables: &Variables<F>) -> Option<Settings> {
    let schema = schema(variables);
    let lease_secs = variables.keep(within("LEASE_SECS", LONGEST_LEASE, variables));
    let request_lifetime_secs =
        variables.keep(within("REQUEST_LIFETIME_SECS", LONGEST_REQUEST_LIFETIME, variables));
    let signature_age_secs = variables.keep(signature_age_secs(variables));
    let scaling_mode = variables
        .keep(variables.required("SCALING_MODE"))
        .and_then(|text| variables.keep(mode("SCALING_MODE", &text)));
    let writers = variables.keep(writer_scaling(variables));
    let cooldown_secs = variables.keep(variables.parsed("COOLDOWN_SECS"));
    let defaults = Settings::default();
    let shrink_mode = match variables.optional("SHRINK_MODE") {
        Some(text) => variables.keep(mode("SHRINK_MODE", &text)),
        None => Some(defaults.shrink.mode),
    };
    let shrink_after_secs =
        variables.keep(variables.parsed_or("SHRINK_AFTER_SECS", defaults.shrink.after.as_secs()));
    let payback_days = variables.keep(variables.parsed_or::<u64>("SHRINK_PAYBACK_DAYS", 0));
    let units = |name, default| {
        let units = variables.keep(variables.parsed_or::<NonZeroU32>(name, one_of(default)));
        units.map(NonZeroU32::get)
    };
    let write_units = units("PARTITION_WRITE_UNITS", defaults.partition.write_units);
    let read_units = units("PARTITION_READ_UNITS", defaults.partition.read_units);
    let placement = variables.keep(variables.parsed::<Placement>("PLACEMENT"));
    let max_shards = variables.keep(variables.parsed::<u32>("MAX_SHARDS").and_then(|count| {
        ShardCount::new(count)
            .map_err(|error| ConfigError::new("MAX_SHARDS", format!("is wrong: {error}")))
    }));
    let grow_keys = variables.keep(variables.parsed("GROW_KEYS"));
    let ttl_attribute = variables.keep(ttl_attribute(variables, schema.as_ref()));
    let mover_wcu = variables.keep(variables.parsed("MOVER_WRITE_UNITS"));
    let all_movers_wcu = variables.keep(variables.parsed_or("ALL_MOVERS_WRITE_UNITS", 0));
    let read_replicas = variables.keep(read_replicas(variables));
    let item_cache = variables.keep(item_cache(variables));
    let index_shards = variables.keep(between("INDEX_SHARDS", [0, IndexShards::MOST], variables));
    // None are 0.
    let index_shards = index_shards.map(|count| ShardCount::new(count).ok());
    Some(Settings {
        placement: placement?,
        lease_term: Duration::from_secs(lease_secs?),
        request_lifetime: Duration::from_secs(request_lifetime_secs?),
        signature_age: Duration::from_secs(signature_age_secs?),
        max_shards: max_shards?,
        grow_keys: grow_keys?,
        ttl_attribute: ttl_attribute?,
        mover_wcu: mover_wcu?,
        all_movers_wcu: NonZeroU32::new(all_movers_wcu?),
        scaling: ScalingPolicy {
            mode: scaling_mode?,
            writers: writers?,
            cooldown: Duration::from_secs(cooldown_secs?),
        },
        shrink: ShrinkPolicy {
            mode: shrink_mode?,
            after: Duration::from_secs(shrink_after_secs?),
            payback: payback_days
                .filter(|days| *days > 0)
                .map(|days| Duration::from_hours(24 * days)),
        },
        partition: PartitionLimits { write_units: write_units?, read_units: read_units? },
        schema: schema?,
        read_replicas: read_replicas?,
        item_cache: item_cache?,
        index_shards: index_shards?,
        ..defaults
    })
}

/// What is kept of items that were read: nothing without the variables, which only `ReadFunction` has.
fn item_cache<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<Option<ItemCacheLimits>, ConfigError> {
    let secs = between("ITEM_CACHE_SECS", [0, LONGEST_ITEM_CACHE_SECS], variables)?;
    let megabytes = between("ITEM_CACHE_MEGABYTES", [1, LARGEST_ITEM_CACHE_MEGABYTES], variables)?;
    let limits = ItemCacheLimits { term: Duration::from_secs(secs), bytes: megabytes << 20 };
    Ok((secs > 0).then_some(limits))
}

/// How many replicas the table has for reads: 0 without the variable, which only `ReadFunction` has.
fn read_replicas<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<u32, ConfigError> {
    between("READ_REPLICAS", [0, Replica::MOST], variables)
}

/// A number in these bounds, the lower one where the variable says nothing.
fn between<F, N>(
    name: &'static str,
    [least, most]: [N; 2],
    variables: &Variables<F>,
) -> Result<N, ConfigError>
where
    F: Fn(&str) -> Option<String>,
    N: FromStr<Err: fmt::Display> + fmt::Display + PartialOrd + Copy,
{
    let value = variables.parsed_or(name, least)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let problem = format!("is {value}; it must be between {least} and {most}");
    Err(ConfigError::new(name, problem))
}

/// The names and types of the key, if they are right.
fn schema<F: Fn(&str) -> Option<String>>(variables: &Variables<F>) -> Option<TableSchema> {
    let partition_key_name = variables.keep(variables.required("PARTITION_KEY_NAME"));
    let sort_key_name = variables.keep(variables.required("SORT_KEY_NAME"));
    let sort_key_type = variables.keep(variables.parsed::<SortKeyType>("SORT_KEY_TYPE"));
    let separator = variables.keep(variables.parsed::<Separator>("SEPARATOR"));
    let schema = TableSchema {
        partition_key_name: partition_key_name?,
        sort_key_name: sort_key_name?,
        sort_key_type: sort_key_type?,
        separator: separator?,
    };
    let checked = schema.check().map_err(|error| {
        let problem = format!("is wrong: {}", error.message());
        ConfigError::new("PARTITION_KEY_NAME or SORT_KEY_NAME", problem)
    });
    variables.keep(checked).map(|()| schema)
}

/// A number of seconds from 1 to `longest`.
fn within<F: Fn(&str) -> Option<String>>(
    name: &'static str,
    longest: Duration,
    variables: &Variables<F>,
) -> Result<u64, ConfigError> {
    let (secs, longest_secs) = (variables.parsed::<u64>(name)?, longest.as_secs());
    if (1..=longest_secs).contains(&secs) {
        return Ok(secs);
    }
    let problem = format!("is {secs}; it must be between 1 and {longest_secs}");
    Err(ConfigError::new(name, problem))
}

/// Stacks that were deployed before there was such a parameter date no writes back.
fn signature_age_secs<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<u64, ConfigError> {
    between("SIGNATURE_AGE_SECS", [0, LONGEST_SIGNATURE_AGE.as_secs()], variables)
}

fn writer_scaling<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<bool, ConfigError> {
    const NAME: &str = "WRITER_SCALING";
    match variables.required(NAME)?.as_str() {
        "off" => Ok(false),
        "on" => Ok(true),
        other => Err(ConfigError::unknown(NAME, other, "off or on")),
    }
}

/// The attribute by which items expire, unless the variable is empty or not there.
fn ttl_attribute<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
    schema: Option<&TableSchema>,
) -> Result<Option<String>, ConfigError> {
    const NAME: &str = "TTL_ATTRIBUTE";
    let Some(attribute) = variables.lookup(NAME).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let is_key = schema.is_some_and(|schema| {
        [&schema.partition_key_name, &schema.sort_key_name].contains(&&attribute)
    });
    if is_key || attribute.starts_with(RESERVED_PREFIX) {
        let problem = format!("is {attribute:?}, an attribute that clients cannot set");
        return Err(ConfigError::new(NAME, problem));
    }
    Ok(Some(attribute))
}

fn mode(name: &'static str, text: &str) -> Result<ScalingMode, ConfigError> {
    text.parse().map_err(|_| ConfigError::unknown(name, text, "off, dry-run or on"))
}

fn one_of(units: u32) -> NonZeroU32 {
    NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN)
}
