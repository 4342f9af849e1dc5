//! What the template passes to the functions in their environment.

#[cfg(test)]
mod tests;

use dynashard_api::grants::Grants;
use dynashard_api::settings::{
    ConfigError, ConfigErrors, Variables, is_request_lifetime_verified, read_settings,
    shortest_lifetime,
};
use dynashard_aws::ThrottleAlarms;
use dynashard_core::{CapacityPolicy, CapacityScaling, CapacityUnits, ItemCacheLimits, Settings};
use tracing_subscriber::filter::LevelFilter;

use crate::admission::KEYS_PER_GRANT;
use crate::{Admission, LogKeys};

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
    /// `KEY_GRANTS` and `MAX_BODY_BYTES`: what a request has to be to be answered. And `KEYS_PER_GRANT`, which only the
    /// scale function has.
    pub admission: Admission,
    /// `LOG_LEVEL`: the least severe lines that are logged.
    pub log_level: LevelFilter,
    /// `LOG_KEYS` and `LOG_KEY_SECRET`: how keys appear in the log.
    pub log_keys: LogKeys,
    /// The rest, as the core takes it.
    pub settings: Settings,
}

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
        variables.keep(check_request_lifetime(variables, settings.as_ref()));
        let memory = variables.parsed_or("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", u64::MAX >> 20);
        let memory = variables.keep(memory);
        let main_table = variables.keep(variables.required("MAIN_TABLE"));
        let metadata_table = variables.keep(variables.required("METADATA_TABLE"));
        let function_name = variables.keep(variables.required("AWS_LAMBDA_FUNCTION_NAME"));
        let dynamodb_endpoint = variables.keep(dynamodb_endpoint(variables));
        let capacity = capacity(variables);
        let capacity_alarms = variables.keep(capacity_alarms(variables));
        let grants = variables.keep(variables.parsed_or("KEY_GRANTS", Grants::default()));
        let keys_per_grant = variables.keep(variables.parsed_or("KEYS_PER_GRANT", KEYS_PER_GRANT));
        let max_body_bytes = variables.keep(variables.parsed_or("MAX_BODY_BYTES", usize::MAX));
        let log_level = variables.keep(log_level(variables));
        let log_keys = variables.keep(log_keys(variables));
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
            admission: Admission {
                grants: grants?,
                keys_per_grant: keys_per_grant?,
                max_body_bytes: max_body_bytes?,
            },
            log_level: log_level?,
            log_keys: log_keys?,
            settings: with_room(settings?, memory?),
        })
    }
}

/// On AWS requests live longer than on one machine, and how long is known or measured.
fn check_request_lifetime<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
    settings: Option<&Settings>,
) -> Result<(), ConfigError> {
    let is_verified = is_request_lifetime_verified(|name| variables.lookup(name))?;
    // Only a server that stands in for AWS is reached without encryption.
    let is_stand_in = [DYNAMO_DB_ENDPOINT, "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"]
        .iter()
        .any(|name| variables.lookup(name).is_some_and(|url| url.starts_with("http://")));
    let Some(settings) = settings.filter(|_| !is_stand_in) else { return Ok(()) };
    let Settings { signature_age: age, request_lifetime: lifetime, .. } = *settings;
    let [verified, unverified] = [true, false].map(|is| shortest_lifetime(age, is).as_secs());
    let secs = lifetime.as_secs();
    let problem = if secs < verified {
        format!(
            "is {secs}, and DynamoDB executes requests for longer: set the parameter \
             RequestLifetimeSecs to at least {unverified}, or to {verified} if `dynashard doctor` says so"
        )
    } else if !is_verified && secs < unverified {
        format!(
            "is {secs} and not verified: run `dynashard doctor`, and set the parameter \
             RequestLifetimeSecs to what it says and RequestLifetimeVerified to yes, or \
             RequestLifetimeSecs to at least {unverified}"
        )
    } else {
        return Ok(());
    };
    Err(ConfigError::new("REQUEST_LIFETIME_SECS", problem))
}

/// What is kept of items leaves room for answers: a function that runs out of memory is ended in the middle of one. So half of these
/// megabytes counts at most, whatever the parameter says: each may be changed alone, and all reads would fail for a cache.
fn with_room(settings: Settings, megabytes: u64) -> Settings {
    let most = megabytes << 19;
    let item_cache = settings.item_cache;
    let item_cache =
        item_cache.map(|limits| ItemCacheLimits { bytes: limits.bytes.min(most), ..limits });
    Settings { item_cache, ..settings }
}

/// Which lines are logged. Lambda's own filter (`AWS_LAMBDA_LOG_LEVEL`) lets everything pass: it takes metrics for lines
/// of `INFO`.
fn log_level<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<LevelFilter, ConfigError> {
    const NAME: &str = "LOG_LEVEL";
    match variables.optional(NAME).as_deref() {
        Some("DEBUG") => Ok(LevelFilter::DEBUG),
        None | Some("INFO") => Ok(LevelFilter::INFO),
        Some("WARN") => Ok(LevelFilter::WARN),
        Some("ERROR") => Ok(LevelFilter::ERROR),
        Some(other) => Err(ConfigError::unknown(NAME, other, "DEBUG, INFO, WARN or ERROR")),
    }
}

/// How keys appear in the log.
fn log_keys<F: Fn(&str) -> Option<String>>(
    variables: &Variables<F>,
) -> Result<LogKeys, ConfigError> {
    const NAME: &str = "LOG_KEYS";
    match variables.required(NAME)?.as_str() {
        "plain" => Ok(LogKeys::Plain),
        "digest" => variables.required("LOG_KEY_SECRET").map(LogKeys::Digest),
        other => Err(ConfigError::unknown(NAME, other, "digest or plain")),
    }
}

/// The alarm on throttled writes.
pub(crate) const ALARM_NAME: &str = "ALARM_NAME";

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
        return Err(ConfigError::unknown(
            DYNAMO_DB_ENDPOINT,
            other,
            "a URL of http or https, or empty",
        ));
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
        0 => Err(ConfigError::new(name, "is 0; it must be at least 1")),
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
    match variables.lookup(NAME).as_deref() {
        None | Some("" | "off") => Ok(CapacityScaling::Off),
        Some("function") => Ok(CapacityScaling::Function),
        Some("auto-scaling") => Ok(CapacityScaling::AutoScaling),
        Some(other) => Err(ConfigError::unknown(NAME, other, "off, function or auto-scaling")),
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
