//! The settings by which a program works on the tables of a stack that runs elsewhere.

use std::time::Duration;

use dynashard_core::ports::StoreError;
use dynashard_core::{
    Deadline, Error, ScalingMode, ScalingPolicy, Settings, ShrinkPolicy, StackPolicy, TableSchema,
};
use dynashard_keys::Separator;
use futures_util::future::join;
use thiserror::Error as ThisError;

use crate::credentials::ConnectError;
use crate::inspection::{Inspector, Unseen, schema_of, schema_of_main};
use crate::operator::Operator;
use crate::plain::owner;

/// Why the settings of a stack are not known.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum PinnedError {
    /// A table could not be looked at.
    #[error("{0}")]
    Unseen(String),
    /// No function of the stack has run yet.
    #[error("no settings are pinned in the metadata table: no function of the stack has run yet")]
    NothingPinned,
    /// The metadata table could not be read, or what it says is not understood.
    #[error("{0}")]
    Refused(Error),
}

impl From<ConnectError> for PinnedError {
    fn from(error: ConnectError) -> Self {
        Self::Unseen(error.to_string())
    }
}

impl From<StoreError> for PinnedError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

/// The tables of a stack, and by what a program works on them.
#[derive(Debug, Clone)]
pub struct StackTables {
    /// The table of the metadata.
    pub metadata_table: String,
    /// What the ARNs of tables of its account and region begin with, if DynamoDB has told.
    pub place: Option<String>,
    /// What the stack has pinned, with the keys and the TTL attribute that the tables have. Its own scaling is off: what such a
    /// program sees of throttles begins no growth. It reports what it is asked for, since the stack may shrink what nobody asks for.
    pub settings: Settings,
    /// What the stack decides by, if its functions have told. They do within a minute.
    pub policy: Option<StackPolicy>,
}

impl Operator {
    /// The stack of a main table, which says its metadata table itself unless that is named. What does not stand on one another
    /// is asked at once: an extension of Lambda starts before the first event of its environment.
    ///
    /// # Errors
    /// A table is not there, or no function of the stack has run yet.
    pub async fn stack_tables(
        &self,
        main_table: &str,
        metadata_table: Option<&str>,
        within: Duration,
    ) -> Result<StackTables, PinnedError> {
        let inspector = Inspector::of(self);
        let described = inspector.described(main_table);
        let (main, ttl_attribute) = join(described, inspector.ttl_attribute(main_table)).await;
        let main = (main_table, &main?);
        let schema = schema_of_main(main, Separator::default())?;
        let metadata_table = if let Some(named) = metadata_table {
            named.to_owned()
        } else {
            // A stack pins its settings, and then claims its main table.
            said_by(self, main_table, &schema).await?.ok_or(PinnedError::NothingPinned)?
        };
        let mut settings = Settings { schema, ..Settings::default() };
        settings.scaling = ScalingPolicy { mode: ScalingMode::Off, ..settings.scaling };
        settings.shrink = ShrinkPolicy { mode: ScalingMode::On, ..settings.shrink };
        let unpinned = self.directory(main_table, &metadata_table, settings.clone());
        let told = unpinned.pinned().read_with_policy(Deadline::after(unpinned.now(), within));
        let (metadata, told) = join(inspector.described(&metadata_table), told).await;
        schema_of(main, (&metadata_table, &metadata?), Separator::default())?;
        let (pinned, policy) =
            told.map_err(PinnedError::Refused)?.ok_or(PinnedError::NothingPinned)?;
        settings.schema.separator = pinned.schema.separator;
        settings.lease_term = pinned.lease_term.newest();
        settings.request_lifetime = pinned.request_lifetime.newest();
        // An item that expires is put in another way while items move.
        settings.ttl_attribute = match ttl_attribute {
            Ok(attribute) => attribute,
            Err(Unseen::NotSupported) => None,
            Err(why) => {
                let why = format!("DescribeTimeToLive of table {main_table}: {why}");
                return Err(PinnedError::Unseen(why));
            }
        };
        let place = main.1.arn.rsplit_once(":table/").map(|(place, _)| place.to_owned());
        Ok(StackTables { metadata_table, place, settings, policy })
    }

    /// The metadata table of the stack that serves a main table, as that names it; `None` if no stack has served it yet, or none since
    /// it was restored. Takes the permissions `dynamodb:DescribeTable` and `dynamodb:GetItem`.
    ///
    /// # Errors
    /// The main table is not there, or could not be read.
    pub async fn metadata_table_of(&self, main_table: &str) -> Result<Option<String>, PinnedError> {
        let main = Inspector::of(self).described(main_table).await?;
        said_by(self, main_table, &schema_of_main((main_table, &main), Separator::default())?).await
    }

    /// What the stack of these tables decides by, if its functions have told. They do within a minute.
    ///
    /// # Errors
    /// The metadata table could not be read.
    pub async fn stack_policy(
        &self,
        main_table: &str,
        metadata_table: &str,
        settings: &Settings,
        within: Duration,
    ) -> Result<Option<StackPolicy>, PinnedError> {
        let directory = self.directory(main_table, metadata_table, settings.clone());
        let deadline = Deadline::after(directory.now(), within);
        directory.pinned().policy(deadline).await.map_err(PinnedError::Refused)
    }
}

/// The metadata table that the owner's item of a main table names, unless it was written into another table.
async fn said_by(
    operator: &Operator,
    main_table: &str,
    schema: &TableSchema,
) -> Result<Option<String>, PinnedError> {
    let owner = owner(operator, main_table, schema).await?;
    Ok(owner.filter(|owner| owner.is_of_this_table).map(|owner| owner.metadata_table))
}
