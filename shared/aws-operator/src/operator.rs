//! Who asks, and where: as the aws CLI finds them.

use std::net::IpAddr;
use std::sync::Arc;

use aws_config::credential_process::CredentialProcessProvider;
use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{
    Profile, ProfileFileCredentialsProvider, ProfileFileRegionProvider, ProfileSet,
};
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder, Credentials, Region, SharedCredentialsProvider};
use aws_smithy_http_client::proxy::ProxyConfig;
use dynashard_core::ports::World;
use dynashard_core::{Directory, Settings, TableSchema};

use dynashard_aws::interceptors::DateWatch;
use dynashard_aws::pool::{http_client, http_client_by};
use dynashard_aws::{
    DynamoIndexStore, DynamoItemStore, DynamoRecordStore, OsEntropy, ServerClock, SystemClock,
    client,
};

use crate::client::config_of_operator;
use crate::credentials::{ConnectError, HeldKeys, Keys};
use crate::read_meter::ReadMeter;
use crate::usage::{CloudWatchUsage, MeasuredTables};

/// The caller and the place, as the aws CLI takes them. What is left out comes from the environment
/// and the configuration files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// A profile of the configuration files.
    pub profile: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The URL of a server that stands in for AWS.
    pub endpoint_url: Option<String>,
}

/// Whether the server at a URL is on this machine, by a loopback address.
fn leads_to_this_machine(url: Option<&str>) -> bool {
    let uri = url.and_then(|url| url.parse::<http::Uri>().ok());
    uri.as_ref().and_then(|uri| uri.host()).is_some_and(is_loopback)
}

/// The proxies of the environment, as the aws CLI takes them: `HTTPS_PROXY` and `HTTP_PROXY` but for what `NO_PROXY` names.
/// None is between this machine and itself.
pub(crate) fn proxies_to(endpoint_url: Option<&str>) -> ProxyConfig {
    if leads_to_this_machine(endpoint_url) {
        ProxyConfig::disabled()
    } else {
        ProxyConfig::from_env()
    }
}

/// Whether a server, given as `host` or `host:port`, is on this machine by a loopback address.
pub fn is_on_this_machine(server: &str) -> bool {
    let authority = server.parse::<http::uri::Authority>().ok();
    authority.is_some_and(|authority| is_loopback(authority.host()))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Connects an operator's command to the tables, with the caller's own credentials.
#[derive(Debug, Clone)]
pub struct Operator {
    pub(crate) config: SdkConfig,
    pub(crate) client: Client,
    /// The caller's credentials, which all that this operator asks is signed with.
    pub(crate) keys: Arc<Keys>,
    clock: SystemClock,
}

impl Operator {
    /// Finds region and credentials as the aws CLI does. A server on this machine takes any credentials:
    /// if neither the environment nor the profile holds keys, made-up ones are used, and no other
    /// provider is asked, also if the profile has one.
    pub async fn connect(caller: &Caller) -> Result<Self, ConnectError> {
        if let Some(url) = &caller.endpoint_url {
            let uri = url.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some());
            if uri.is_none_or(|uri| uri.scheme().is_none()) {
                let why = format!("the endpoint {url:?} is not a URL, as in http://127.0.0.1:8000");
                return Err(ConnectError(why));
            }
        }
        let is_local = leads_to_this_machine(caller.endpoint_url.as_deref());
        let config = if is_local { local(caller).await } else { remote(caller).await };
        if config.region().is_none() {
            let why = "there is no AWS region: give --region, or set AWS_REGION";
            return Err(ConnectError(why.to_owned()));
        }
        let operator = Self::with(config);
        // Missing credentials are reported here in one line, before any request needs them.
        operator.credentials().await?;
        Ok(operator)
    }

    /// Connects to a server on this machine, a URL, with region and credentials that are made up.
    pub async fn on_this_machine(endpoint: &str) -> Self {
        Self::with(client::local(endpoint).await)
    }

    fn with(config: SdkConfig) -> Self {
        let clock = SystemClock::new(ServerClock::default());
        let keys = Keys::of(config.credentials_provider(), clock);
        let held = SharedCredentialsProvider::new(HeldKeys(Arc::clone(&keys)));
        let config = config.into_builder().credentials_provider(held).build();
        let builder = config_of_operator(&config);
        Self::built(config, builder, keys)
    }

    fn built(config: SdkConfig, builder: Builder, keys: Arc<Keys>) -> Self {
        let server_clock = ServerClock::default();
        let builder = builder.interceptor(DateWatch::new(server_clock.clone()));
        let client = Client::from_conf(builder.build());
        Self { config, client, keys, clock: SystemClock::new(server_clock) }
    }

    /// This operator, with what its reads consume counted by `meter`.
    #[must_use]
    pub fn metered(&self, meter: &ReadMeter) -> Self {
        let builder = config_of_operator(&self.config).interceptor(meter.clone());
        Self::built(self.config.clone(), builder, Arc::clone(&self.keys))
    }

    /// What CloudWatch counts of the tables, or the server at `endpoint`, a URL, that stands in for it.
    pub fn usage(&self, endpoint: Option<&str>, tables: MeasuredTables) -> CloudWatchUsage {
        CloudWatchUsage::new(client::cloudwatch_at(endpoint, &self.config), tables)
    }

    /// The items of a table.
    pub fn items(&self, main_table: &str, schema: &TableSchema) -> DynamoItemStore {
        let (client, clock) = (self.client.clone(), self.clock.clone());
        DynamoItemStore::new(client, clock, main_table.to_owned(), schema.clone())
    }

    /// The secondary indexes of a table.
    fn indexes(&self, main_table: &str, schema: &TableSchema) -> DynamoIndexStore {
        DynamoIndexStore::new(self.client.clone(), main_table.to_owned(), schema.clone())
    }

    /// The records of a metadata table.
    pub fn records(&self, metadata_table: &str, schema: &TableSchema) -> DynamoRecordStore {
        DynamoRecordStore::new(self.client.clone(), metadata_table.to_owned(), schema)
    }

    /// What use cases on these tables need from outside.
    pub fn world(&self, main_table: &str, metadata_table: &str, schema: &TableSchema) -> World {
        let records = self.records(metadata_table, schema);
        World::new(self.items(main_table, schema), records, self.clock(), OsEntropy)
            .with_indexes(self.indexes(main_table, schema))
    }

    /// What is known about the collections of a stack with these settings: nothing yet.
    pub fn directory(
        &self,
        main_table: &str,
        metadata_table: &str,
        settings: Settings,
    ) -> Directory {
        Directory::new(self.world(main_table, metadata_table, &settings.schema), settings)
    }

    /// Where requests go: the region, and the server if one stands in for AWS.
    pub fn place(&self) -> String {
        let region = self.config.region().map(ToString::to_string).unwrap_or_default();
        match self.config.endpoint_url() {
            Some(url) => format!("{region} at {url}"),
            None => region,
        }
    }

    /// Where requests go, for telling tables apart. What serves those of this machine may be on another port the next time.
    pub fn place_of_tables(&self) -> String {
        match self.config.endpoint_url() {
            url @ Some(_) if leads_to_this_machine(url) => "this machine".to_owned(),
            _ => self.place(),
        }
    }

    /// The clock that the stores check leases with.
    pub fn clock(&self) -> SystemClock {
        self.clock.clone()
    }

    pub(crate) async fn credentials(&self) -> Result<Credentials, ConnectError> {
        self.keys.current().await
    }
}

async fn remote(caller: &Caller) -> SdkConfig {
    let proxies = proxies_to(caller.endpoint_url.as_deref());
    let mut loader =
        aws_config::defaults(BehaviorVersion::latest()).http_client(http_client_by(proxies));
    if let Some(profile) = &caller.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &caller.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(url) = &caller.endpoint_url {
        // The SDK takes no other address beside these.
        loader = loader.endpoint_url(url).use_fips(false).use_dual_stack(false);
    }
    let config = loader.load().await;
    let signed_in = by_the_aws_cli(caller.profile.clone()).await;
    let credentials = match (&caller.profile, signed_in) {
        (Some(_), Some(signed_in)) => SharedCredentialsProvider::new(signed_in),
        (Some(profile), None) => {
            let asked = ProviderConfig::without_region()
                .with_region(config.region().cloned())
                .with_http_client(http_client_by(ProxyConfig::from_env()));
            let container = EcsCredentialsProvider::builder().configure(&asked).build();
            let machine = ImdsCredentialsProvider::builder().configure(&asked).build();
            // One without keys leaves it to the machine, as with the aws CLI.
            SharedCredentialsProvider::new(
                CredentialsProviderChain::first_try("profile", of_profile(profile, &asked))
                    .or_else("container", container)
                    .or_else("machine", machine),
            )
        }
        (None, Some(signed_in)) => {
            let environment = EnvironmentVariableCredentialsProvider::new();
            SharedCredentialsProvider::new(
                CredentialsProviderChain::first_try("environment", environment)
                    .or_else("the aws CLI", signed_in),
            )
        }
        (None, None) => return config,
    };
    config.into_builder().credentials_provider(credentials).build()
}

/// The credentials of a profile that is named: as with the aws CLI, keys in the environment do not count then.
fn of_profile(profile: &str, config: &ProviderConfig) -> ProfileFileCredentialsProvider {
    ProfileFileCredentialsProvider::builder().configure(config).profile_name(profile).build()
}

/// The credentials of a profile that signs in, by SSO, `aws login` or a second factor: whoever signs in does so with the aws CLI,
/// which keeps the tokens and hands out credentials of them. The SDK could read the tokens, too, but then each function would
/// carry that code.
async fn by_the_aws_cli(profile: Option<String>) -> Option<CredentialProcessProvider> {
    let profiles = profiles(profile).await?;
    let selected = profiles.selected_profile();
    if !signs_in(&profiles, selected) {
        return None;
    }
    // The parser of the files takes no name that a shell would obey.
    let command = format!("aws configure export-credentials --format process --profile {selected}");
    Some(CredentialProcessProvider::new(command))
}

/// The profiles of the configuration files, with this one selected, or else that of the environment.
async fn profiles(selected: Option<String>) -> Option<ProfileSet> {
    #[expect(
        clippy::default_trait_access,
        reason = "the crate that has these types is the SDK's own"
    )]
    let (fs, env, files) = (Default::default(), Default::default(), Default::default());
    aws_config::profile::load(&fs, &env, &files, selected.map(Into::into)).await.ok()
}

/// Whether a profile signs in, or the one that it takes its role by.
fn signs_in(profiles: &ProfileSet, name: &str) -> bool {
    const SIGNS_IN: [&str; 3] = ["sso_session", "sso_start_url", "login_session"];
    let source = |name: &&str| profiles.get_profile(name)?.get("source_profile");
    let chain = std::iter::successors(Some(name), source);
    // As many as a circle may take.
    let mut chain =
        chain.take(profiles.profiles().count()).filter_map(|name| profiles.get_profile(name));
    // Of a profile that has keys of its own other programs ask for the second factor.
    let asks =
        |profile: &Profile| ["mfa_serial", "role_arn"].iter().all(|key| profile.get(key).is_some());
    chain.any(|profile| SIGNS_IN.iter().any(|key| profile.get(key).is_some()) || asks(profile))
}

async fn local(caller: &Caller) -> SdkConfig {
    let mut profile_region = ProfileFileRegionProvider::builder();
    if let Some(profile) = &caller.profile {
        profile_region = profile_region.profile_name(profile);
    }
    let region = RegionProviderChain::first_try(caller.region.clone().map(Region::new))
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(profile_region.build())
        .or_else(Region::from_static("local"));
    let credentials = if let Some(profile) = &caller.profile {
        // Nobody is asked for a region here.
        let client = http_client_by(ProxyConfig::from_env());
        let config = ProviderConfig::without_region().with_http_client(client);
        SharedCredentialsProvider::new(of_profile(profile, &config))
    } else {
        let environment = EnvironmentVariableCredentialsProvider::new();
        let made_up = || Credentials::new("local", "local", None, None, "local");
        let keys = keys_of_profile().await.unwrap_or_else(made_up);
        SharedCredentialsProvider::new(
            CredentialsProviderChain::first_try("environment", environment)
                .or_else("profile", keys),
        )
    };
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client())
        .region(region)
        .credentials_provider(credentials);
    match &caller.endpoint_url {
        Some(url) => loader.endpoint_url(url).load().await,
        None => loader.load().await,
    }
}

/// The keys that the environment's profile itself holds. Whoever signs in, by SSO, a program or a role, needs no account on
/// this machine.
async fn keys_of_profile() -> Option<Credentials> {
    let profiles = profiles(None).await?;
    let key = |name: &str| profiles.get(name).map(str::to_owned);
    let (id, secret) = (key("aws_access_key_id")?, key("aws_secret_access_key")?);
    Some(Credentials::new(id, secret, key("aws_session_token"), None, "profile"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_made_up_for_this_machine_alone() {
        let is_local = |url: &str| leads_to_this_machine(Some(url));
        for url in [
            "http://127.0.0.1:8000",
            "http://127.1.2.3",
            "http://localhost:8000/",
            "http://[::1]:8000",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "https://dynamodb.eu-west-1.amazonaws.com",
            "http://10.0.0.1:8000",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "127.0.0.1:8000/",
            "",
        ] {
            assert!(!is_local(url), "{url}");
        }
        assert!(!leads_to_this_machine(None));
        assert!(is_on_this_machine("127.0.0.1:8000") && is_on_this_machine("[::1]:8000"));
        assert!(!is_on_this_machine("dynamodb.eu-west-1.amazonaws.com"));
    }
}
