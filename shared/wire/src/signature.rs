//! Requests that are signed with AWS credentials ("Signature Version 4", AWS Identity and Access Management User Guide).
//!
//! AWS's own crate signs the request again, with the secret of the user that it names and the headers that it lists. The
//! request is the user's if the signatures are equal. Signatures in the query string are not known here.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use bytes::Bytes;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use serde::Deserialize;
use subtle::ConstantTimeEq;
use time::PrimitiveDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

/// Who signs requests, and with what.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
    /// Who it is, such as `arn:aws:iam::123456789012:user/local`.
    pub arn: String,
}

/// What signatures have to be for.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The region; any where there is none.
    pub region: Option<&'a str>,
    /// The service, such as `dynamodb`.
    pub service: &'a str,
}

/// How far a signature's time and ours may be apart, either way.
const WINDOW: Duration = Duration::from_mins(5);

const DATE_HEADER: &str = "x-amz-date";
const DATE_FORMAT: StaticFormatDescription =
    format_description!("[year][month][day]T[hour][minute][second]Z");

/// The user who has signed the request for this scope, or why nobody has.
pub fn verify<'users>(
    parts: &Parts,
    body: &Bytes,
    users: &'users [User],
    scope: Scope<'_>,
    now: SystemTime,
) -> Result<&'users User, &'static str> {
    let (claimed, user, signed_at) = claim(parts, users, scope, now)?;
    let expected = signature(parts, body, &claimed, user, signed_at)?;
    if bool::from(expected.as_bytes().ct_eq(claimed.signature.as_bytes())) {
        Ok(user)
    } else {
        Err("the signature is of another request or another secret")
    }
}

/// Whether [`verify`] may take a request, by its head alone: whose body is to be read is decided by this.
pub fn check_head(
    parts: &Parts,
    users: &[User],
    scope: Scope<'_>,
    now: SystemTime,
) -> Result<(), &'static str> {
    claim(parts, users, scope, now).map(drop)
}

/// Why a signature does not count whose access key nobody has.
pub const UNKNOWN_KEY: &str = "no user has the access key of the signature";

/// What a request claims, the user that it names, and when it was signed.
fn claim<'parts, 'users>(
    parts: &'parts Parts,
    users: &'users [User],
    scope: Scope<'_>,
    now: SystemTime,
) -> Result<(Claimed<'parts>, &'users User, SystemTime), &'static str> {
    let claimed = claimed(authorization_header(parts)?)
        .ok_or("the Authorization header is no Signature Version 4")?;
    let signed_at = date(&parts.headers, claimed.scope[0])?;
    let apart = match now.duration_since(signed_at) {
        Ok(age) => age,
        Err(ahead) => ahead.duration(),
    };
    if apart > WINDOW {
        return Err("the time of the signature is more than five minutes from the clock's");
    }
    let [_, region, service, end] = claimed.scope;
    if scope.region.is_some_and(|it| it != region)
        || [service, end] != [scope.service, "aws4_request"]
    {
        return Err("the signature is for another region or service");
    }
    let user = users.iter().find(|user| user.access_key_id == claimed.access_key_id);
    let user = user.ok_or(UNKNOWN_KEY)?;
    Ok((claimed, user, signed_at))
}

/// What the Authorization header says.
struct Claimed<'a> {
    access_key_id: &'a str,
    /// The date, region, service and end of the scope.
    scope: [&'a str; 4],
    signed_headers: Vec<&'a str>,
    signature: &'a str,
}

/// Reads `AWS4-HMAC-SHA256 Credential=ID/date/region/service/aws4_request, SignedHeaders=a;b, Signature=hex`.
fn claimed(header: &str) -> Option<Claimed<'_>> {
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for part in header.strip_prefix("AWS4-HMAC-SHA256 ")?.split(',') {
        let (name, value) = part.trim().split_once('=')?;
        let field = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed_headers,
            "Signature" => &mut signature,
            _ => return None,
        };
        if field.replace(value).is_some() {
            return None;
        }
    }
    let mut credential = credential?.split('/');
    let access_key_id = credential.next()?;
    let scope = [credential.next()?, credential.next()?, credential.next()?, credential.next()?];
    credential.next().is_none().then_some(())?;
    let signed_headers = signed_headers?.split(';').collect();
    Some(Claimed { access_key_id, scope, signed_headers, signature: signature? })
}

/// When the request was signed, which is on the day of the scope.
fn date(headers: &HeaderMap, day: &str) -> Result<SystemTime, &'static str> {
    let mut values = headers.get_all(DATE_HEADER).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err("the request has not one header X-Amz-Date");
    };
    let text = value.to_str().map_err(|_| "X-Amz-Date is not text")?;
    let time = PrimitiveDateTime::parse(text, DATE_FORMAT);
    let time = time.map_err(|_| "X-Amz-Date is no time such as 20261120T101010Z")?;
    if !text.starts_with(day) || day.len() != "20261120".len() {
        return Err("X-Amz-Date is of another day than the signature");
    }
    Ok(time.assume_utc().into())
}

/// The signature that the user would make.
fn signature(
    parts: &Parts,
    body: &Bytes,
    claimed: &Claimed<'_>,
    user: &User,
    signed_at: SystemTime,
) -> Result<String, &'static str> {
    let Claimed { scope: [_, region, service, _], signed_headers, .. } = claimed;
    let is_signed = |name: &str| signed_headers.contains(&name);
    if !is_signed("host") || !is_signed(DATE_HEADER) {
        return Err("the signature does not cover Host and X-Amz-Date");
    }
    let mut names = parts.headers.keys().map(http::HeaderName::as_str);
    if names.any(|name| name.starts_with("x-amz-") && !is_signed(name)) {
        return Err("the signature does not cover each header whose name begins with X-Amz-");
    }
    let mut headers = Vec::with_capacity(signed_headers.len());
    for name in signed_headers {
        if *name == DATE_HEADER {
            // The signer adds it.
            continue;
        }
        let mut values = parts.headers.get_all(*name).iter().peekable();
        values.peek().ok_or("the signature covers a header that the request does not have")?;
        for value in values {
            let value = std::str::from_utf8(value.as_bytes());
            headers.push((*name, value.map_err(|_| "a signed header is not UTF-8")?));
        }
    }
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let request = SignableRequest::new(
        parts.method.as_str(),
        target,
        headers.into_iter(),
        SignableBody::Bytes(body),
    );
    let request = request.map_err(|_| "the request cannot be signed")?;
    let credentials =
        Credentials::new(&user.access_key_id, &user.secret_access_key, None, None, "principals");
    let identity = Identity::from(credentials);
    let mut settings = SigningSettings::default();
    // The client's list alone says what is signed.
    settings.excluded_headers = None;
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(signed_at)
        .settings(settings)
        .build()
        .map_err(|_| "the request cannot be signed")?;
    let signed = sign(request, &params.into()).map_err(|_| "the request cannot be signed")?;
    Ok(signed.into_parts().1)
}

/// The value of the one header that says who calls.
pub fn authorization_header(parts: &Parts) -> Result<&str, &'static str> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or("the request has no Authorization header")?;
    if values.next().is_some() {
        return Err("the request has two Authorization headers");
    }
    value.to_str().map_err(|_| "the Authorization header is not text")
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access_key_id, arn, .. } = self;
        write!(f, "User({access_key_id}, {arn})")
    }
}
