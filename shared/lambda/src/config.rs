use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use dynashard_aws::{
    CloudWatchHeat, DynamoItemStore, DynamoMetadataStore, OsEntropy, ServerClock, SystemClock,
    ThrottleAlarms,
};
use dynashard_core::{
    CapacityPolicy, CapacityScaling, CapacityUnits, Directory, PartitionLimits, Reader,
    ScalingMode, ScalingPolicy, Settings, ShrinkPolicy, TableSchema, Writer,
};
use dynashard_keys::{Placement, RESERVED_PREFIX, Separator, ShardCount, SortKeyType};
use thiserror::Error;

use crate::metrics::{HeatTelemetry, Metrics};
use crate::{Admission, Grants};

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
    /// The rest, as the core takes it.
    pub settings: Settings,
}

/// The stores and the clock in AWS.
type AwsDirectory = Directory<DynamoMetadataStore, SystemClock, OsEntropy>;

/// A reader over them.
type AwsReader = Reader<DynamoItemStore, DynamoMetadataStore, SystemClock, OsEntropy>;

/// A writer over them.
type AwsWriter = Writer<DynamoItemStore, DynamoMetadataStore, SystemClock, OsEntropy>;

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
}

impl Config {
    /// Reads the variables that `lookup` finds.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let settings = settings_from_variables(&lookup)?;
        let is_verified = is_request_lifetime_verified(&lookup)?;
        // Only a server that stands in for AWS is reached without encryption.
        let is_stand_in = [DYNAMO_DB_ENDPOINT, "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"]
            .iter()
            .any(|name| lookup(name).is_some_and(|url| url.starts_with("http://")));
        if !is_stand_in && settings.request_lifetime < SHORTEST_REQUEST_LIFETIME {
            let problem = format!(
                "is {}, and DynamoDB executes requests for longer: set the parameter \
                 RequestLifetimeSecs to at least {}, or to {} if `dynashard doctor` says so",
                settings.request_lifetime.as_secs(),
                UNVERIFIED_REQUEST_LIFETIME.as_secs(),
                SHORTEST_REQUEST_LIFETIME.as_secs(),
            );
            return Err(ConfigError { name: "REQUEST_LIFETIME_SECS", problem });
        }
        if !is_stand_in && !is_verified && settings.request_lifetime < UNVERIFIED_REQUEST_LIFETIME {
            let problem = format!(
                "is {} and not verified: run `dynashard doctor`, and set the parameter \
                 RequestLifetimeSecs to what it says and RequestLifetimeVerified to yes, or \
                 RequestLifetimeSecs to at least {}",
                settings.request_lifetime.as_secs(),
                UNVERIFIED_REQUEST_LIFETIME.as_secs(),
            );
            return Err(ConfigError { name: "REQUEST_LIFETIME_SECS", problem });
        }
        let variables = Variables { lookup };
        Ok(Self {
            main_table: variables.required("MAIN_TABLE")?,
            metadata_table: variables.required("METADATA_TABLE")?,
            function_name: variables.required("AWS_LAMBDA_FUNCTION_NAME")?,
            dynamodb_endpoint: dynamodb_endpoint(&variables)?,
            alarms: variables
                .optional("ALARM_NAME")
                .zip(variables.optional("READ_ALARM_NAME"))
                .map(|(writes, reads)| ThrottleAlarms { writes, reads }),
            capacity: capacity(&variables)?,
            capacity_alarms: capacity_alarms(&variables)?,
            admission: Admission {
                grants: variables.parsed_or("KEY_GRANTS", Grants::default())?,
                max_body_bytes: variables.parsed_or("MAX_BODY_BYTES", usize::MAX)?,
            },
            settings,
        })
    }

    /// The metrics of this function.
    pub fn metrics(&self) -> Metrics {
        Metrics::to_stdout(self.function_name.clone())
    }

    /// The stores of this configuration in DynamoDB, and the clock that they share, for a function that
    /// writes. Made once, when an execution environment starts.
    pub async fn connect(self) -> (DynamoItemStore, AwsDirectory) {
        let (items, directory) = self.connect_unpinned().await;
        (items, directory.pinning())
    }

    /// As [`Config::connect`], for the function that reads. It changes nothing in the metadata table but the
    /// ledgers.
    pub async fn connect_reader(self) -> AwsReader {
        let metrics = self.metrics();
        let (items, directory) = self.connect_unpinned().await;
        let telemetry = HeatTelemetry::new(metrics, directory.clock().clone());
        Reader::new(items, directory).with_telemetry(Arc::new(telemetry))
    }

    async fn connect_unpinned(self) -> (DynamoItemStore, AwsDirectory) {
        let server_clock = ServerClock::default();
        let endpoint = self.dynamodb_endpoint.as_deref();
        let client = dynashard_aws::connect(endpoint, server_clock.clone()).await;
        let clock = SystemClock::new(server_clock);
        let (main_table, schema) = (self.main_table.clone(), self.settings.schema.clone());
        let items = DynamoItemStore::new(client.clone(), clock.clone(), main_table, schema);
        (items, self.directory(client, clock))
    }

    /// As [`Config::connect`], for the function that writes, whose telemetry goes into its metrics.
    pub async fn connect_writer(self) -> AwsWriter {
        let metrics = self.metrics();
        let (items, directory) = self.connect().await;
        let telemetry = HeatTelemetry::new(metrics, directory.clock().clone());
        Writer::new(items, directory).with_telemetry(Arc::new(telemetry))
    }

    /// As [`Config::connect`], for the function that acts on throttles: CloudWatch comes in place of
    /// the items.
    pub async fn connect_to_heat(self) -> Result<(CloudWatchHeat, AwsDirectory), ConfigError> {
        let missing = || ConfigError {
            name: "ALARM_NAME or READ_ALARM_NAME",
            problem: "is missing".to_owned(),
        };
        let alarms = self.alarms.clone().ok_or_else(missing)?;
        let server_clock = ServerClock::default();
        let endpoint = self.dynamodb_endpoint.as_deref();
        let (dynamodb, cloudwatch) =
            dynashard_aws::connect_with_cloudwatch(endpoint, server_clock.clone()).await;
        let clock = SystemClock::new(server_clock);
        let heat =
            CloudWatchHeat::new(dynamodb.clone(), cloudwatch, self.main_table.clone(), alarms);
        Ok((heat, self.directory(dynamodb, clock).pinning()))
    }

    fn directory(self, client: dynashard_aws::Client, clock: SystemClock) -> AwsDirectory {
        let key_name = self.settings.schema.partition_key_name.clone();
        let metadata = DynamoMetadataStore::new(client, self.metadata_table, key_name);
        Directory::new(metadata, clock, OsEntropy, self.settings)
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
pub fn settings_from_variables(
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Settings, ConfigError> {
    let variables = Variables { lookup };
    let schema = TableSchema {
        partition_key_name: variables.required("PARTITION_KEY_NAME")?,
        sort_key_name: variables.required("SORT_KEY_NAME")?,
        sort_key_type: variables.parsed::<SortKeyType>("SORT_KEY_TYPE")?,
        separator: variables.parsed::<Separator>("SEPARATOR")?,
    };
    schema.check().map_err(|e| ConfigError {
        name: "PARTITION_KEY_NAME or SORT_KEY_NAME",
        problem: format!("is wrong: {}", e.message()),
    })?;
    let max_shards = variables.parsed::<u32>("MAX_SHARDS")?;
    let lease_secs = variables.parsed::<u64>("LEASE_SECS")?;
    let longest_secs = LONGEST_LEASE.as_secs();
    if !(1..=longest_secs).contains(&lease_secs) {
        let problem = format!("is {lease_secs}; it must be between 1 and {longest_secs}");
        return Err(ConfigError { name: "LEASE_SECS", problem });
    }
    let request_lifetime_secs = variables.parsed::<u64>("REQUEST_LIFETIME_SECS")?;
    let longest_secs = LONGEST_REQUEST_LIFETIME.as_secs();
    if !(1..=longest_secs).contains(&request_lifetime_secs) {
        let problem =
            format!("is {request_lifetime_secs}; it must be between 1 and {longest_secs}");
        return Err(ConfigError { name: "REQUEST_LIFETIME_SECS", problem });
    }
    let scaling = ScalingPolicy {
        mode: mode("SCALING_MODE", &variables.required("SCALING_MODE")?)?,
        writers: match variables.required("WRITER_SCALING")?.as_str() {
            "off" => false,
            "on" => true,
            other => return Err(unknown("WRITER_SCALING", other, "off or on")),
        },
        cooldown: Duration::from_secs(variables.parsed("COOLDOWN_SECS")?),
    };
    let defaults = Settings::default();
    let shrink = ShrinkPolicy {
        mode: match variables.optional("SHRINK_MODE") {
            Some(text) => mode("SHRINK_MODE", &text)?,
            None => defaults.shrink.mode,
        },
        after: Duration::from_secs(
            variables.parsed_or("SHRINK_AFTER_SECS", defaults.shrink.after.as_secs())?,
        ),
        payback: Some(variables.parsed_or::<u64>("SHRINK_PAYBACK_DAYS", 0)?)
            .filter(|days| *days > 0)
            .map(|days| Duration::from_hours(24 * days)),
    };
    let partition = PartitionLimits {
        write_units: variables
            .parsed_or::<NonZeroU32>(
                "PARTITION_WRITE_UNITS",
                one_of(defaults.partition.write_units),
            )?
            .get(),
        read_units: variables
            .parsed_or::<NonZeroU32>("PARTITION_READ_UNITS", one_of(defaults.partition.read_units))?
            .get(),
    };
    Ok(Settings {
        placement: variables.parsed::<Placement>("PLACEMENT")?,
        lease_term: Duration::from_secs(lease_secs),
        request_lifetime: Duration::from_secs(request_lifetime_secs),
        max_shards: ShardCount::new(max_shards)
            .map_err(|e| ConfigError { name: "MAX_SHARDS", problem: format!("is wrong: {e}") })?,
        grow_keys: variables.parsed("GROW_KEYS")?,
        ttl_attribute: ttl_attribute(&variables, &schema)?,
        mover_wcu: variables.parsed("MOVER_WRITE_UNITS")?,
        scaling,
        shrink,
        partition,
        schema,
        ..defaults
    })
}

/// The attribute by which items expire, unless the variable is empty or not there.
fn ttl_attribute<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
    schema: &TableSchema,
) -> Result<Option<String>, ConfigError> {
    const NAME: &str = "TTL_ATTRIBUTE";
    let Some(attribute) = (variables.lookup)(NAME).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let is_key = [&schema.partition_key_name, &schema.sort_key_name].contains(&&attribute);
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

/// Who raises the capacity of the main table. A function without the variable does not.
fn capacity<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<CapacityPolicy, ConfigError> {
    let scaling = capacity_scaling(variables)?;
    if scaling != CapacityScaling::Function {
        return Ok(CapacityPolicy { scaling, ..CapacityPolicy::default() });
    }
    let units = |name| match variables.parsed::<u64>(name)? {
        0 => Err(ConfigError { name, problem: "is 0; it must be at least 1".to_owned() }),
        units => Ok(units),
    };
    let most = CapacityUnits {
        reads: units("MAX_READ_CAPACITY_UNITS")?,
        writes: units("MAX_WRITE_CAPACITY_UNITS")?,
    };
    Ok(CapacityPolicy { scaling, most })
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
    if capacity_scaling(variables)? != CapacityScaling::Function {
        return Ok(Vec::new());
    }
    let names = variables.required("CAPACITY_ALARM_NAMES")?;
    Ok(names.split(',').map(|name| name.trim().to_owned()).collect())
}

fn unknown(name: &'static str, value: &str, known: &str) -> ConfigError {
    ConfigError { name, problem: format!("is {value:?}; it must be {known}") }
}

struct Variables<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
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
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn with(name: &'static str, value: &str) -> Result<Config, ConfigError> {
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
            assert!(of(wrong).is_err_and(|error| error.name() == "TTL_ATTRIBUTE"), "{wrong}");
        }
    }

    fn with_capacity(name: &'static str, value: &str) -> Result<Config, ConfigError> {
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
            let error = with_capacity(name, value).expect_err(name);
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
        ] {
            let error = with(name, value).expect_err(name);
            assert!(error.to_string().contains(name), "{error}");
        }
        for too_short in ["0", "1801", "20", "959"] {
            let error = with("REQUEST_LIFETIME_SECS", too_short).expect_err("on AWS");
            assert!(error.to_string().contains("REQUEST_LIFETIME_SECS"), "{error}");
        }
        assert!(with("PARTITION_KEY_NAME", "_ds_x").is_err());
        assert!(with("PARTITION_KEY_NAME", "rev").is_err());
        assert!(with("SORT_KEY_NAME", "pk").is_err());
    }
}
