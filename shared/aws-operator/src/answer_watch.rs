//! What a client sees of the one request that it has under way.

use std::sync::Arc;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use dynashard_aws::interceptors::date_secs;
use parking_lot::Mutex;

/// What is seen of a request and its answer beside what the SDK returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Witnessed {
    /// The server that the request was sent to, as `host` or `host:port`.
    pub(crate) server: Option<String>,
    /// The `Date` of the answer, in epoch seconds.
    pub(crate) date_secs: Option<u64>,
}

/// Watches the one request that a client has under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerWatch(Arc<Mutex<Witnessed>>);

impl AnswerWatch {
    /// What was seen since the last time.
    pub(crate) fn take(&self) -> Witnessed {
        std::mem::take(&mut self.0.lock())
    }

    fn note(&self, note: impl FnOnce(&mut Witnessed)) {
        note(&mut self.0.lock());
    }
}

impl Intercept for AnswerWatch {
    fn name(&self) -> &'static str {
        "AnswerWatch"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let uri = context.request().uri().parse::<http::Uri>().ok();
        self.note(|witnessed| witnessed.server = uri.as_ref().and_then(host_and_port));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date_secs = date_secs(context);
        self.note(|witnessed| witnessed.date_secs = date_secs);
        Ok(())
    }
}

/// The authority of a URL without a user and a password, which nobody should see.
fn host_and_port(uri: &http::Uri) -> Option<String> {
    let host = uri.host()?;
    Some(match uri.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_the_server_was_named_with_the_password_to_it() {
        for (url, server) in [
            ("http://user:password@127.0.0.1:8000/", "127.0.0.1:8000"),
            ("https://user@[::1]:8000", "[::1]:8000"),
            ("https://dynamodb.eu-west-1.amazonaws.com/", "dynamodb.eu-west-1.amazonaws.com"),
        ] {
            let named = host_and_port(&url.parse().expect("a URL"));
            assert_eq!(named.as_deref(), Some(server), "{url}");
        }
    }
}
