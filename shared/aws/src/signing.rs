//! Signatures at a chosen time (protocol: "Dates of writes").

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4Signer};
use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents};
use aws_smithy_async::time::StaticTimeSource;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::{
    AuthScheme, AuthSchemeEndpointConfig, AuthSchemeId, Sign,
};
use aws_smithy_runtime_api::client::identity::{Identity, SharedIdentityResolver};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::GetIdentityResolver;
use aws_smithy_types::config_bag::{Storable, StoreReplace};

/// The time at which one request is to be signed. Without it the clock of the machine tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SigningTime(SystemTime);

impl SigningTime {
    /// This epoch second.
    pub(crate) fn of(epoch_secs: u64) -> Self {
        Self(UNIX_EPOCH + Duration::from_secs(epoch_secs))
    }
}

impl Storable for SigningTime {
    type Storer = StoreReplace<Self>;
}

/// Signature Version 4 by the SDK's own signer, at the [`SigningTime`] of a request. The client keeps its clock: by that its
/// credentials are renewed in time.
#[derive(Debug, Default)]
pub(crate) struct DatedSignatures {
    signer: SigV4Signer,
}

impl AuthScheme for DatedSignatures {
    fn scheme_id(&self) -> AuthSchemeId {
        SCHEME_ID
    }

    fn identity_resolver(
        &self,
        resolvers: &dyn GetIdentityResolver,
    ) -> Option<SharedIdentityResolver> {
        resolvers.identity_resolver(self.scheme_id())
    }

    fn signer(&self) -> &dyn Sign {
        self
    }
}

impl Sign for DatedSignatures {
    fn sign_http_request(
        &self,
        request: &mut HttpRequest,
        identity: &Identity,
        endpoint: AuthSchemeEndpointConfig<'_>,
        components: &RuntimeComponents,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(SigningTime(time)) = config.load::<SigningTime>() else {
            return self.signer.sign_http_request(request, identity, endpoint, components, config);
        };
        let clock = Some(StaticTimeSource::new(*time));
        let components = components.to_builder().with_time_source(clock).build()?;
        self.signer.sign_http_request(request, identity, endpoint, &components, config)
    }
}
