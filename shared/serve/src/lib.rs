//! The endpoint that speaks DynamoDB's own protocol, as whoever runs it tells it by flags or by the environment: `dynashard serve`,
//! and the Lambda extension, which is told by the environment alone.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dynashard_aws_operator::{Caller, Operator, PinnedError, RawClient, StackTables};
use dynashard_core::{ScalingPolicy, Settings, StackPolicy, StackTold};
use dynashard_endpoint::{Access, ManagedTable, Server, Service, ServiceOptions, TableNames, User};
use tokio::net::TcpListener;

/// An endpoint allocates in all threads for each request, and musl's own allocator, which released programs would have, has one lock
/// for all: a page of 16 shards takes twice as much of the processor by it.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Why an endpoint does not serve; one line for people.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Tells people what an endpoint waits for.
pub type Say = fn(&str);

/// Where it listens, unless it is told something else.
const USUAL_PORT: u16 = 8017;

/// For how long the tables are looked at before the command gives up.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether settings are pinned, and whether the tables can be written to.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What an endpoint is told.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = USUAL_PORT)]
    port: u16,
    /// Address to listen on. One of another machine can reach it needs --auth keys.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Ask this server, as in `http://127.0.0.1:8000`, in place of DynamoDB in the region. The variables `AWS_ENDPOINT_URL` and
    /// `AWS_ENDPOINT_URL_DYNAMODB` do not count: they are for the application, and name this endpoint.
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// The tables that dynashard manages, each with the table of its metadata if it does not say itself which that is: it does once
    /// a stack has served it. Every other table is passed through.
    #[arg(long, value_name = "MAIN[:METADATA]", value_delimiter = ',', value_parser = parse_tables)]
    tables: Vec<(String, Option<String>)>,
    /// Who may ask: every program of this machine, or whoever signs with a key of --keys.
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Auth::None, requires_if("keys", "keys"))]
    auth: Auth,
    /// A file of JSON with whose signatures are taken: `[{"access_key_id", "secret_access_key", "arn"}]`.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Who begins the growth of a key that the endpoint sees throttled: the endpoint itself, by what the stack decides by, or the
    /// stack's alarm, which takes minutes. A deployment that changes what the stack decides by reaches the endpoint within a minute.
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Growth::Decide)]
    growth: Growth,
    /// How long a throttled write of a managed table is held and tried again before the client is told, in seconds: from 0 to 60.
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=60))]
    hold_secs: u64,
    /// Profile of the AWS configuration files.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The AWS region.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
}

/// The variables that stand for flags which are not given. Kubernetes sets `DYNASHARD_PORT` itself where a service is called
/// dynashard, so the port has another name.
pub const VARIABLES: [(&str, &str); 5] = [
    ("--port", "DYNASHARD_LISTEN_PORT"),
    ("--tables", "DYNASHARD_TABLES"),
    ("--upstream", "DYNASHARD_UPSTREAM"),
    ("--growth", "DYNASHARD_GROWTH"),
    ("--hold-secs", "DYNASHARD_HOLD_SECS"),
];

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Auth {
    /// Every program of this machine.
    None,
    /// Whoever signs with a known key.
    Keys,
}

/// Who begins growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Growth {
    /// The endpoint: its role may change metadata.
    Decide,
    /// The stack: the endpoint reports what it sees.
    Report,
}

fn parse_tables(text: &str) -> Result<(String, Option<String>), String> {
    match text.split_once(':') {
        None if !text.is_empty() => Ok((text.to_owned(), None)),
        Some((main, metadata)) if !main.is_empty() && !metadata.is_empty() && main != metadata => {
            Ok((main.to_owned(), Some(metadata.to_owned())))
        }
        _ => Err("it is the table, and the table of its metadata if it is to be named, as in orders or orders:orders-metadata"
            .to_owned()),
    }
}

/// An endpoint that takes connections.
pub struct Endpoint {
    service: Arc<Service>,
    server: Server,
}

impl ServeArgs {
    /// Where a program of this machine finds the endpoint, unless the operating system chooses the port.
    #[must_use]
    pub fn local_url(&self) -> Option<String> {
        let ip =
            if self.address.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { self.address };
        (self.port > 0).then(|| format!("http://{}", SocketAddr::new(ip, self.port)))
    }
}

impl Endpoint {
    /// Listens, and returns once it knows the settings of each managed table.
    ///
    /// # Errors
    /// What cannot be listened on, a table that cannot be looked at, and what must not be.
    pub async fn open(args: &ServeArgs, say: Say) -> Result<Self, Failure> {
        let access = access(args)?;
        // A port that is taken is told of at once. Nothing listens until there is an answer: a connection that waits for it would hold
        // up its client, and one that is refused does not.
        drop(bind(args.address, Some(args.port)).await?);
        let service = Arc::new(connect(args, say).await?);
        let listener = bind(args.address, Some(args.port)).await?;
        Ok(Self { server: Server::start(Arc::clone(&service), listener, access)?, service })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns once there are credentials and a lease on each managed table, and says what it waits for.
    pub async fn until_ready(&self, say: Say) {
        let mut said = String::new();
        while let Err(why) = self.service.check().await {
            if why != said {
                say(&format!("not ready yet: {why}"));
                said = why;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes no more connections, and returns when what was asked is answered, or after 25 seconds.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// Who may ask.
fn access(args: &ServeArgs) -> Result<Access, Failure> {
    match (args.auth, &args.keys) {
        (Auth::Keys, Some(path)) => Ok(Access::Keys(read_keys(path)?)),
        (Auth::None, Some(_)) => Err("--keys says whose signatures are taken, and without --auth keys nobody has to sign: give both, or neither".into()),
        _ if args.address.is_loopback() => Ok(Access::ThisMachine),
        _ => Err("the endpoint has credentials, and whoever reaches it could use them: give --auth keys, or listen on 127.0.0.1".into()),
    }
}

/// Listens where the endpoint is to be; without a port on the usual one, or a free one if another program listens there.
///
/// # Errors
/// What the operating system says.
pub async fn bind(address: IpAddr, port: Option<u16>) -> Result<TcpListener, Failure> {
    let at = SocketAddr::new(address, port.unwrap_or(USUAL_PORT));
    match TcpListener::bind(at).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && port.is_none() => {
            Ok(TcpListener::bind(SocketAddr::new(address, 0)).await?)
        }
        Err(error) => {
            Err(format!("the endpoint cannot listen on {at}: {error}; choose another port").into())
        }
        Ok(listener) => Ok(listener),
    }
}

async fn connect(args: &ServeArgs, say: Say) -> Result<Service, Failure> {
    let mut caller = Caller {
        profile: args.profile.clone(),
        region: args.region.clone(),
        endpoint_url: args.upstream.clone(),
    };
    let url = match &args.upstream {
        Some(url) => url.clone(),
        None => Operator::connect(&caller).await?.usual_url().await?,
    };
    // Given, so that no variable of the environment counts: those name this endpoint.
    caller.endpoint_url = Some(url.clone());
    let operator = Operator::connect(&caller).await?;
    let mut tables = Vec::new();
    for (main, metadata) in &args.tables {
        let found = Box::pin(until_pinned(&operator, main, metadata.as_deref(), say)).await;
        let StackTables { metadata_table, place, settings, policy } =
            found.map_err(|why| format!("the table {main}: {why}"))?;
        let lease_term = settings.lease_term;
        if policy.is_none() && args.growth == Growth::Decide {
            say(&format!(
                "the stack of {main} has not told by what it decides, so its alarm alone begins growth: its ScaleFunction \
                 does that within a minute of its deployment, if it is as new as this endpoint"
            ));
        }
        let directory = {
            let (operator, growth) = (operator.clone(), args.growth);
            let (main, metadata) = (main.clone(), metadata_table.clone());
            move |told: &StackTold| {
                let settings = Settings { lease_term: told.lease_term, ..settings.clone() };
                let settings = with_growth(settings, told.policy.clone(), growth);
                operator.directory(&main, &metadata, settings)
            }
        };
        let told = StackTold { policy, lease_term };
        let names = TableNames { main, metadata: &metadata_table, place: place.as_deref() };
        let table = ManagedTable::new(&operator, names, directory(&told));
        tables.push(table.following(told, directory));
    }
    let options = ServiceOptions { hold: Duration::from_secs(args.hold_secs) };
    Ok(Service::new(RawClient::new(&operator, &url), tables, options))
}

/// These settings with what the stack decides by, if it has told.
fn with_growth(settings: Settings, policy: Option<StackPolicy>, growth: Growth) -> Settings {
    let Some(policy) = policy else { return settings };
    let scaling = policy.scaling;
    let writers = scaling.writers && growth == Growth::Decide;
    let policy = StackPolicy { scaling: ScalingPolicy { writers, ..scaling }, ..policy };
    policy.applied_to(settings)
}

/// What is known of a managed table, once a function of its stack has pinned its settings.
async fn until_pinned(
    operator: &Operator,
    main: &str,
    metadata: Option<&str>,
    say: Say,
) -> Result<StackTables, PinnedError> {
    let mut has_said = false;
    loop {
        match operator.stack_tables(main, metadata, LOOK_TIME).await {
            Err(PinnedError::NothingPinned) => {
                if !has_said {
                    say(&format!(
                        "waiting for a function of the stack of {main} to run: none has pinned its settings yet"
                    ));
                    has_said = true;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            found => return found,
        }
    }
}

fn read_keys(path: &Path) -> Result<Vec<User>, Failure> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let users =
        serde_json::from_str::<Vec<User>>(&text).map_err(|error| wrong(error.to_string()))?;
    if users.is_empty() {
        return Err(wrong("it names nobody, so nobody could ask".to_owned()).into());
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use dynashard_core::ScalingMode;

    use super::*;

    fn parsed(words: &[&str]) -> ServeArgs {
        let command = ServeArgs::augment_args(clap::Command::new("serve").no_binary_name(true));
        let matches = command.try_get_matches_from(words).expect("flags");
        ServeArgs::from_arg_matches(&matches).expect("their values")
    }

    /// An endpoint that knows nothing of what its stack may do leaves it to the stack.
    #[test]
    fn growth_is_begun_by_the_endpoint_where_the_stack_lets_writers_and_the_role_is_told_to() {
        let stack = Settings::default();
        let policy = || Some(StackPolicy::of(&stack));
        let unknown = ScalingPolicy { mode: ScalingMode::Off, ..stack.scaling };
        let settings = || Settings { scaling: unknown, ..stack.clone() };
        let writers = |settings: Settings| (settings.scaling.mode, settings.scaling.writers);
        let decides = with_growth(settings(), policy(), Growth::Decide);
        assert_eq!(writers(decides), (ScalingMode::On, true));
        let reports = with_growth(settings(), policy(), Growth::Report);
        assert_eq!(writers(reports), (ScalingMode::On, false));
        let left = with_growth(settings(), None, Growth::Decide);
        assert_eq!(left.scaling.mode, ScalingMode::Off);
    }

    /// Whoever names a file of keys relies on it that others are refused.
    #[test]
    fn regression_keys_without_auth_keys_let_everybody_ask() {
        let refused = access(&parsed(&["--keys", "users.json"])).expect_err("it is refused");
        assert!(refused.to_string().contains("--auth keys"), "{refused}");
        assert!(matches!(access(&parsed(&[])), Ok(Access::ThisMachine)));
        assert!(access(&parsed(&["--address", "0.0.0.0"])).is_err());
    }
}
