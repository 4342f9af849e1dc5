use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use dynashard_aws::ThrottleAlarms;
use dynashard_core::{
    CapacityPolicy, CapacityScaling, CapacityUnits, PartitionLimits, ScalingMode, ScalingPolicy,
    Settings, ShrinkPolicy, TableSchema,
};
use dynashard_keys::{Placement, RESERVED_PREFIX, Separator, ShardCount, SortKeyType};
use thiserror::Error;

use crate::{Admission, Grants, LogKeys};

/// What the template passes to every function in its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `MAIN_TABLE`: the table of the items.
    pub main_table: String,
    /// `METADATA_TABLE`: the table of the collections.
    pub metadata_table: String,
    /// `AWS_LAMBDA_FUNCTION_NAME`: the function's name, which Lambda sets.
    pub function_name: String,
    /// `DYNAMO_DB_ENDPOINT`: the URL of a server that stands in for DynamoDB. A stack on AWS has none.
    pub dynamodb_endpoint: Option<String>,
    /// `ALARM_NAME` and `READ_ALARM_NAME`: the alarms on throttles of the main table. Only the scale function
    /// has them.
    pub alarms: Option<ThrottleAlarms>,
    /// `CAPACITY_SCALING`, `MAX_READ_CAPACITY_UNITS` and `MAX_WRITE_CAPACITY_UNITS`: who raises the
    /// capacity of the main table, and how far. Only the scale function has them.
    pub capacity: CapacityPolicy,
    /// `CAPACITY_ALARM_NAMES`: the alarms on throttles by that capacity. Only the scale function has
    /// them, if it raises the capacity.
    pub capacity_alarms: Vec<String>,
    /// `KEY_GRANTS` and `MAX_BODY_BYTES`: what a request has to be to be answered.
    pub admission: Admission,
    /// `LOG_KEYS` and `LOG_KEY_SECRET`: how keys appear in the log.
    pub log_keys: LogKeys,
    /// `TRACING` and `AWS_XRAY_DAEMON_ADDRESS`, which Lambda sets: where traces go, if they are wanted and
    /// somebody takes them.
    pub trace_daemon: Option<SocketAddr>,
    /// The rest, as the core takes it.
    pub settings: Settings,
}

/// A variable that is missing or wrong. The stack has to be deployed again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the environment variable {name} {problem}")]
pub struct ConfigError {
    name: &'static str,
    problem: String,
}

impl ConfigError {
    /// The variable.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is wrong with it, as in "is missing".
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// A function that acts on alarms was told of none.
    pub(crate) fn no_alarm() -> Self {
        Self { name: ALARM_NAME, problem: "is missing".to_owned() }
    }
}

/// Every variable that is missing or wrong; at least one is. As text it has a line for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Each of them, in the order in which the variables were read.
    pub fn each(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let break_before = if at == 0 { "" } else { "\n" };
            write!(f, "{break_before}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl Config {
    /// Reads the variables that `lookup` finds.
    ///
    /// # Errors
    /// Whatever is missing or wrong, all of it.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigErrors> {
        let variables = Variables::new(lookup);
        Self::read(&variables).ok_or_else(|| variables.wrong())
    }

    /// As [`Config::from_variables`], for the function that acts on alarms: it must have their names.
    ///
    /// # Errors
    /// Whatever is missing or wrong, all of it.
    pub fn with_alarms(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigErrors> {
        let variables = Variables::new(lookup);
        for name in [ALARM_NAME, READ_ALARM_NAME] {
            variables.keep(variables.required(name));
        }
        Self::read(&variables).ok_or_else(|| variables.wrong())
    }

    /// `None` if something is wrong with a variable, which `variables` then know.
    fn read<F: Fn(&str) -> Option<String>>(variables: &Variables<F>) -> Option<Self> {
        let settings = read_settings(variables);
        let lifetime = settings.as_ref().map(|settings| settings.request_lifetime);
        variables.keep(check_request_lifetime(variables, lifetime));
        let main_table = variables.keep(variables.required("MAIN_TABLE"));
        let metadata_table = variables.keep(variables.required("METADATA_TABLE"));
        let function_name = variables.keep(variables.required("AWS_LAMBDA_FUNCTION_NAME"));
        let dynamodb_endpoint = variables.keep(dynamodb_endpoint(variables));
        let capacity = capacity(variables);
        let capacity_alarms = variables.keep(capacity_alarms(variables));
        let grants = variables.keep(variables.parsed_or("KEY_GRANTS", Grants::default()));
        let max_body_bytes = variables.keep(variables.parsed_or("MAX_BODY_BYTES", usize::MAX));
        let log_keys = variables.keep(log_keys(variables));
        let trace_daemon = variables.keep(trace_daemon(variables));
        if variables.is_any_wrong() {
            return None;
        }
        Some(Self {
            main_table: main_table?,
            metadata_table: metadata_table?,
            function_name: function_name?,
            dynamodb_endpoint: dynamodb_endpoint?,
            alarms: variables
                .optional(ALARM_NAME)
                .zip(variables.optional(READ_ALARM_NAME))
                .map(|(writes, reads)| ThrottleAlarms { writes, reads }),
            capacity: capacity?,
            capacity_alarms: capacity_alarms?,
            admission: Admission { grants: grants?, max_body_bytes: max_body_bytes? },
            log_keys: log_keys?,
            trace_daemon: trace_daemon?,
            settings: settings?,
        })
    }
}

/// The shortest `RequestLifetimeSecs` that needs no measurement: the longest time after its signing
/// that DynamoDB is known to execute a request, with a minute to spare (AWS Identity and Access
/// Management User Guide, "Troubleshoot Signature Version 4 signed requests for AWS APIs": a
/// signature is refused after 15 minutes at the latest).
pub const UNVERIFIED_REQUEST_LIFETIME: Duration = Duration::from_mins(16);

/// The shortest `RequestLifetimeSecs` on AWS, verified or not: the shortest time for which DynamoDB is
/// known to take a signature, five minutes, with a minute to spare.
pub const SHORTEST_REQUEST_LIFETIME: Duration = Duration::from_mins(6);

/// The longest `LeaseSecs`, which is the parameter's maximum.
pub const LONGEST_LEASE: Duration = Duration::from_mins(1);

/// The longest `RequestLifetimeSecs`, which is the parameter's maximum.
pub const LONGEST_REQUEST_LIFETIME: Duration = Duration::from_mins(30);

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
        Some(other) => Err(unknown(NAME, other, "yes or no")),
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

fn read_settings<F: Fn(&str) -> Option<String>>(variables: &Variables<F>) -> Option<Settings> {
    let schema = schema(variables);
    let lease_secs = variables.keep(within("LEASE_SECS", LONGEST_LEASE, variables));
    let request_lifetime_secs =
        variables.keep(within("REQUEST_LIFETIME_SECS", LONGEST_REQUEST_LIFETIME, variables));
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
        ShardCount::new(count).map_err(|error| ConfigError {
            name: "MAX_SHARDS",
            problem: format!("is wrong: {error}"),
        })
    }));
    let grow_keys = variables.keep(variables.parsed("GROW_KEYS"));
    let ttl_attribute = variables.keep(ttl_attribute(variables, schema.as_ref()));
    let mover_wcu = variables.keep(variables.parsed("MOVER_WRITE_UNITS"));
    Some(Settings {
        placement: placement?,
        lease_term: Duration::from_secs(lease_secs?),
        request_lifetime: Duration::from_secs(request_lifetime_secs?),
        max_shards: max_shards?,
        grow_keys: grow_keys?,
        ttl_attribute: ttl_attribute?,
        mover_wcu: mover_wcu?,
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
        ..defaults
    })
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
    let checked = schema.check().map_err(|error| ConfigError {
        name: "PARTITION_KEY_NAME or SORT_KEY_NAME",
        problem: format!("is wrong: {}", error.message()),
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
    Err(ConfigError { name, problem })
}

fn writer_scaling<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<bool, ConfigError> {
    const NAME: &str = "WRITER_SCALING";
    match variables.required(NAME)?.as_str() {
        "off" => Ok(false),
        "on" => Ok(true),
        other => Err(unknown(NAME, other, "off or on")),
    }
}

/// On AWS requests live longer than on one machine, and how long is known or measured.
fn check_request_lifetime<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
    lifetime: Option<Duration>,
) -> Result<(), ConfigError> {
    let is_verified = is_request_lifetime_verified(&variables.lookup)?;
    // Only a server that stands in for AWS is reached without encryption.
    let is_stand_in = [DYNAMO_DB_ENDPOINT, "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"]
        .iter()
        .any(|name| (variables.lookup)(name).is_some_and(|url| url.starts_with("http://")));
    let Some(lifetime) = lifetime.filter(|_| !is_stand_in) else { return Ok(()) };
    let (secs, longest, shortest) = (
        lifetime.as_secs(),
        UNVERIFIED_REQUEST_LIFETIME.as_secs(),
        SHORTEST_REQUEST_LIFETIME.as_secs(),
    );
    let problem = if lifetime < SHORTEST_REQUEST_LIFETIME {
        format!(
            "is {secs}, and DynamoDB executes requests for longer: set the parameter \
             RequestLifetimeSecs to at least {longest}, or to {shortest} if `dynashard doctor` says so"
        )
    } else if !is_verified && lifetime < UNVERIFIED_REQUEST_LIFETIME {
        format!(
            "is {secs} and not verified: run `dynashard doctor`, and set the parameter \
             RequestLifetimeSecs to what it says and RequestLifetimeVerified to yes, or \
             RequestLifetimeSecs to at least {longest}"
        )
    } else {
        return Ok(());
    };
    Err(ConfigError { name: "REQUEST_LIFETIME_SECS", problem })
}

/// How keys appear in the log.
fn log_keys<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<LogKeys, ConfigError> {
    const NAME: &str = "LOG_KEYS";
    match variables.required(NAME)?.as_str() {
        "plain" => Ok(LogKeys::Plain),
        "digest" => variables.required("LOG_KEY_SECRET").map(LogKeys::Digest),
        other => Err(unknown(NAME, other, "digest or plain")),
    }
}

/// Where traces go. Lambda says where its daemon listens. Without one, or with one that is said in another way,
/// nothing is traced: requests are not to fail for that.
fn trace_daemon<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<Option<SocketAddr>, ConfigError> {
    const NAME: &str = "TRACING";
    const DAEMON: &str = "AWS_XRAY_DAEMON_ADDRESS";
    match variables.optional(NAME).as_deref() {
        Some("xray") => Ok(variables.optional(DAEMON).and_then(|address| address.parse().ok())),
        None | Some("off") => Ok(None),
        Some(other) => Err(unknown(NAME, other, "off or xray")),
    }
}

/// The attribute by which items expire, unless the variable is empty or not there.
fn ttl_attribute<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
    schema: Option<&TableSchema>,
) -> Result<Option<String>, ConfigError> {
    const NAME: &str = "TTL_ATTRIBUTE";
    let Some(attribute) = (variables.lookup)(NAME).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let is_key = schema.is_some_and(|schema| {
        [&schema.partition_key_name, &schema.sort_key_name].contains(&&attribute)
    });
    if is_key || attribute.starts_with(RESERVED_PREFIX) {
        let problem = format!("is {attribute:?}, an attribute that clients cannot set");
        return Err(ConfigError { name: NAME, problem });
    }
    Ok(Some(attribute))
}

fn mode(name: &'static str, text: &str) -> Result<ScalingMode, ConfigError> {
    match text {
        "off" => Ok(ScalingMode::Off),
        "dry-run" => Ok(ScalingMode::DryRun),
        "on" => Ok(ScalingMode::On),
        other => Err(unknown(name, other, "off, dry-run or on")),
    }
}

fn one_of(units: u32) -> NonZeroU32 {
    NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN)
}

/// The alarm on throttled writes.
const ALARM_NAME: &str = "ALARM_NAME";

/// The alarm on throttled reads.
const READ_ALARM_NAME: &str = "READ_ALARM_NAME";

/// The variable of the parameter `DynamoDbEndpoint`.
const DYNAMO_DB_ENDPOINT: &str = "DYNAMO_DB_ENDPOINT";

fn dynamodb_endpoint<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<Option<String>, ConfigError> {
    let endpoint = variables.optional(DYNAMO_DB_ENDPOINT);
    let is_url = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    if let Some(other) = endpoint.as_ref().filter(|endpoint| !is_url(endpoint)) {
        return Err(unknown(DYNAMO_DB_ENDPOINT, other, "a URL of http or https, or empty"));
    }
    Ok(endpoint)
}

/// Who raises the capacity of the main table, and how far. A function without the variable does not.
fn capacity<F: Fn(&str) -> Option<String>>(variables: &Variables<F>) -> Option<CapacityPolicy> {
    let scaling = variables.keep(capacity_scaling(variables))?;
    if scaling != CapacityScaling::Function {
        return Some(CapacityPolicy { scaling, ..CapacityPolicy::default() });
    }
    let units = |name| match variables.parsed::<u64>(name)? {
        0 => Err(ConfigError { name, problem: "is 0; it must be at least 1".to_owned() }),
        units => Ok(units),
    };
    let reads = variables.keep(units("MAX_READ_CAPACITY_UNITS"));
    let writes = variables.keep(units("MAX_WRITE_CAPACITY_UNITS"));
    Some(CapacityPolicy { scaling, most: CapacityUnits { reads: reads?, writes: writes? } })
}

fn capacity_scaling<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<CapacityScaling, ConfigError> {
    const NAME: &str = "CAPACITY_SCALING";
    match (variables.lookup)(NAME).as_deref() {
        None | Some("" | "off") => Ok(CapacityScaling::Off),
        Some("function") => Ok(CapacityScaling::Function),
        Some("auto-scaling") => Ok(CapacityScaling::AutoScaling),
        Some(other) => Err(unknown(NAME, other, "off, function or auto-scaling")),
    }
}

/// The names of the alarms on the capacity, separated by commas.
fn capacity_alarms<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<Vec<String>, ConfigError> {
    // What is wrong with the variable itself has been said.
    if !matches!(capacity_scaling(variables), Ok(CapacityScaling::Function)) {
        return Ok(Vec::new());
    }
    let names = variables.required("CAPACITY_ALARM_NAMES")?;
    Ok(names.split(',').map(|name| name.trim().to_owned()).collect())
}

fn unknown(name: &'static str, value: &str, known: &str) -> ConfigError {
    ConfigError { name, problem: format!("is {value:?}; it must be {known}") }
}

/// The variables, and what was found wrong with those that were read.
struct Variables<F> {
    lookup: F,
    wrong: RefCell<Vec<ConfigError>>,
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn new(lookup: F) -> Self {
        Self { lookup, wrong: RefCell::default() }
    }

    /// Notes what is wrong, so that the other variables can be read before anything is said of it.
    fn keep<T>(&self, read: Result<T, ConfigError>) -> Option<T> {
        read.map_err(|error| self.wrong.borrow_mut().push(error)).ok()
    }

    fn is_any_wrong(&self) -> bool {
        !self.wrong.borrow().is_empty()
    }

    fn wrong(&self) -> ConfigErrors {
        ConfigErrors(self.wrong.borrow().clone())
    }

    /// What the variable is set to. Stacks that were deployed before there was such a parameter do not
    /// have it.
    fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    fn parsed_or<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &'static str,
        default: T,
    ) -> Result<T, ConfigError> {
        if self.optional(name).is_some() { self.parsed(name) } else { Ok(default) }
    }

    fn required(&self, name: &'static str) -> Result<String, ConfigError> {
        (self.lookup)(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| ConfigError { name, problem: "is missing".to_owned() })
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &'static str,
    ) -> Result<T, ConfigError> {
        self.required(name)?
            .parse()
            .map_err(|e| ConfigError { name, problem: format!("is wrong: {e}") })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "MAIN_TABLE" => "MainTable",
            "METADATA_TABLE" => "MetadataTable",
            "PARTITION_KEY_NAME" => "pk",
            "SORT_KEY_NAME" => "sk",
            "SORT_KEY_TYPE" => "S",
            "SEPARATOR" => "#~",
            "GROW_KEYS" => "*",
            "PLACEMENT" => "xxh64",
            "LEASE_SECS" => "5",
            "REQUEST_LIFETIME_SECS" => "960",
            "REQUEST_LIFETIME_VERIFIED" => "no",
            "MOVER_WRITE_UNITS" => "8000",
            "MAX_SHARDS" => "256",
            "SCALING_MODE" | "WRITER_SCALING" => "on",
            "COOLDOWN_SECS" => "60",
            "AWS_LAMBDA_FUNCTION_NAME" => "stack-WriteFunction-1",
            "LOG_KEYS" => "digest",
            "LOG_KEY_SECRET" => "a secret of the stack",
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// The only variable that is wrong.
    fn only(errors: &ConfigErrors) -> &ConfigError {
        let mut errors = errors.each();
        let only = errors.next().expect("one at least");
        assert_eq!(errors.next(), None, "and no other than {only}");
        only
    }

    fn with(name: &'static str, value: &str) -> Result<Config, ConfigErrors> {
        Config::from_variables(
            |asked| {
                if asked == name { Some(value.to_owned()) } else { variable(asked) }
            },
        )
    }

    #[test]
    fn the_templates_defaults_are_the_cores_defaults() {
        let config = Config::from_variables(variable).expect("complete");
        assert_eq!(config.settings, Settings::default());
    }

    #[test]
    fn requests_may_live_shorter_where_dynamodb_is_not_that_of_aws() {
        let on_this_machine = |asked: &str| match asked {
            "REQUEST_LIFETIME_SECS" => Some("5".to_owned()),
            "AWS_ENDPOINT_URL_DYNAMODB" => Some("http://127.0.0.1:8000".to_owned()),
            asked => variable(asked),
        };
        let config = Config::from_variables(on_this_machine).expect("complete");
        assert_eq!(config.settings.request_lifetime, Duration::from_secs(5));
        let by_parameter = |asked: &str| match asked {
            "REQUEST_LIFETIME_SECS" => Some("5".to_owned()),
            "DYNAMO_DB_ENDPOINT" => Some("http://172.18.0.1:8000".to_owned()),
            asked => variable(asked),
        };
        let config = Config::from_variables(by_parameter).expect("complete");
        assert_eq!(config.settings.request_lifetime, Duration::from_secs(5));
        assert_eq!(config.dynamodb_endpoint.as_deref(), Some("http://172.18.0.1:8000"));
        assert_eq!(with("DYNAMO_DB_ENDPOINT", "").expect("complete").dynamodb_endpoint, None);
    }

    #[test]
    fn requests_may_live_shorter_where_that_was_measured() {
        let measured = |verified: Option<&str>| {
            Config::from_variables(|asked| match asked {
                "REQUEST_LIFETIME_SECS" => Some("360".to_owned()),
                "REQUEST_LIFETIME_VERIFIED" => verified.map(str::to_owned),
                asked => variable(asked),
            })
        };
        let config = measured(Some("yes")).expect("complete");
        assert_eq!(config.settings.request_lifetime, Duration::from_mins(6));
        for unverified in [None, Some(""), Some("no")] {
            let error = measured(unverified).expect_err("on AWS").to_string();
            for part in ["REQUEST_LIFETIME_SECS is 360", "dynashard doctor", "at least 960"] {
                assert!(error.contains(part), "{error}");
            }
        }
        let misspelt = measured(Some("true")).expect_err("neither").to_string();
        assert!(misspelt.contains("REQUEST_LIFETIME_VERIFIED"), "{misspelt}");
        let longer = with("REQUEST_LIFETIME_SECS", "961");
        assert!(longer.is_ok(), "it needs no measurement: {longer:?}");
    }

    #[test]
    fn regression_what_was_verified_could_be_shorter_than_any_window() {
        let of = |secs: &'static str| {
            Config::from_variables(|asked| match asked {
                "REQUEST_LIFETIME_SECS" => Some(secs.to_owned()),
                "REQUEST_LIFETIME_VERIFIED" => Some("yes".to_owned()),
                asked => variable(asked),
            })
        };
        for too_short in ["1", "36", "359"] {
            let error = of(too_short).expect_err("no window is so short").to_string();
            for part in [&format!("REQUEST_LIFETIME_SECS is {too_short}"), "at least 960"] {
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn the_attribute_by_which_items_expire_may_be_left_out() {
        let of = |value| with("TTL_ATTRIBUTE", value).map(|config| config.settings.ttl_attribute);
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("expires"), Ok(Some("expires".to_owned())));
        for wrong in ["pk", "sk", "_ds_v"] {
            assert!(
                of(wrong).is_err_and(|errors| only(&errors).name() == "TTL_ATTRIBUTE"),
                "{wrong}"
            );
        }
    }

    fn with_capacity(name: &'static str, value: &str) -> Result<Config, ConfigErrors> {
        Config::from_variables(|asked| match asked {
            asked if asked == name => Some(value.to_owned()),
            "CAPACITY_SCALING" => Some("function".to_owned()),
            "MAX_READ_CAPACITY_UNITS" => Some("300".to_owned()),
            "MAX_WRITE_CAPACITY_UNITS" => Some("400".to_owned()),
            "CAPACITY_ALARM_NAMES" => Some("stack-write-capacity,stack-read-capacity".to_owned()),
            asked => variable(asked),
        })
    }

    #[test]
    fn the_scale_function_knows_how_far_the_capacity_may_rise() {
        let config = with_capacity("SEPARATOR", "#~").expect("complete");
        let most = CapacityUnits { reads: 300, writes: 400 };
        let expected = CapacityPolicy { scaling: CapacityScaling::Function, most };
        assert_eq!(config.capacity, expected);
        assert_eq!(config.capacity_alarms, ["stack-write-capacity", "stack-read-capacity"]);
        let others = Config::from_variables(variable).expect("complete");
        assert_eq!(others.capacity, CapacityPolicy::default());
        for (value, scaling) in
            [("off", CapacityScaling::Off), ("auto-scaling", CapacityScaling::AutoScaling)]
        {
            let config = with("CAPACITY_SCALING", value).expect("complete without a ceiling");
            assert_eq!((config.capacity.scaling, config.capacity_alarms), (scaling, Vec::new()));
        }
    }

    #[test]
    fn each_wrong_variable_about_the_capacity_is_named() {
        for (name, value, problem) in [
            ("CAPACITY_SCALING", "on", "is \"on\"; it must be off, function or auto-scaling"),
            ("MAX_READ_CAPACITY_UNITS", "", "is missing"),
            ("MAX_READ_CAPACITY_UNITS", "0", "is 0; it must be at least 1"),
            ("MAX_WRITE_CAPACITY_UNITS", "many", "is wrong: invalid digit"),
            ("MAX_WRITE_CAPACITY_UNITS", "-1", "is wrong: invalid digit"),
            ("CAPACITY_ALARM_NAMES", "", "is missing"),
        ] {
            let errors = with_capacity(name, value).expect_err(name);
            let error = only(&errors);
            assert_eq!(error.name(), name);
            assert!(error.problem().starts_with(problem), "{error}");
        }
    }

    #[test]
    fn a_stack_without_the_parameters_admits_what_the_api_lets_in() {
        let config = Config::from_variables(variable).expect("complete");
        assert_eq!(config.admission, Admission::default());
        let config = with("MAX_BODY_BYTES", "1024").expect("complete");
        assert_eq!(config.admission.max_body_bytes, 1_024);
        assert_eq!(with("KEY_GRANTS", "").expect("complete").admission, Admission::default());
        let config = with("KEY_GRANTS", "*={tenant}/*").expect("complete");
        assert_ne!(config.admission.grants, Grants::default());
    }

    #[test]
    fn each_wrong_variable_is_named() {
        for (name, value) in [
            ("MAIN_TABLE", ""),
            ("SORT_KEY_TYPE", "B"),
            ("SEPARATOR", "##"),
            ("PLACEMENT", "md5"),
            ("LEASE_SECS", "0"),
            ("LEASE_SECS", "61"),
            ("LEASE_SECS", "five"),
            ("MAX_SHARDS", "0"),
            ("SCALING_MODE", "maybe"),
            ("WRITER_SCALING", "dry-run"),
            ("COOLDOWN_SECS", "-1"),
            ("AWS_LAMBDA_FUNCTION_NAME", ""),
            ("DYNAMO_DB_ENDPOINT", "127.0.0.1:8000"),
            ("KEY_GRANTS", "acme/*"),
            ("MAX_BODY_BYTES", "many"),
            ("LOG_KEYS", ""),
            ("LOG_KEYS", "hidden"),
            ("LOG_KEY_SECRET", ""),
            ("TRACING", "on"),
        ] {
            let errors = with(name, value).expect_err(name);
            assert_eq!(only(&errors).name(), name, "{errors}");
        }
        for too_short in ["0", "1801", "20", "959"] {
            let error = with("REQUEST_LIFETIME_SECS", too_short).expect_err("on AWS");
            assert!(error.to_string().contains("REQUEST_LIFETIME_SECS"), "{error}");
        }
        assert!(with("PARTITION_KEY_NAME", "_ds_x").is_err());
        assert!(with("PARTITION_KEY_NAME", "rev").is_err());
        assert!(with("SORT_KEY_NAME", "pk").is_err());
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let errors = Config::from_variables(|asked| match asked {
            "MAIN_TABLE" | "PARTITION_KEY_NAME" => None,
            "LEASE_SECS" => Some("5s".to_owned()),
            "SCALING_MODE" => Some("yes".to_owned()),
            "CAPACITY_SCALING" => Some("on".to_owned()),
            "KEY_GRANTS" => Some("acme/*".to_owned()),
            asked => variable(asked),
        });
        let errors = errors.expect_err("six are wrong");
        let named = errors.each().map(ConfigError::name).collect::<BTreeSet<_>>();
        let expected = [
            "CAPACITY_SCALING",
            "KEY_GRANTS",
            "LEASE_SECS",
            "MAIN_TABLE",
            "PARTITION_KEY_NAME",
            "SCALING_MODE",
        ];
        assert_eq!(named.into_iter().collect::<Vec<_>>(), expected, "{errors}");
        assert_eq!(errors.to_string().lines().count(), 6, "a line for each");

        let nothing = Config::with_alarms(|_| None).expect_err("nothing is set");
        for name in ["ALARM_NAME", "READ_ALARM_NAME", "LOG_KEYS", "SEPARATOR"] {
            assert!(nothing.each().any(|error| error.name() == name), "{name}: {nothing}");
        }
    }

    #[test]
    fn traces_go_where_lambda_says_that_its_daemon_listens() {
        let of = |tracing: &'static str, daemon: Option<&'static str>| {
            Config::from_variables(|asked| match asked {
                "TRACING" => Some(tracing.to_owned()),
                "AWS_XRAY_DAEMON_ADDRESS" => daemon.map(str::to_owned),
                asked => variable(asked),
            })
            .map(|config| config.trace_daemon)
        };
        let address = ([169, 254, 100, 1], 2000).into();
        assert_eq!(of("xray", Some("169.254.100.1:2000")), Ok(Some(address)));
        let address = Some("169.254.100.1:2000");
        for (tracing, daemon) in
            [("off", address), ("xray", None), ("", None), ("xray", Some("udp:host"))]
        {
            assert_eq!(of(tracing, daemon), Ok(None), "{tracing} {daemon:?}");
        }
        let errors = of("x-ray", None).expect_err("neither off nor xray");
        assert_eq!(only(&errors).name(), "TRACING");
    }

    #[test]
    fn keys_are_logged_as_they_are_only_where_that_is_asked_for() {
        let secret = "a secret of the stack".to_owned();
        let config = Config::from_variables(variable).expect("complete");
        assert_eq!(config.log_keys, LogKeys::Digest(secret));
        let plain = Config::from_variables(|asked| match asked {
            "LOG_KEYS" => Some("plain".to_owned()),
            "LOG_KEY_SECRET" => None,
            asked => variable(asked),
        });
        assert_eq!(plain.expect("it takes no secret").log_keys, LogKeys::Plain);
    }
}
