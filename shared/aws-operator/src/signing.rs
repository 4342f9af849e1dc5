//! Signatures of requests that the SDK has no client for.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use dynashard_core::ports::Clock;

use crate::credentials::{ConnectError, Keys};
use crate::operator::Operator;
use dynashard_aws::error::causes;
use dynashard_aws::{ServerClock, SystemClock};

/// Signs HTTP requests with Signature Version 4, for services that the SDK has no client for here: the application's
/// own API under IAM, whose service is called `execute-api`, and `CloudFormation`.
#[derive(Debug, Clone)]
pub struct RequestSigner {
    keys: Arc<Keys>,
    region: String,
    service: &'static str,
    clock: SystemClock,
}

impl RequestSigner {
    /// A signer with the caller's credentials, which are asked for anew when they run out.
    pub fn of(operator: &Operator, service: &'static str) -> Self {
        let region = operator.config.region().map(ToString::to_string).unwrap_or_default();
        Self { keys: Arc::clone(&operator.keys), region, service, clock: operator.clock() }
    }

    /// A signer with the keys of a user, for whoever keeps them elsewhere than where the aws CLI looks.
    pub fn of_user(
        access_key_id: &str,
        secret_access_key: &str,
        region: &str,
        service: &'static str,
    ) -> Self {
        let keys = Credentials::new(access_key_id, secret_access_key, None, None, "of_user");
        let clock = SystemClock::new(ServerClock::default());
        let keys = Keys::of(Some(SharedCredentialsProvider::new(keys)), clock.clone());
        Self { keys, region: region.to_owned(), service, clock }
    }

    /// Whether there are credentials now.
    pub(crate) async fn check(&self) -> Result<(), ConnectError> {
        self.keys.current().await.map(drop)
    }

    /// The headers that make a request a signed one, to be sent in addition to `headers`, which the signature
    /// covers. The URL is to be sent as it is here.
    pub async fn sign(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Vec<(String, String)>, ConnectError> {
        self.sign_at(UNIX_EPOCH + self.clock.now().wall, method, url, headers, body).await
    }

    /// [`Self::sign`], dated so.
    pub(crate) async fn sign_at(
        &self,
        time: SystemTime,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Vec<(String, String)>, ConnectError> {
        let failed = |error: &(dyn std::error::Error + 'static)| {
            ConnectError(format!("a request cannot be signed: {}", causes(error)))
        };
        let identity = Identity::from(self.keys.current().await?);
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(time)
            .settings(SigningSettings::default())
            .build()
            .map_err(|e| failed(&e))?;
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let signable = SignableRequest::new(method, url, headers, SignableBody::Bytes(body));
        let signable = signable.map_err(|e| failed(&e))?;
        let (instructions, _) =
            sign(signable, &params.into()).map_err(|e| failed(&e))?.into_parts();
        let (headers, _) = instructions.into_parts();
        let headers = headers.into_iter();
        Ok(headers.map(|h| (h.name().to_owned(), h.value().to_owned())).collect())
    }
}
