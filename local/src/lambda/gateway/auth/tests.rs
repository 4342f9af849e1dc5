use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use http::header::AUTHORIZATION;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair, PublicKeyComponents};
use ring::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding};

use super::*;
use crate::plan::JwtAuthorizer;

/// 20 November 2026, 10:10:10.
const NOW_SECS: u64 = 1_795_169_410;
const TARGET: &str = "/item?sk=2013-01-01T10%3A00%3A00Z%23UA1545&pk=a%2Fb%20c%2Bd&flag=";
const BODY: &[u8] = br#"{"flight":1545}"#;

fn at(secs: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
}

/// A request as the client makes it, not signed yet.
fn put() -> Request<()> {
    Request::put(TARGET)
        .header("host", "127.0.0.1:3000")
        .header("content-type", "application/json")
        .header("if-none-match", "*")
        .body(())
        .expect("a request")
}

struct Signer {
    user: User,
    region: &'static str,
    service: &'static str,
    at_secs: u64,
}

impl Signer {
    fn new() -> Self {
        let user = Principals::default().users.remove(0);
        Self { user, region: "us-east-1", service: "execute-api", at_secs: NOW_SECS }
    }

    /// The request with what AWS's SDKs add to it.
    fn sign(&self, mut request: Request<()>, body: &[u8]) -> Request<()> {
        let User { access_key_id, secret_access_key, .. } = &self.user;
        let credentials = Credentials::new(access_key_id, secret_access_key, None, None, "test");
        let identity = Identity::from(credentials);
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.region)
            .name(self.service)
            .time(at(self.at_secs))
            .settings(SigningSettings::default())
            .build()
            .expect("all of them")
            .into();
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.to_str().expect("text")));
        let method = request.method().as_str();
        let body = SignableBody::Bytes(body);
        let signable = SignableRequest::new(method, request.uri().to_string(), headers, body);
        let signed = sign(signable.expect("a request"), &params).expect("a signature");
        signed.into_parts().0.apply_to_request_http1x(&mut request);
        request
    }
}

fn by_iam(request: Request<()>, body: &[u8], now_secs: u64) -> Result<Option<Value>, Refused> {
    let (parts, ()) = request.into_parts();
    let body = Bytes::copy_from_slice(body);
    authorizer(&Authorization::Iam, &Principals::default(), &parts, &body, at(now_secs))
}

#[track_caller]
fn assert_refused(request: Request<()>, body: &[u8], now_secs: u64, why: &str) {
    match by_iam(request, body, now_secs) {
        Err(Refused::Signature(reason)) => assert!(reason.contains(why), "{reason}, not {why}"),
        other => panic!("{other:?} where {why}"),
    }
}

#[test]
fn a_signed_request_is_its_users() {
    let request = Signer::new().sign(put(), BODY);
    let authorizer = by_iam(request, BODY, NOW_SECS).expect("it is signed").expect("a caller");
    let expected = json!({
        "iam": {
            "accessKey": "AKIAIOSFODNN7EXAMPLE",
            "accountId": "123456789012",
            "callerId": "AKIAIOSFODNN7EXAMPLE",
            "cognitoIdentity": null,
            "principalOrgId": null,
            "userArn": "arn:aws:iam::123456789012:user/local",
            "userId": "AKIAIOSFODNN7EXAMPLE",
        }
    });
    assert_eq!(authorizer, expected);
}

/// The signature that botocore 1.x makes of the same request.
#[test]
fn a_signature_of_another_sdk_is_taken() {
    let mut request = put();
    let headers = request.headers_mut();
    headers.insert("x-amz-date", "20261120T101010Z".parse().expect("a value"));
    let authorization = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261120/us-east-1/execute-api/aws4_request, \
                         SignedHeaders=content-type;host;if-none-match;x-amz-date, \
                         Signature=4d7fbc1f60582648d2550b5321d15502baef17e278f9db238bcf968d0fc8035e";
    headers.insert(AUTHORIZATION, authorization.parse().expect("a value"));
    assert!(by_iam(request, BODY, NOW_SECS).is_ok_and(|caller| caller.is_some()));
}

#[test]
fn a_route_for_everybody_asks_nobody() {
    let (parts, ()) = put().into_parts();
    let principals = Principals::default();
    let caller = authorizer(&Authorization::None, &principals, &parts, &Bytes::new(), at(NOW_SECS));
    assert_eq!(caller, Ok(None));
}

#[test]
fn whatever_was_changed_after_the_signature_is_refused() {
    let signed = || Signer::new().sign(put(), BODY);
    assert_refused(signed(), br#"{"flight":1546}"#, NOW_SECS, "another request");
    assert_refused(signed(), b"", NOW_SECS, "another request");
    for target in [
        "/item?sk=2013-01-01T10%3A00%3A00Z%23UA1546&pk=a%2Fb%20c%2Bd&flag=",
        "/item?sk=2013-01-01T10%3A00%3A00Z%23UA1545&pk=a%2Fb%20c+d&flag=",
        "/item?sk=2013-01-01T10%3A00%3A00Z%23UA1545&pk=a%2Fb%20c%2Bd",
        "/item?sk=2013-01-01T10%3A00%3A00Z%23UA1545&pk=a%2Fb%20c%2Bd&flag=&pk=x",
        "/items?sk=2013-01-01T10%3A00%3A00Z%23UA1545&pk=a%2Fb%20c%2Bd&flag=",
        "/",
    ] {
        let mut request = signed();
        *request.uri_mut() = target.parse().expect("a target");
        assert_refused(request, BODY, NOW_SECS, "another request");
    }
    let mut request = signed();
    *request.method_mut() = http::Method::PATCH;
    assert_refused(request, BODY, NOW_SECS, "another request");
    for (name, value) in
        [("if-none-match", "x"), ("host", "localhost:3000"), ("content-type", "text/plain")]
    {
        let mut request = signed();
        request.headers_mut().insert(name, value.parse().expect("a value"));
        assert_refused(request, BODY, NOW_SECS, "another request");
        let mut request = signed();
        request.headers_mut().append(name, value.parse().expect("a value"));
        assert_refused(request, BODY, NOW_SECS, "another request");
        let mut request = signed();
        request.headers_mut().remove(name);
        assert_refused(request, BODY, NOW_SECS, "does not have");
    }
    let mut request = signed();
    request.headers_mut().insert("x-amz-target", "a".parse().expect("a value"));
    assert_refused(request, BODY, NOW_SECS, "X-Amz-");
}

#[test]
fn a_signature_counts_for_five_minutes_either_way() {
    let signed = || Signer::new().sign(put(), BODY);
    for secs in [NOW_SECS - 300, NOW_SECS + 300] {
        assert!(by_iam(signed(), BODY, secs).is_ok(), "{secs}");
    }
    for secs in [0, NOW_SECS - 301, NOW_SECS + 301, NOW_SECS + 86_400] {
        assert_refused(signed(), BODY, secs, "five minutes");
    }
    // A later date does not make it younger: it is signed, too.
    for (date, why) in [
        ("20261120T101511Z", "another request"),
        ("20261121T101010Z", "another day"),
        ("20261120T101010", "no time"),
        ("Fri, 20 Nov 2026 10:10:10 GMT", "no time"),
    ] {
        let mut request = signed();
        request.headers_mut().insert("x-amz-date", date.parse().expect("a value"));
        assert_refused(request, BODY, NOW_SECS + 10, why);
    }
}

#[test]
fn only_known_users_of_this_service_sign() {
    let mut signer = Signer::new();
    signer.user.secret_access_key = "another".to_owned();
    assert_refused(signer.sign(put(), BODY), BODY, NOW_SECS, "another secret");
    let mut signer = Signer::new();
    signer.user.access_key_id = "AKIDNOBODY".to_owned();
    assert_refused(signer.sign(put(), BODY), BODY, NOW_SECS, "no user");
    let signer = Signer { region: "eu-central-1", ..Signer::new() };
    assert_refused(signer.sign(put(), BODY), BODY, NOW_SECS, "another region");
    let signer = Signer { service: "lambda", ..Signer::new() };
    assert_refused(signer.sign(put(), BODY), BODY, NOW_SECS, "another region or service");
}

#[test]
fn what_is_no_signature_is_refused() {
    assert_refused(put(), BODY, NOW_SECS, "no Authorization header");
    let signed = Signer::new().sign(put(), BODY);
    let header = signed.headers()[AUTHORIZATION].to_str().expect("text").to_owned();
    let with = |header: &str| {
        let mut request = Signer::new().sign(put(), BODY);
        request.headers_mut().insert(AUTHORIZATION, header.parse().expect("a value"));
        request
    };
    assert!(by_iam(with(&header), BODY, NOW_SECS).is_ok());
    for (header, why) in [
        (String::new(), "no Signature"),
        ("Bearer a.b.c".to_owned(), "no Signature"),
        ("AWS4-HMAC-SHA256 ".to_owned(), "no Signature"),
        (format!("{header}, Signature=00"), "no Signature"),
        (format!("{header}, Extra=1"), "no Signature"),
        (header.replace("Signature=", "Signature=0"), "another request"),
        (header.replace("/aws4_request", "/aws4_request/x"), "no Signature"),
        (header.replace("/aws4_request", "/aws4"), "another region or service"),
        (header.replace("host;", ""), "does not cover Host"),
        (header.replace(";x-amz-date", ""), "does not cover Host and X-Amz-Date"),
        (header.replace("SignedHeaders=", "SignedHeaders=accept;"), "does not have"),
        (header.split(", Signature").next().expect("a part").to_owned(), "no Signature"),
    ] {
        assert_refused(with(&header), BODY, NOW_SECS, why);
    }
    let mut twice = with(&header);
    twice.headers_mut().append(AUTHORIZATION, header.parse().expect("a value"));
    assert_refused(twice, BODY, NOW_SECS, "two Authorization headers");
    // A client that does not sign its body says so, and is not let in.
    let mut unsigned = put();
    let value = "UNSIGNED-PAYLOAD".parse().expect("a value");
    unsigned.headers_mut().insert("x-amz-content-sha256", value);
    let unsigned = Signer::new().sign(unsigned, BODY);
    assert_refused(unsigned, b"other", NOW_SECS, "another request");
}

/// The key of an issuer that exists in tests only.
fn issuers_key() -> KeyPair {
    let text = include_str!("../../../../tests/data/token-key.der.base64").split_whitespace();
    let der = STANDARD.decode(text.collect::<String>()).expect("base64");
    KeyPair::from_der(&der).expect("a key")
}

fn principals() -> Principals {
    let public = PublicKeyComponents::<Vec<u8>>::from(issuers_key().public());
    let (n, e) = (URL_SAFE_NO_PAD.encode(public.n), URL_SAFE_NO_PAD.encode(public.e));
    let jwks = json!({ "keys": [
        { "kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e },
        { "kty": "oct", "kid": "shared", "k": URL_SAFE_NO_PAD.encode("secret") },
    ] });
    let jwks = serde_json::from_value(jwks).expect("a JWK set");
    Principals { jwks, ..Principals::default() }
}

fn token(header: &Value, claims: &Value, padding: &'static dyn RsaEncoding) -> String {
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encoded(header), encoded(claims));
    let key = issuers_key();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(padding, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .expect("a signature");
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer.example",
        "aud": "orders",
        "exp": NOW_SECS + 60,
        "nbf": NOW_SECS,
        "iat": NOW_SECS,
        "tenant": "acme",
        "groups": ["a", "b"],
        "level": 3,
        "verified": true,
        "nothing": null,
    })
}

fn rs256() -> Value {
    json!({ "alg": "RS256", "kid": "one", "typ": "JWT" })
}

fn by_token(authorization: &str) -> Result<Option<Value>, Refused> {
    let (mut parts, ()) = put().into_parts();
    parts.headers.insert(AUTHORIZATION, authorization.parse().expect("a value"));
    let authorizer = JwtAuthorizer {
        issuer: "https://issuer.example".to_owned(),
        audiences: vec!["orders".to_owned(), "users".to_owned()],
    };
    let jwt = Authorization::Jwt(authorizer);
    super::authorizer(&jwt, &principals(), &parts, &Bytes::new(), at(NOW_SECS))
}

#[test]
fn the_claims_of_a_token_reach_the_function_as_texts() {
    let token = token(&rs256(), &claims(), &RSA_PKCS1_SHA256);
    let expected = json!({
        "jwt": {
            "claims": {
                "iss": "https://issuer.example",
                "aud": "orders",
                "exp": (NOW_SECS + 60).to_string(),
                "nbf": NOW_SECS.to_string(),
                "iat": NOW_SECS.to_string(),
                "tenant": "acme",
                "groups": "[a b]",
                "level": "3",
                "verified": "true",
            },
            "scopes": null,
        }
    });
    for header in [format!("Bearer {token}"), format!("bearer  {token}"), token] {
        assert_eq!(by_token(&header), Ok(Some(expected.clone())), "{header}");
    }
}

#[test]
fn a_token_is_of_the_issuer_for_an_audience_and_within_its_time() {
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        by_token(&token(&rs256(), &claims, &RSA_PKCS1_SHA256))
    };
    for (name, value) in [
        ("aud", json!("users")),
        ("aud", json!(["other", "users"])),
        ("exp", json!(NOW_SECS + 1)),
        ("nbf", json!(1_795_169_409.5)),
    ] {
        assert!(with(name, value.clone()).is_ok(), "{name}: {value}");
    }
    for (name, value, why) in [
        ("iss", json!("https://other.example"), "another issuer"),
        ("iss", json!(["https://issuer.example"]), "another issuer"),
        ("iss", json!(null), "another issuer"),
        ("aud", json!("other"), "another audience"),
        ("aud", json!(["other"]), "another audience"),
        ("aud", json!([]), "another audience"),
        ("aud", json!(null), "another audience"),
        ("exp", json!(NOW_SECS), "expired"),
        ("exp", json!(0), "expired"),
        ("exp", json!("9999999999"), "not a number"),
        ("exp", json!(null), "not a number"),
        ("nbf", json!(NOW_SECS + 1), "not valid yet"),
        ("iat", json!(NOW_SECS + 1), "not valid yet"),
    ] {
        let refused = with(name, value.clone()).expect_err(name);
        assert!(matches!(refused, Refused::Token(_)));
        assert!(refused.to_string().contains(why), "{name}: {value}: {refused}");
    }
    for (missing, why) in
        [("iss", "another issuer"), ("aud", "another audience"), ("exp", "has no exp")]
    {
        let mut claims = claims();
        claims.as_object_mut().expect("an object").remove(missing);
        let refused = by_token(&token(&rs256(), &claims, &RSA_PKCS1_SHA256)).expect_err(missing);
        assert!(refused.to_string().contains(why), "{missing}: {refused}");
    }
    let mut of_client = claims();
    of_client.as_object_mut().expect("an object").remove("aud");
    of_client["client_id"] = json!("orders");
    assert!(by_token(&token(&rs256(), &of_client, &RSA_PKCS1_SHA256)).is_ok());
}

#[test]
fn a_token_is_signed_by_the_key_that_it_names() {
    let good = token(&rs256(), &claims(), &RSA_PKCS1_SHA256);
    let (message, signature) = good.rsplit_once('.').expect("three parts");
    let mut other = claims();
    other["tenant"] = json!("other");
    let other = token(&rs256(), &other, &RSA_PKCS1_SHA256);
    let (other_message, _) = other.rsplit_once('.').expect("three parts");
    let unsigned = |header: Value| {
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", encoded(&header), encoded(&claims()))
    };
    for (token, why) in [
        (format!("{other_message}.{signature}"), "not signed by its key"),
        (format!("{message}."), "not signed by its key"),
        (format!("{message}.AAAA"), "not signed by its key"),
        (format!("{good}.x"), "no token"),
        ("a.b.c".to_owned(), "no token"),
        (String::new(), "no token"),
        (format!("Basic {good}"), "no bearer token"),
        (unsigned(json!({ "alg": "none", "kid": "one" })), "no token"),
        (token(&json!({ "alg": "RS256" }), &claims(), &RSA_PKCS1_SHA256), "names no key"),
        (
            token(&json!({ "alg": "RS256", "kid": "two" }), &claims(), &RSA_PKCS1_SHA256),
            "no key of jwks",
        ),
        (
            token(&json!({ "alg": "HS256", "kid": "one" }), &claims(), &RSA_PKCS1_SHA256),
            "not signed with RS256",
        ),
        (
            token(&json!({ "alg": "HS256", "kid": "shared" }), &claims(), &RSA_PKCS1_SHA256),
            "not signed with RS256",
        ),
        (
            token(&json!({ "alg": "RS256", "kid": "shared" }), &claims(), &RSA_PKCS1_SHA256),
            "not signed by its key",
        ),
        (token(&rs256(), &claims(), &RSA_PKCS1_SHA512), "not signed by its key"),
    ] {
        let refused = by_token(&token).expect_err(why);
        assert!(refused.to_string().contains(why), "{token}: {refused}, not {why}");
    }
    let rs512 = json!({ "alg": "RS512", "kid": "one" });
    assert!(by_token(&token(&rs512, &claims(), &RSA_PKCS1_SHA512)).is_ok());
    let signed = Signer::new().sign(put(), BODY);
    let signature = signed.headers()[AUTHORIZATION].to_str().expect("text");
    assert!(matches!(by_token(signature), Err(Refused::Token(_))));
}

#[test]
fn principals_are_read_and_never_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("principals.json");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        Principals::read(&path).map_err(|error| error.to_string())
    };
    let user = r#"{"access_key_id":"A","secret_access_key":"hidden","arn":"arn:aws:sts::1:assumed-role/r/s"}"#;
    let principals = read(&format!(r#"{{"users":[{user}],"jwks":{{"keys":[]}}}}"#)).expect("one");
    assert_eq!(principals.users[0].access_key_id, "A");
    assert!(!format!("{principals:?}").contains("hidden"));
    assert!(read(r#"{"jwks":{"keys":[]}}"#).expect("none").users.is_empty());
    for (text, problem) in [
        (r#"{"user":[]}"#.to_owned(), "unknown field"),
        (format!(r#"{{"users":[{user},{user}]}}"#), "two users have the access_key_id A"),
        (format!(r#"{{"users":[{}]}}"#, user.replace("arn:aws", "aws")), "is not an ARN"),
        (r#"{"jwks":{"keys":[{"kty":"oct","k":"AA"}]}}"#.to_owned(), "has no kid"),
    ] {
        let error = read(&text).expect_err(problem);
        assert!(error.contains(problem) && error.contains("--principals"), "{error}");
    }
    std::fs::remove_file(&path).expect("it was there");
    assert!(Principals::read(&path).is_err());
}
