use dynashard_keys::PartitionKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn grants(rules: &str) -> Grants {
    rules.parse().unwrap_or_else(|e| panic!("{rules}: {e}"))
}

fn iam(arn: &str) -> Value {
    json!({ "requestContext": { "authorizer": { "iam": { "userArn": arn } } } })
}

fn jwt(claims: &Value) -> Value {
    json!({ "requestContext": { "authorizer": { "jwt": { "claims": claims, "scopes": null } } } })
}

fn authorizer(event: &Value) -> Option<&Value> {
    event.pointer("/requestContext/authorizer")
}

fn may(rules: &str, event: &Value, key: &str) -> bool {
    let granted = grants(rules).of_authorizer(authorizer(event)).expect("a caller");
    match granted.check(&PartitionKey::new(key).expect("a partition key")) {
        Ok(()) => true,
        Err(problem) => {
            assert_eq!((problem.status(), problem.code()), (403, "key_not_granted"));
            false
        }
    }
}

const ORDERS: &str = "arn:aws:sts::123456789012:assumed-role/orders/i-0123456789abcdef0";

#[test]
fn without_rules_every_caller_may_touch_every_key() {
    for rules in ["", "  \n"] {
        for event in [json!({}), iam(ORDERS), jwt(&json!({}))] {
            assert!(may(rules, &event, "anything"));
        }
    }
}

#[test]
fn with_rules_a_request_that_no_authorizer_has_seen_is_refused() {
    for event in [
        json!({}),
        json!({ "requestContext": { "authorizer": null } }),
        json!({ "requestContext": { "authorizer": { "iam": { "userArn": null } } } }),
        json!({ "requestContext": { "authorizer": { "iam": {}, "jwt": {} } } }),
        json!({ "requestContext": { "authorizer": { "lambda": { "userArn": ORDERS } } } }),
        json!({ "authorizer": { "iam": { "userArn": ORDERS } } }),
    ] {
        let refused = grants("*=*").of_authorizer(authorizer(&event)).expect_err("nobody is known");
        assert_eq!((refused.status(), refused.code()), (403, "key_not_granted"), "{event}");
    }
    assert!(may("*=*", &jwt(&json!({})), "anything"));
}

#[test]
fn a_caller_has_the_patterns_of_all_its_rules() {
    let rules = "tenant:acme=acme/*,shared/*; *={tenant}/*; role:admin=*";
    let acme = jwt(&json!({ "tenant": "acme" }));
    assert!(may(rules, &acme, "acme/1") && may(rules, &acme, "shared/1"));
    assert!(!may(rules, &acme, "other/1") && !may(rules, &acme, "acme"));
    let other = jwt(&json!({ "tenant": "other" }));
    assert!(may(rules, &other, "other/1"));
    assert!(!may(rules, &other, "acme/1") && !may(rules, &other, "shared/1"));
    assert!(may(rules, &jwt(&json!({ "role": "admin" })), "acme/1"));
    assert!(!may(rules, &iam(ORDERS), "acme/1"), "the name of no claim");
}

#[test]
fn wildcards_of_an_arn_stay_in_their_part() {
    let rules = "arn:aws:sts::*:assumed-role/orders/*=orders-*";
    assert!(may(rules, &iam(ORDERS), "orders-1") && !may(rules, &iam(ORDERS), "users-1"));
    for other in [
        "arn:aws:sts::123456789012:assumed-role/orders",
        "arn:aws:sts::123456789012:assumed-role/orders2/a",
        "arn:aws:iam::123456789012:user/x:assumed-role/orders/a",
        "arn:aws:sts::1:user/x:assumed-role/orders/a",
        "orders",
        "",
    ] {
        assert!(!may(rules, &iam(other), "orders-1"), "{other}");
    }
    let session = r"arn:aws:sts::*:assumed-role/a\=b\,c\;d/?=*";
    assert!(may(session, &iam("arn:aws:sts::1:assumed-role/a=b,c;d/x"), "k"));
    assert!(!may(rules, &jwt(&json!({ "arn": ORDERS, "userArn": ORDERS })), "orders-1"));
}

#[test]
fn a_list_is_a_claim_if_one_member_is() {
    let rules = r"cognito:groups:admin=*; level:3=low; verified:true=yes";
    for groups in [json!("[users admin]"), json!("[admin]"), json!(["users", "admin"])] {
        assert!(may(rules, &jwt(&json!({ "cognito:groups": groups })), "k"), "{groups}");
    }
    for groups in [
        json!("[users]"),
        json!("[]"),
        json!("users admin"),
        json!(["users"]),
        json!([["admin"]]),
        json!({ "admin": "admin" }),
        json!(null),
        json!("[users, admin,]"),
    ] {
        assert!(!may(rules, &jwt(&json!({ "cognito:groups": groups })), "k"), "{groups}");
    }
    assert!(may(rules, &jwt(&json!({ "level": 3 })), "low"));
    assert!(may(rules, &jwt(&json!({ "level": "3", "verified": true })), "yes"));
}

#[test]
fn an_absent_an_empty_and_a_listed_claim_fill_in_nothing() {
    for claims in [
        json!({}),
        json!({ "tenant": null }),
        json!({ "tenant": "" }),
        json!({ "tenant": "[acme]" }),
        json!({ "tenant": ["acme"] }),
        json!({ "tenant": { "acme": 1 } }),
        json!({ "Tenant": "acme" }),
    ] {
        for key in ["/1", "acme/1", "[acme]/1", "null/1", "{tenant}/1"] {
            assert!(!may("*={tenant}/*", &jwt(&claims), key), "{claims} {key}");
        }
        assert!(!may("tenant:*=k", &jwt(&claims), "k") || claims["tenant"] != json!(""));
    }
    assert!(!may("tenant:*=k", &jwt(&json!({ "tenant": "" })), "k"));
}

#[test]
fn the_wildcards_of_a_claim_are_characters() {
    let star = jwt(&json!({ "tenant": "*" }));
    assert!(may("*={tenant}/*", &star, "*/1") && !may("*={tenant}/*", &star, "acme/1"));
    let mark = jwt(&json!({ "tenant": "acm?" }));
    assert!(may("*={tenant}/*", &mark, "acm?/1") && !may("*={tenant}/*", &mark, "acme/1"));
    let braces = jwt(&json!({ "tenant": "{role}", "role": "acme" }));
    assert!(!may("*={tenant}/*", &braces, "acme/1"), "filled in once");
    let slash = jwt(&json!({ "tenant": "acme/x" }));
    assert!(!may("*={tenant}/*", &slash, "acme/x/1"), "it would be a key of acme's");
    assert!(!may("*=t/{tenant}", &slash, "t/acme/x"));
}

#[test]
fn a_backslash_takes_a_character_for_itself() {
    let any = jwt(&json!({ "a:b": "c:d", "x": "1" }));
    assert!(may(r"*=a\*,b\,c,d\;e,f\\g,\{x\},\ h", &any, "a*") && !may(r"*=a\*", &any, "ab"));
    for key in ["b,c", "d;e", r"f\g", "{x}", " h", "i=j"] {
        assert!(may(r"*=a\*,b\,c,d\;e,f\\g,\{x\},\ h,i=j", &any, key), "{key}");
    }
    assert!(may(r"a:b:c\:d=k", &any, "k") && !may("a:b:c:d=k", &any, "k"));
    assert!(may(r" * = {a:b}#* , 2 ; x : 1 = 3 ", &any, "c:d#9"));
    assert!(may(r" * = {a:b}#* , 2 ; x : 1 = 3 ", &any, "3"));
    assert!(may(r"*={ x }#", &any, "1#"));
}

#[test]
fn rules_that_could_mean_something_else_are_refused() {
    for (rules, problem) in [
        ("acme/*", "has no ="),
        ("=acme/*", "does not say who"),
        ("tenant=acme/*", "does not say who"),
        ("**=a", "does not say who"),
        ("tenant:=a", "without a value"),
        (":acme=a", "without a name"),
        ("ten*:acme=a", "wildcard in the name"),
        ("*:acme=a", "wildcard in the name"),
        ("{a}:b=c", "braces in who"),
        ("arn:aws=a", "six parts"),
        ("arn:*=a", "six parts"),
        ("arn:aws:iam::*:user/*={tenant}/*", "has no claims"),
        ("*=", "empty pattern"),
        ("*=a,,b", "empty pattern"),
        ("*=a;", "has no ="),
        (";*=a", "has no ="),
        ("*={tenant", "without its }"),
        ("*=tenant}", "without its {"),
        ("*={}", "without the name"),
        ("*={ }", "without the name"),
        ("*={a{b}}", "without the name"),
        ("*={tenant}*", "beside a {claim}"),
        ("*={tenant}?", "beside a {claim}"),
        ("*=*{tenant}", "beside a {claim}"),
        ("*={a}{b}", "beside a {claim}"),
        ("*=a\\", "last backslash"),
    ] {
        let error = rules.parse::<Grants>().expect_err(rules).to_string();
        assert!(error.contains(problem), "{rules}: {error}");
    }
}

/// Characters that mean something in rules, in patterns or in lists.
fn hostile() -> impl Strategy<Value = String> {
    "[abc*?{}/#;=,:\\\\\\[\\] é]{0,6}"
}

proptest! {
    #[test]
    fn no_claim_widens_a_pattern(value in hostile(), key in "[abc*?/#]{1,6}(/[ab/*]{0,3})?") {
        let event = jwt(&json!({ "tenant": value }));
        let (rule, parts) = ("*={tenant}/*", key.split_once('/'));
        // Whoever is let in is the tenant that the key names before its first slash, to the letter.
        let is_named = parts.is_some_and(|(tenant, _)| tenant == value && !tenant.is_empty());
        if may(rule, &event, &key) {
            prop_assert!(is_named, "{value:?} {key:?}");
        } else {
            prop_assert!(!is_named, "{value:?} {key:?}");
        }
    }

    #[test]
    fn two_tenants_never_share_a_key(one in hostile(), other in hostile(), rest in hostile()) {
        prop_assume!(one != other);
        let key = format!("t/{one}/{rest}");
        let of = |tenant: &str| may("*=t/{tenant}/*", &jwt(&json!({ "tenant": tenant })), &key);
        prop_assert!(!(of(&one) && of(&other)), "{one:?} {other:?} {key:?}");
    }

    #[test]
    fn escaped_text_is_taken_as_it_is(text in "[abc*?{}/#;=,:\\\\ é]{1,6}", other in "[abc*?{}/#;=,:\\\\ é]{1,6}") {
        let escaped = text.chars().flat_map(|c| ['\\', c]).collect::<String>();
        let rule = format!("name:{escaped}={escaped}");
        let event = jwt(&json!({ "name": text }));
        prop_assert!(may(&rule, &event, &text));
        prop_assert_eq!(may(&rule, &event, &other), text == other);
    }

    #[test]
    fn no_text_of_rules_and_no_caller_brings_the_function_down(rules in "[a*?{}/;=,:\\\\ ]{0,24}", value in hostile()) {
        if let Ok(grants) = rules.parse::<Grants>() {
            for event in [jwt(&json!({ "a": value })), iam(&value), json!({})] {
                if let Ok(granted) = grants.of_authorizer(authorizer(&event)) {
                    let _ = granted.check(&PartitionKey::new("a/a").expect("a key"));
                }
            }
        }
    }
}

/// The counts of the metadata table are kept under these digests, so they must stay what they are.
#[test]
fn a_grant_is_the_pattern_with_the_claims_of_the_caller() {
    let most = NonZeroU32::new(7).expect("not zero");
    let grant = |rules: &str, event: &Value, key: &str| {
        let granted = grants(rules).of_authorizer(authorizer(event)).expect("a caller");
        granted.grant_of(&PartitionKey::new(key).expect("a partition key"), most)
    };
    let acme = jwt(&json!({ "tenant": "acme" }));
    let of_acme = grant("*={tenant}/*", &acme, "acme/1").expect("a grant");
    assert_eq!((of_acme.digest(), of_acme.most()), ("d5698328bdfb19735ba1188664e08b7e", 7));
    // Whoever has the pattern, and whatever the key is.
    assert_eq!(grant("tenant:a*=acme/*", &acme, "acme/2"), Some(of_acme.clone()));
    let other = jwt(&json!({ "tenant": "other" }));
    assert_ne!(grant("*={tenant}/*", &other, "other/1"), Some(of_acme.clone()));
    // A wildcard is another pattern than its character.
    let literal = |tenant: &str| grant("*={tenant}", &jwt(&json!({ "tenant": tenant })), tenant);
    for (character, wildcard) in [("a*", "*=a*"), ("a?", "*=a?"), ("a\\", "*=a\\\\*")] {
        assert_ne!(literal(character), grant(wildcard, &acme, character), "{wildcard}");
    }
    // The first pattern that matches counts, and no other.
    assert_eq!(grant("*=acme/*,acme/1*", &acme, "acme/1"), Some(of_acme.clone()));
    assert_ne!(grant("*=acme/1*,acme/*", &acme, "acme/1"), Some(of_acme));
    assert_eq!(grant("", &acme, "acme/1"), None);
    assert_eq!(grant("*={tenant}/*", &acme, "other/1"), None);
}
