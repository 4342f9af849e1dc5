use std::collections::BTreeSet;

use std::time::Duration;

use dynashard_core::{CapacityPolicy, CapacityScaling, ItemCacheLimits};

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
        "LEASE_SECS" => "2",
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
        assert!(of(wrong).is_err_and(|errors| only(&errors).name() == "TTL_ATTRIBUTE"), "{wrong}");
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
    let config = with("KEYS_PER_GRANT", "7").expect("complete");
    assert_eq!(config.admission.keys_per_grant.get(), 7);
    let config = with("MAX_BODY_BYTES", "1024").expect("complete");
    assert_eq!(config.admission.max_body_bytes, 1_024);
    assert_eq!(with("KEY_GRANTS", "").expect("complete").admission, Admission::default());
    let config = with("KEY_GRANTS", "*={tenant}/*").expect("complete");
    assert_ne!(config.admission.grants, Grants::default());
}

#[test]
fn kept_items_leave_a_function_half_of_its_memory() {
    let with = |secs: &'static str, megabytes: &'static str, memory: &'static str| {
        Config::from_variables(|asked| match asked {
            "ITEM_CACHE_SECS" => Some(secs.to_owned()),
            "ITEM_CACHE_MEGABYTES" => Some(megabytes.to_owned()),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE" => Some(memory.to_owned()),
            asked => variable(asked),
        })
    };
    let kept = with("5", "256", "512").expect("half").settings.item_cache;
    let limits = ItemCacheLimits { term: Duration::from_secs(5), bytes: 256 << 20 };
    assert_eq!(kept, Some(limits));
    assert_eq!(with("0", "5120", "512").expect("nothing is kept").settings.item_cache, None);
    // Every read failed for a cache that was too large for the function: each of the parameters may be changed alone.
    assert_eq!(with("5", "5120", "512").expect("half").settings.item_cache, Some(limits));
    for (secs, megabytes, name, part) in [
        ("5", "0", "ITEM_CACHE_MEGABYTES", "is 0; it must be between 1 and 5120"),
        ("3601", "64", "ITEM_CACHE_SECS", "is 3601; it must be between 0 and 3600"),
        ("-1", "64", "ITEM_CACHE_SECS", "is wrong"),
        ("5s", "64", "ITEM_CACHE_SECS", "is wrong"),
    ] {
        let errors = with(secs, megabytes, "512").expect_err(part);
        let error = only(&errors);
        assert!(error.name() == name && error.problem().contains(part), "{error}");
    }
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
        ("INDEX_SHARDS", "257"),
        ("INDEX_SHARDS", "many"),
        ("ALL_MOVERS_WRITE_UNITS", "-1"),
        ("SCALING_MODE", "maybe"),
        ("WRITER_SCALING", "dry-run"),
        ("COOLDOWN_SECS", "-1"),
        ("AWS_LAMBDA_FUNCTION_NAME", ""),
        ("DYNAMO_DB_ENDPOINT", "127.0.0.1:8000"),
        ("KEY_GRANTS", "acme/*"),
        ("MAX_BODY_BYTES", "many"),
        ("KEYS_PER_GRANT", "0"),
        ("LOG_LEVEL", "off"),
        ("LOG_KEYS", ""),
        ("LOG_KEYS", "hidden"),
        ("LOG_KEY_SECRET", ""),
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

#[test]
fn each_log_level_of_the_template_is_known() {
    for (level, expected) in [
        ("DEBUG", LevelFilter::DEBUG),
        ("INFO", LevelFilter::INFO),
        ("WARN", LevelFilter::WARN),
        ("ERROR", LevelFilter::ERROR),
        ("", LevelFilter::INFO),
    ] {
        let config = with("LOG_LEVEL", level).expect("a level");
        assert_eq!(config.log_level, expected, "{level:?}");
    }
}
