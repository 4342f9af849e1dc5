//! Who may call the HTTP API, with the real functions: the gateway plays API Gateway's authorizers, and the functions grant
//! keys. Whoever is refused costs no request to a table.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair, PublicKeyComponents};
use ring::signature::RSA_PKCS1_SHA256;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Answer, LocalStack, dynashard, run};

const ISSUER: &str = "https://issuer.example";

/// A request, before anybody signs it.
#[derive(Clone)]
struct Call {
    method: &'static str,
    path: String,
    body: Option<String>,
}

fn call(method: &'static str, path: impl Into<String>, body: Option<Value>) -> Call {
    Call { method, path: path.into(), body: body.map(|body| body.to_string()) }
}

/// One request of every route, all on this partition key. Batches begin with the key `own`.
fn calls(pk: &str, own: &str) -> Vec<Call> {
    let item = format!("/item?pk={pk}&sk=1");
    let put = |pk: &str| json!({ "pk": pk, "sk": "1", "item": { "a": 1 } });
    let key = |pk: &str| json!({ "pk": pk, "sk": "1" });
    vec![
        call("PUT", &item, Some(json!({ "a": 1 }))),
        call("PATCH", &item, Some(json!({ "a": 2 }))),
        call("DELETE", &item, None),
        call("GET", &item, None),
        call("POST", "/item/put", Some(put(pk))),
        call("POST", "/item/patch", Some(json!({ "pk": pk, "sk": "1", "patch": { "a": 2 } }))),
        call("POST", "/item/delete", Some(key(pk))),
        call("POST", "/item/get", Some(key(pk))),
        call("POST", "/batch-write", Some(json!({ "puts": [put(own), put(pk)] }))),
        call("POST", "/batch-write", Some(json!({ "puts": [put(own)], "deletes": [key(pk)] }))),
        call("POST", "/batch-get", Some(json!({ "keys": [key(own), key(pk)] }))),
        call("GET", format!("/query?pk={pk}"), None),
        call("POST", "/query", Some(json!({ "pk": pk }))),
        call("POST", format!("/counter?pk={pk}&sk=n"), Some(json!({ "add": 1 }))),
        call("GET", format!("/counter?pk={pk}&sk=n"), None),
        call("DELETE", format!("/counter?pk={pk}&sk=n"), None),
        call("GET", format!("/collection?pk={pk}"), None),
        call("PUT", format!("/collection?pk={pk}"), Some(json!({ "number_of_shards": 4 }))),
        call("POST", format!("/collection/scale?pk={pk}"), Some(json!({ "number_of_shards": 4 }))),
    ]
}

fn send(stack: &LocalStack, call: &Call, headers: &[(String, String)]) -> Answer {
    let content_type = ("content-type", "application/json");
    let mut all = vec![content_type];
    all.extend(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    stack.send(call.method, &call.path, &all, call.body.as_deref())
}

/// The headers by which an AWS SDK signs a request at that time.
fn signature(
    stack: &LocalStack,
    call: &Call,
    (id, secret): (&str, &str),
    at: SystemTime,
) -> Vec<(String, String)> {
    let identity = Identity::from(Credentials::new(id, secret, None, None, "test"));
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("execute-api")
        .time(at)
        .settings(SigningSettings::default())
        .build()
        .expect("all of them")
        .into();
    let uri = format!("{}{}", stack.api, call.path);
    let headers = [("content-type", "application/json")].into_iter();
    let body = SignableBody::Bytes(call.body.as_deref().unwrap_or_default().as_bytes());
    let request = SignableRequest::new(call.method, uri, headers, body).expect("a request");
    let (instructions, _) = sign(request, &params).expect("a signature").into_parts();
    let headers = instructions.headers();
    headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[expect(clippy::disallowed_methods, reason = "the stack compares with the clock of the machine")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Nobody who was refused has cost a request, beside those of the metadata table that were `swept` and the first
/// function's for the owner of the main table.
fn assert_untouched(stack: &LocalStack, swept: &[(String, u64)]) {
    assert_eq!(stack.operations("MainTable"), ["GetItem", "PutItem"]);
    assert_eq!(stack.requests("MainTable", "PutItem"), 1);
    assert_eq!(stack.unscheduled_of_metadata(), swept);
}

fn assert_answer(answer: &Answer, status: u16, message: &str) {
    assert_eq!((answer.status, &answer.json()), (status, &json!({ "message": message })));
}

fn principals(directory: &TempDir, principals: &Value) -> PathBuf {
    let path = directory.path().join("principals.json");
    std::fs::write(&path, principals.to_string()).expect("a file");
    path
}

fn start(principals: &Path, settings: &[&str]) -> LocalStack {
    let path = principals.to_str().expect("a name in UTF-8");
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    LocalStack::start(
        &["--auth", "--principals", path].into_iter().chain(settings).collect::<Vec<_>>(),
    )
}

const ORDERS: (&str, &str) = ("AKIDORDERS", "secret of orders");
const USERS: (&str, &str) = ("AKIDUSERS", "secret of users");

#[test]
fn only_signed_requests_reach_a_function_and_only_granted_keys_a_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let user = |(id, secret): (&str, &str), arn: &str| json!({ "access_key_id": id, "secret_access_key": secret, "arn": arn });
    let known = json!({ "users": [
        user(ORDERS, "arn:aws:sts::123456789012:assumed-role/orders/i-1"),
        user(USERS, "arn:aws:iam::123456789012:user/users"),
    ] });
    let grants =
        "KeyGrants=arn:aws:sts::*:assumed-role/orders/*=orders-*; arn:aws:iam::*:user/users=users";
    let stack = start(&principals(&directory, &known), &[grants]);
    stack.until_swept();
    let swept = stack.unscheduled_of_metadata();
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);

    for call in calls("orders-1", "orders-1") {
        // Nobody, somebody unknown, a wrong secret, a signature that was kept for too long or made for later.
        assert_answer(&send(&stack, &call, &[]), 403, "Forbidden");
        for (user, at) in [
            (("AKIDNOBODY", ORDERS.1), now()),
            ((ORDERS.0, USERS.1), now()),
            (ORDERS, now() - minutes(6)),
            (ORDERS, now() + minutes(6)),
        ] {
            let headers = signature(&stack, &call, user, at);
            assert_answer(&send(&stack, &call, &headers), 403, "Forbidden");
        }
        // What was changed after the signature.
        let headers = signature(&stack, &call, ORDERS, now());
        let mut other = call.clone();
        match &mut other.body {
            Some(body) => body.push(' '),
            None => other.path = call.path.replace("orders-1", "orders-2"),
        }
        assert_answer(&send(&stack, &other, &headers), 403, "Forbidden");
        let mut elsewhere = call.clone();
        elsewhere.path =
            format!("{}{}x=1", call.path, if call.path.contains('?') { '&' } else { '?' });
        assert_answer(&send(&stack, &elsewhere, &headers), 403, "Forbidden");
        let token = [("authorization".to_owned(), "Bearer a.b.c".to_owned())];
        assert_answer(&send(&stack, &call, &token), 403, "Forbidden");
        // Well signed, and another's key.
        let headers = signature(&stack, &call, USERS, now());
        let answer = send(&stack, &call, &headers);
        assert_eq!((answer.status, answer.code().as_str()), (403, "key_not_granted"), "{answer:?}");
    }
    for call in calls("orders-1", "users") {
        let answer = send(&stack, &call, &signature(&stack, &call, USERS, now()));
        assert_eq!((answer.status, answer.code().as_str()), (403, "key_not_granted"), "{answer:?}");
    }
    assert_untouched(&stack, &swept);

    let put = call("PUT", "/item?pk=orders-1&sk=a%20b%2Fc+d", Some(json!({ "n": 1 })));
    let answer = send(&stack, &put, &signature(&stack, &put, ORDERS, now()));
    assert_eq!(answer.status, 200, "{answer:?}");
    let get = call("GET", "/item?pk=orders-1&sk=a%20b%2Fc%20d&consistent=true", None);
    let answer = send(&stack, &get, &signature(&stack, &get, ORDERS, now()));
    assert_eq!((answer.status, &answer.json()["n"]), (200, &json!(1)), "{answer:?}");
    let unknown = call("GET", "/nothing", None);
    assert_eq!(send(&stack, &unknown, &[]).status, 404);
}

fn issuers_key() -> KeyPair {
    let text = include_str!("../../../local/tests/data/token-key.der.base64").split_whitespace();
    let der = STANDARD.decode(text.collect::<String>()).expect("base64");
    KeyPair::from_der(&der).expect("a key")
}

fn jwks() -> Value {
    let public = PublicKeyComponents::<Vec<u8>>::from(issuers_key().public());
    let (n, e) = (URL_SAFE_NO_PAD.encode(public.n), URL_SAFE_NO_PAD.encode(public.e));
    json!({ "keys": [{ "kty": "RSA", "kid": "one", "alg": "RS256", "n": n, "e": e }] })
}

/// The header of a token for a tenant, with these claims in place of the usual ones.
fn bearer(tenant: &str, others: &Value) -> Vec<(String, String)> {
    let now_secs = now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let mut claims =
        json!({ "iss": ISSUER, "aud": "flights", "exp": now_secs + 600, "tenant": tenant });
    for (name, value) in others.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({ "alg": "RS256", "kid": "one" });
    let message = format!("{}.{}", encoded(&header), encoded(&claims));
    let key = issuers_key();
    let mut signature = vec![0; key.public().modulus_len()];
    let signed =
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature);
    signed.expect("a signature");
    let token = format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature));
    vec![("authorization".to_owned(), token)]
}

#[test]
fn only_tokens_of_the_issuer_reach_a_function_and_only_a_tenants_own_keys_a_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let issuer = format!("JwtIssuer={ISSUER}");
    let path = principals(&directory, &json!({ "jwks": jwks() }));
    let grants = "KeyGrants=*={tenant},{tenant}/*; cognito:groups:admin=*";
    let stack = start(
        &path,
        &[
            "AuthMode=jwt",
            "ControlAuth=auth-mode",
            &issuer,
            "JwtAudience=other,flights",
            grants,
            "KeysPerGrant=1",
        ],
    );
    stack.until_swept();
    let swept = stack.unscheduled_of_metadata();
    for call in calls("acme", "acme") {
        assert_answer(&send(&stack, &call, &[]), 401, "Unauthorized");
        for claims in [
            json!({ "iss": "https://other.example" }),
            json!({ "aud": "somebody" }),
            json!({ "exp": 1_000_000_000 }),
            json!({ "nbf": 9_000_000_000_u64 }),
        ] {
            let answer = send(&stack, &call, &bearer("acme", &claims));
            assert_answer(&answer, 401, "Unauthorized");
        }
        let mut forged = bearer("acme", &json!({}));
        let other = bearer("other", &json!({}));
        let (_, signature) = other[0].1.rsplit_once('.').expect("three parts");
        let (message, _) = forged[0].1.rsplit_once('.').expect("three parts");
        forged[0].1 = format!("{message}.{signature}");
        assert_answer(&send(&stack, &call, &forged), 401, "Unauthorized");
        let signed = signature_of_nobody(&stack, &call);
        assert_answer(&send(&stack, &call, &signed), 401, "Unauthorized");
        // Well signed, and another tenant.
        for claims in [json!({}), json!({ "tenant": "*" }), json!({ "tenant": ["acme"] })] {
            let answer = send(&stack, &call, &bearer("other", &claims));
            let refused = (answer.status, answer.code());
            assert_eq!(refused, (403, "key_not_granted".to_owned()), "{answer:?}");
        }
    }
    for call in calls("acme", "other") {
        let answer = send(&stack, &call, &bearer("other", &json!({})));
        assert_eq!((answer.status, answer.code().as_str()), (403, "key_not_granted"), "{answer:?}");
    }
    assert_untouched(&stack, &swept);

    let put = call("PUT", "/item?pk=acme%2F1&sk=a", Some(json!({ "n": 1 })));
    assert_eq!(send(&stack, &put, &bearer("acme", &json!({}))).status, 200);
    let get = call("GET", "/item?pk=acme%2F1&sk=a&consistent=true", None);
    let admin = bearer("", &json!({ "cognito:groups": ["users", "admin"] }));
    let answer = send(&stack, &get, &admin);
    assert_eq!((answer.status, &answer.json()["n"]), (200, &json!(1)), "{answer:?}");

    let create = |tenant: &str, key: &str| {
        let create = call("PUT", format!("/collection?pk={tenant}%2F{key}"), Some(json!({})));
        send(&stack, &create, &bearer(tenant, &json!({})))
    };
    assert_eq!(create("acme", "1").status, 201);
    assert_eq!(create("acme", "2").code(), "grant_exhausted");
    assert_eq!(create("other", "1").status, 201);
}

/// Any token could fill the directory for good.
#[test]
fn a_token_changes_no_shard_count_unless_control_auth_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let issuer = format!("JwtIssuer={ISSUER}");
    let user = json!({ "access_key_id": ORDERS.0, "secret_access_key": ORDERS.1, "arn": "arn:aws:sts::123456789012:assumed-role/orders/i-1" });
    let path = principals(&directory, &json!({ "users": [user], "jwks": jwks() }));
    let stack = start(&path, &["AuthMode=jwt", &issuer, "JwtAudience=flights"]);
    let token = bearer("acme", &json!({}));
    let (control, others) = calls("acme", "other").into_iter().partition::<Vec<_>, _>(|call| {
        call.path.starts_with("/collection") && call.method != "GET"
    });
    assert_eq!(control.len(), 2);
    for call in others {
        // The item is deleted before it is read.
        let status = send(&stack, &call, &token).status;
        assert!(matches!(status, 200 | 204 | 404), "{} {}: {status}", call.method, call.path);
    }
    for call in &control {
        assert_answer(&send(&stack, call, &token), 403, "Forbidden");
    }
    let put = &control[0];
    let signed = send(&stack, put, &signature(&stack, put, ORDERS, now()));
    assert!(signed.status < 300, "{signed:?}");
}

fn signature_of_nobody(stack: &LocalStack, call: &Call) -> Vec<(String, String)> {
    signature(stack, call, ORDERS, now())
}

#[test]
fn the_user_that_the_docs_name_may_call_and_without_auth_everybody_may() {
    let user = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    let get = call("GET", "/query?pk=a", None);
    let stack = LocalStack::start(&["--auth"]);
    assert_eq!(send(&stack, &get, &[]).status, 403);
    assert_eq!(send(&stack, &get, &signature(&stack, &get, user, now())).status, 200);
    let (_, _, log) = stack.end(rustix::process::Signal::TERM);
    assert!(log.contains("the HTTP API checks who calls") && log.contains(user.0), "{log}");
    assert!(!log.contains(user.1), "{log}");

    let stack = LocalStack::start(&[]);
    assert_eq!(send(&stack, &get, &[]).status, 200);
    let (_, _, log) = stack.end(rustix::process::Signal::TERM);
    assert!(log.contains("the HTTP API lets everybody in"), "{log}");

    let stack = LocalStack::start(&["--auth", "--set", "AuthMode=none"]);
    assert_eq!(send(&stack, &get, &[]).status, 200);
}

#[test]
fn a_stack_that_could_let_nobody_in_does_not_start() {
    let issuer = format!("JwtIssuer={ISSUER}");
    let tokens = ["--set", "AuthMode=jwt", "--set", &issuer];
    let local = |args: &[&str]| {
        let ports = ["local", "--port", "0", "--dynamodb-port", "0", "--lambda-port", "0"];
        run(dynashard(&[&ports, args].concat()))
    };
    for (args, problem) in [
        ([&tokens[..], &["--set", "JwtAudience=a", "--auth"]].concat(), "--principals"),
        ([&tokens[..], &["--auth"]].concat(), "needs an issuer and an audience"),
        (vec!["--auth", "--principals", "/nowhere/principals.json"], "/nowhere/principals.json"),
        (vec!["--principals", "principals.json"], "--auth"),
        (vec!["--set", "KeyGrants=acme/*"], "KeyGrants"),
        (vec!["--set", "KeyGrants=*=*{tenant}"], "KEY_GRANTS"),
    ] {
        let ran = local(&args);
        assert!(ran.status != 0 && ran.stderr.contains(problem), "{args:?}: {}", ran.stderr);
    }
}
