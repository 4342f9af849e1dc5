//! Finds the tables, and the settings of their stack.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use dynashard_api::settings::{ConfigError, settings_from_variables};
use dynashard_aws::DynamoRecordStore;
use dynashard_aws_operator::{
    Caller, Inspector, MeasuredTables, Operator, PinnedError, Stack, Unseen,
};
use dynashard_core::{
    Code, Deadline, Directory, Error, GrowKeys, Pinned, Reader, ScalingMode, ScalingPolicy,
    Settings, StackPolicy, TableSchema, Waits, Writer,
};
use dynashard_keys::{Placement, Separator, ShardCount};

use super::{Failure, shell};
use crate::context::Context;

/// `RebalanceFunction` pins the settings of a new stack when its schedule first calls it, if no request to
/// `WriteFunction` comes before.
const PINNED_WITHIN: Duration = Duration::from_secs(75);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Where the tables are.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectArgs {
    /// The CloudFormation stack, from which the command takes the tables and the parameters. Without a flag, `DYNASHARD_STACK_NAME`
    /// says it, or what `dynashard use` has kept.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["main_table", "metadata_table"])]
    stack_name: Option<String>,
    /// The table of the items, instead of --stack-name. Under `dynashard local` it is `MainTable`.
    #[arg(long, value_name = "NAME", required_unless_present = "stack_name")]
    main_table: Option<String>,
    /// The table of the metadata. A main table that a stack has served says itself which that is.
    #[arg(long, value_name = "NAME", requires = "main_table")]
    metadata_table: Option<String>,
    #[command(flatten)]
    pub(super) caller: CallerArgs,
    #[command(flatten)]
    parameters: ParameterArgs,
}

/// Who asks, and where.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct CallerArgs {
    /// Profile of the AWS configuration files. One that signs in, by SSO or `aws login`, takes the aws CLI, which is
    /// asked for its credentials.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The AWS region.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Send requests to this server instead of AWS, as in `http://127.0.0.1:8000`. An address of this
    /// machine needs neither a region nor an account: if neither the environment nor the profile holds keys,
    /// placeholders sign the requests.
    #[arg(long, value_name = "URL")]
    pub(super) endpoint_url: Option<String>,
}

/// The settings that the tables do not hold. With `--stack-name` they come from the stack.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Stack parameters, with --main-table")]
struct ParameterArgs {
    /// Use this `Separator` instead of the pinned one.
    #[arg(long, value_name = "TEXT", conflicts_with = "stack_name")]
    separator: Option<Separator>,
    /// Use this `Placement` instead of the stack's: `scale` gives it for good to a collection that was never changed.
    #[arg(long, value_name = "NAME", conflicts_with = "stack_name")]
    placement: Option<Placement>,
    /// Use this `LeaseSecs` instead of the pinned one.
    #[arg(long, value_name = "SECS", conflicts_with = "stack_name", value_parser = clap::value_parser!(u64).range(1..=60))]
    lease_secs: Option<u64>,
    /// Use this `RequestLifetimeSecs` instead of the pinned one. Without either, `doctor` judges none.
    #[arg(long, value_name = "SECS", conflicts_with = "stack_name", value_parser = clap::value_parser!(u64).range(1..=1_800))]
    request_lifetime_secs: Option<u64>,
    /// The parameter `GrowKeys`. Without it `import` lets no collection grow, and `scale` changes what the stack lets grow.
    #[arg(long, value_name = "PATTERNS", conflicts_with = "stack_name")]
    grow_keys: Option<GrowKeys>,
    /// Use this `MaxShards` instead of the stack's.
    #[arg(long, value_name = "N", conflicts_with = "stack_name")]
    max_shards: Option<NonZeroU32>,
}

/// Where the tables are, and the stack that they were found by.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) operator: Operator,
    pub(super) main_table: String,
    pub(super) metadata_table: String,
    /// Only if it was named.
    pub(super) stack: Option<Stack>,
    /// Those of the stack. Without one they are those of the flags, and the keys have their default
    /// names.
    pub(super) settings: Settings,
}

/// The way to the tables.
#[derive(Clone)]
pub(super) struct Connection {
    /// Its settings are what the stack or the flags say, completed by what is pinned.
    pub(super) place: Place,
    /// Only if the tables were found by it.
    pub(super) stack_name: Option<String>,
    /// Of no meaning if a stack was named.
    flags: ParameterArgs,
}

/// A connection whose settings are those that the stack has pinned, or that whoever writes by it pins.
#[derive(Clone)]
pub(super) struct PinnedConnection(Connection);

impl CallerArgs {
    /// These flags, to be kept.
    pub(super) fn context(&self) -> Context {
        let Self { profile, region, endpoint_url } = self.clone();
        Context { profile, region, endpoint_url, ..Context::default() }
    }
}

impl ConnectArgs {
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        let mut place = Box::pin(self.locate()).await?;
        if place.stack.is_none() {
            place.settings.schema = place.described().await?;
            let directory = place.directory(place.settings.clone());
            if let Some(pinned) = directory.pinned().read(deadline(&directory)).await? {
                let policy = Box::pin(directory.pinned().policy(deadline(&directory))).await?;
                self.parameters.complete(&mut place.settings, &pinned, policy);
            }
        }
        Ok(Connection {
            place,
            stack_name: self.stack_name.clone(),
            flags: self.parameters.clone(),
        })
    }

    /// Finds the tables, without a request to DynamoDB if both are named.
    pub(super) async fn locate(&self) -> Result<Place, Failure> {
        let operator = self.caller.connect().await?;
        let Some(stack_name) = &self.stack_name else {
            // The parser sees to it that this one is given.
            let main_table = self.main_table.clone().unwrap_or_default();
            let metadata_table = match &self.metadata_table {
                Some(named) => named.clone(),
                None => metadata_table_of(&operator, &main_table).await?,
            };
            let settings = self.parameters.settings()?;
            return Ok(Place { operator, main_table, metadata_table, stack: None, settings });
        };
        let stack = Stack::find(&operator, stack_name).await?;
        let table = |logical_id: &str| {
            table_of(&stack, logical_id).cloned().ok_or_else(|| {
                let why = format!("stack {stack_name} has no {logical_id}; is it dynashard's?");
                Failure::connection(why)
            })
        };
        let (main_table, metadata_table) = (table("MainTable")?, table("MetadataTable")?);
        if !tells_settings(&stack) {
            // They are what is pinned, as where the tables are named.
            let settings = self.parameters.settings()?;
            return Ok(Place { operator, main_table, metadata_table, stack: None, settings });
        }
        let settings = settings_of(&stack.parameters)
            .map_err(|why| Failure::connection(format!("stack {stack_name}: {why}")))?;
        Ok(Place { operator, main_table, metadata_table, stack: Some(stack), settings })
    }

    /// These flags, for the tables of somebody else.
    pub(super) fn of_tables(&self, main_table: &str, metadata_table: &str) -> Self {
        Self {
            stack_name: None,
            main_table: Some(main_table.to_owned()),
            metadata_table: Some(metadata_table.to_owned()),
            caller: self.caller.clone(),
            parameters: self.parameters.clone(),
        }
    }

    /// Whether a server is asked that stands in for AWS: no other is reached without encryption.
    pub(super) fn is_stand_in(&self) -> bool {
        self.caller.endpoint_url.as_ref().is_some_and(|url| url.starts_with("http://"))
    }

    /// Whether a stack is named, which may tell its settings by what it has pinned alone.
    pub(super) fn names_stack(&self) -> bool {
        self.stack_name.is_some()
    }

    /// `RequestLifetimeSecs` as the flag has it.
    pub(super) fn request_lifetime_secs(&self) -> Option<u64> {
        self.parameters.request_lifetime_secs
    }
}

/// The metadata table that a main table says to be its own.
async fn metadata_table_of(operator: &Operator, main_table: &str) -> Result<String, Failure> {
    match operator.metadata_table_of(main_table).await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Failure::connection(format!(
            "the table {main_table} does not say its metadata table, as no stack has served it, or none since it was restored: name \
             --metadata-table"
        ))),
        Err(PinnedError::Refused(error)) => Err(error.into()),
        Err(error) => Err(Failure::connection(error.to_string())),
    }
}

/// The name of a table of a stack: one that existed before, or the stack's own. `CloudFormation` tells a hundred resources, and a
/// stack of the CDK may have more, so its outputs come first.
pub(super) fn table_of<'a>(stack: &'a Stack, logical_id: &str) -> Option<&'a String> {
    let existing = stack.parameters.get(&format!("Existing{logical_id}"));
    let told = stack.outputs.get(&format!("{logical_id}Name"));
    existing.filter(|name| !name.is_empty()).or(told).or_else(|| stack.resources.get(logical_id))
}

/// Whether a stack has its settings for parameters. One of the CDK has them in its template, which tells nobody.
pub(super) fn tells_settings(stack: &Stack) -> bool {
    stack.parameters.contains_key("PartitionKeyName")
}

impl CallerArgs {
    /// The flags that were given, for commands that are printed. Those of the aws command have the same names.
    pub(super) fn for_shell(&self) -> String {
        shell::flags(&[
            ("--profile", self.profile.as_deref()),
            ("--region", self.region.as_deref()),
            ("--endpoint-url", self.endpoint_url.as_deref()),
        ])
    }

    pub(super) async fn connect(&self) -> Result<Operator, Failure> {
        let caller = Caller {
            profile: self.profile.clone(),
            region: self.region.clone(),
            endpoint_url: self.endpoint_url.clone(),
        };
        Ok(Operator::connect(&caller).await?)
    }
}

impl Place {
    /// The names and types of the tables' keys, as DynamoDB describes them.
    async fn described(&self) -> Result<TableSchema, Failure> {
        let separator = self.settings.schema.separator;
        Ok(Inspector::of(&self.operator)
            .schema(&self.main_table, &self.metadata_table, separator)
            .await?)
    }

    /// What is pinned, if anything is.
    pub(super) async fn pinned(&self) -> Result<Option<Pinned>, Error> {
        let directory = self.directory(self.settings.clone());
        directory.pinned().read(deadline(&directory)).await
    }

    fn directory(&self, settings: Settings) -> Directory {
        self.operator.directory(&self.main_table, &self.metadata_table, settings)
    }
}

impl ParameterArgs {
    /// As the flags have it, and the template's defaults where they are left out.
    fn settings(&self) -> Result<Settings, Failure> {
        let Self { separator, placement, lease_secs, request_lifetime_secs, grow_keys, max_shards } =
            self;
        let defaults = Settings::default();
        let separator = separator.unwrap_or_default();
        Ok(Settings {
            schema: TableSchema { separator, ..TableSchema::default() },
            placement: placement.unwrap_or_default(),
            lease_term: lease_secs.map_or(defaults.lease_term, Duration::from_secs),
            request_lifetime: request_lifetime_secs
                .map_or(defaults.request_lifetime, Duration::from_secs),
            grow_keys: grow_keys.clone().unwrap_or_default(),
            max_shards: match max_shards {
                Some(most) => ShardCount::new(most.get()).map_err(dynashard_core::Error::from)?,
                None => defaults.max_shards,
            },
            ..defaults
        })
    }

    /// Takes from what is pinned, and from what the stack decides by, whatever the flags leave out.
    fn complete(&self, settings: &mut Settings, pinned: &Pinned, policy: Option<StackPolicy>) {
        if self.separator.is_none() {
            settings.schema.separator = pinned.schema.separator;
        }
        if self.lease_secs.is_none() {
            settings.lease_term = pinned.lease_term.accepted;
        }
        if self.request_lifetime_secs.is_none() {
            settings.request_lifetime = pinned.request_lifetime.accepted;
        }
        let Some(policy) = policy else { return };
        let of_flags = settings.clone();
        *settings = policy.applied_to(of_flags.clone());
        if self.placement.is_some() {
            settings.placement = of_flags.placement;
        }
        if self.max_shards.is_some() {
            settings.max_shards = of_flags.max_shards;
        }
        // A key that the stack leaves alone may have writers that would not find its other shards.
        if self.grow_keys.is_some() {
            settings.grow_keys = of_flags.grow_keys;
        }
    }
}

impl Connection {
    pub(super) fn reader(&self) -> Reader {
        Reader::new(self.directory())
    }

    pub(super) fn directory(&self) -> Directory {
        self.place.directory(self.place.settings.clone())
    }

    /// A directory over items of which what can be understood is read.
    pub(super) fn directory_bearing_damage(&self) -> Directory {
        let Place { operator, main_table, metadata_table, settings, .. } = &self.place;
        let mut world = operator.world(main_table, metadata_table, &settings.schema);
        let items = operator.items(main_table, &settings.schema);
        world.items = Arc::new(items.bearing_damage());
        Directory::new(world, settings.clone())
    }

    /// All collections there are.
    pub(super) fn catalog(&self) -> DynamoRecordStore {
        let Place { operator, metadata_table, settings, .. } = &self.place;
        operator.records(metadata_table, &settings.schema)
    }

    /// What changes wait for: what is pinned says it, and where nothing is, the settings.
    pub(super) async fn waits(&self) -> Waits {
        let directory = self.place.directory(self.place.settings.clone());
        // Whoever only shows times does without.
        let pinned = directory.pinned().read(deadline(&directory)).await.ok().flatten();
        pinned.as_ref().map_or_else(|| Waits::of(&self.place.settings), Pinned::waits)
    }

    /// The tables, as CloudWatch calls them.
    pub(super) async fn measured(&self) -> MeasuredTables {
        let resources = self.place.stack.as_ref().map(|stack| &stack.resources);
        MeasuredTables {
            main: self.place.main_table.clone(),
            main_indexes: indexes_of(&self.place.operator, &self.place.main_table).await,
            metadata: self.place.metadata_table.clone(),
            rebalance_function: resources.and_then(|of| of.get("RebalanceFunction").cloned()),
        }
    }

    /// How the tables call and type their keys.
    pub(super) fn schema(&self) -> &TableSchema {
        &self.place.settings.schema
    }

    /// This connection for a command that writes, which needs pinned settings. Those of a stack it pins itself, and
    /// flags that name all of them. Defaults may not be those of the stack, so it waits until that has
    /// pinned its own, and takes them.
    pub(super) async fn until_pinned(&self) -> Result<PinnedConnection, Failure> {
        if self.pins() {
            return Ok(PinnedConnection(self.clone()));
        }
        let directory = self.directory();
        let mut until = None;
        let pinned = loop {
            if let Some(pinned) = directory.pinned().read(deadline(&directory)).await? {
                break pinned;
            }
            let until = until.get_or_insert_with(|| {
                note!(
                    "dynashard: waiting for the stack's functions to pin its settings, which takes about a minute"
                );
                Deadline::after(directory.now(), PINNED_WITHIN)
            });
            if until.remaining(directory.now()).is_zero() {
                let why = "no settings are pinned, as no function of the stack has written anything or was called by its \
                           schedule: does RebalanceFunction run? To pin them before there is a stack, name --separator, \
                           --lease-secs and --request-lifetime-secs";
                return Err(Error::new(Code::SettingsMismatch, why).into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let mut connection = self.clone();
        let policy = directory.pinned().policy(deadline(&directory)).await?;
        connection.flags.complete(&mut connection.place.settings, &pinned, policy);
        Ok(PinnedConnection(connection))
    }

    /// Whether whoever writes by it pins the settings: the parameters of a stack or the flags have named all that are pinned.
    pub(super) fn pins(&self) -> bool {
        let ParameterArgs { separator, lease_secs, request_lifetime_secs, .. } = self.flags;
        let times = lease_secs.zip(request_lifetime_secs);
        self.place.stack.is_some() || (separator.is_some() && times.is_some())
    }
}

impl Deref for PinnedConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl PinnedConnection {
    /// The connection, to read by.
    pub(super) fn into_inner(self) -> Connection {
        self.0
    }

    /// A writer like those of the functions. What its throttles say about shard counts is acted on as the
    /// stack has it, unless `grows` forbids it.
    pub(super) async fn writer(&self, grows: bool) -> Result<Writer, Failure> {
        let Place { operator, main_table: table, settings, .. } = &self.place;
        let mut settings = settings.clone();
        // Plain programs may write what the stack does not let grow.
        let knows_grow_keys = self.place.stack.is_some() || self.flags.grow_keys.is_some();
        if !grows || !knows_grow_keys {
            settings.scaling = ScalingPolicy { mode: ScalingMode::Off, ..settings.scaling };
        }
        if self.place.stack.is_none() {
            // No flag says it, and an item that expires is put in another way while items move.
            settings.ttl_attribute = match Inspector::of(operator).ttl_attribute(table).await {
                Ok(attribute) => attribute,
                Err(Unseen::NotSupported) => None,
                Err(why) => {
                    let why = format!("DescribeTimeToLive of table {table}: {why}");
                    return Err(Failure::connection(why));
                }
            };
        }
        // An import has a pace of its own for each shard.
        Ok(Writer::new(self.writing(self.place.directory(settings))).unpaced())
    }

    /// A directory that a command writes by.
    pub(super) fn writing_directory(&self) -> Directory {
        self.writing(self.directory())
    }

    fn writing(&self, directory: Directory) -> Directory {
        if self.pins() { directory.pinning() } else { directory }
    }
}

/// The moment by which the next step must have been done. Refusals are tried again until then.
pub(super) fn deadline(directory: &Directory) -> Deadline {
    Deadline::after(directory.now(), super::PATIENCE)
}

/// The settings that a stack's parameters give its functions, but that the command keeps no items: what it shows is as it is. An
/// error names each parameter that is wrong.
///
/// The template hands each parameter to the functions as a variable of the same name.
pub(crate) fn settings_of(parameters: &BTreeMap<String, String>) -> Result<Settings, String> {
    let settings =
        settings_from_variables(|variable| parameters.get(&parameter(variable)).cloned()).map_err(
            |errors| {
                let problem = |error: &ConfigError| {
                    format!("its parameter {} {}", parameter(error.name()), error.problem())
                };
                errors.each().map(problem).collect::<Vec<_>>().join("; ")
            },
        )?;
    Ok(Settings { item_cache: None, ..settings })
}

/// The names of a table's global secondary indexes, as far as they are shown to the caller.
async fn indexes_of(operator: &Operator, table: &str) -> Vec<String> {
    let found = Inspector::of(operator).table(table).await;
    found
        .map(|state| state.indexes.into_iter().map(|index| index.name).collect())
        .unwrap_or_default()
}

/// The parameter that a variable holds: `LeaseSecs` of `LEASE_SECS`.
pub(super) fn parameter(variable: &str) -> String {
    let words = variable.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_owned() + &rest.to_ascii_lowercase()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../../template.yaml");

    /// The defaults of the template's parameters, as CloudFormation would answer them.
    fn parameters() -> BTreeMap<String, String> {
        let mut parameters = BTreeMap::new();
        let mut name = None;
        let sections = TEMPLATE.lines().skip_while(|line| *line != "Parameters:");
        for line in sections.take_while(|line| *line != "Globals:") {
            if let Some(value) = line.trim().strip_prefix("Default: ") {
                parameters.extend(name.take().zip(Some(value.trim_matches('"').to_owned())));
            } else if line.starts_with("  ") && !line.starts_with("   ") {
                name = line.trim().strip_suffix(':').map(str::to_owned);
            }
        }
        parameters
    }

    /// A key of a stack whose placement is `jump` got `xxh64` for good.
    #[test]
    fn regression_flags_that_were_left_out_had_their_defaults_and_not_what_the_stack_decides_by() {
        let shards = |n| ShardCount::new(n).expect("a count");
        let decides = Settings {
            placement: Placement::Jump,
            max_shards: shards(16),
            grow_keys: "EVENT#*".parse().expect("patterns"),
            ..Settings::default()
        };
        let settled = |flags: ParameterArgs| {
            let mut settings = flags.settings().expect("settings");
            let pinned = Pinned::of(&Settings::default());
            flags.complete(&mut settings, &pinned, Some(StackPolicy::of(&decides)));
            settings
        };
        let nothing = ParameterArgs {
            separator: None,
            placement: None,
            lease_secs: None,
            request_lifetime_secs: None,
            grow_keys: None,
            max_shards: None,
        };
        assert_eq!(settled(nothing.clone()), decides);
        let given = ParameterArgs {
            placement: Some(Placement::Random),
            max_shards: NonZeroU32::new(64),
            grow_keys: Some(GrowKeys::default()),
            ..nothing
        };
        let expected = Settings {
            placement: Placement::Random,
            max_shards: shards(64),
            grow_keys: GrowKeys::default(),
            ..decides.clone()
        };
        assert_eq!(settled(given), expected);
    }

    #[test]
    fn the_settings_of_a_stack_are_those_of_its_functions() {
        let mut stack = Stack { parameters: parameters(), ..Stack::default() };
        assert_eq!(settings_of(&stack.parameters), Ok(Settings::default()));
        stack.parameters.insert("LeaseSecs".to_owned(), "2".to_owned());
        stack.parameters.insert("SortKeyType".to_owned(), "N".to_owned());
        let settings = settings_of(&stack.parameters).expect("settings");
        assert_eq!(settings.lease_term, Duration::from_secs(2));
        // The console showed what it had read long before.
        stack.parameters.insert("ItemCacheSecs".to_owned(), "3600".to_owned());
        assert_eq!(settings_of(&stack.parameters).map(|settings| settings.item_cache), Ok(None));
        stack.parameters.remove("Separator");
        assert_eq!(
            settings_of(&stack.parameters),
            Err("its parameter Separator is missing".to_owned())
        );
    }

    #[test]
    fn regression_the_shards_were_counted_under_the_default_keys() {
        let mut parameters = parameters();
        for (name, value) in
            [("PartitionKeyName", "airport"), ("SortKeyName", "departure"), ("Separator", "_")]
        {
            parameters.insert(name.to_owned(), value.to_owned());
        }
        let schema = settings_of(&parameters).expect("settings").schema;
        assert_eq!(
            (schema.partition_key_name.as_str(), schema.sort_key_name.as_str(), schema.separator),
            ("airport", "departure", Separator::Underscore)
        );
    }

    /// That the variables of the functions are called so is the template's affair.
    #[test]
    fn each_variable_is_named_like_its_parameter() {
        let mut variables = 0;
        for line in TEMPLATE.lines() {
            let Some((variable, name)) = line.trim().split_once(": !Ref ") else { continue };
            let is_variable = variable.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            if is_variable && parameters().contains_key(name) {
                assert_eq!(parameter(variable), name);
                variables += 1;
            }
        }
        assert!(variables >= 10, "{variables}");
    }
}
