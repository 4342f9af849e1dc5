//! The settings by which a program works on the tables of a stack that runs elsewhere.

use std::time::Duration;

use dynashard_core::{Deadline, Error, ScalingMode, ScalingPolicy, Settings, StackPolicy};
use dynashard_keys::Separator;
use thiserror::Error as ThisError;

use crate::inspection::{Inspector, Unseen};
use crate::operator::{ConnectError, Operator};

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

impl Operator {
    /// The settings that the stack of these tables has pinned, with the keys and the TTL attribute that the tables have. Its own scaling
    /// is off: what such a program sees of throttles begins no growth.
    ///
    /// # Errors
    /// A table is not there, or no function of the stack has run yet.
    pub async fn pinned_settings(
        &self,
        main_table: &str,
        metadata_table: &str,
        within: Duration,
    ) -> Result<Settings, PinnedError> {
        let inspector = Inspector::of(self);
        let schema = inspector.schema(main_table, metadata_table, Separator::default()).await?;
        let mut settings = Settings { schema, ..Settings::default() };
        settings.scaling = ScalingPolicy { mode: ScalingMode::Off, ..settings.scaling };
        let unpinned = self.directory(main_table, metadata_table, settings.clone());
        let pinned = unpinned.pinned().read(Deadline::after(unpinned.now(), within)).await;
        let pinned = pinned.map_err(PinnedError::Refused)?.ok_or(PinnedError::NothingPinned)?;
        settings.schema.separator = pinned.schema.separator;
        settings.lease_term = pinned.lease_term.newest();
        settings.request_lifetime = pinned.request_lifetime.newest();
        // An item that expires is put in another way while items move.
        settings.ttl_attribute = match inspector.ttl_attribute(main_table).await {
            Ok(attribute) => attribute,
            Err(Unseen::NotSupported) => None,
            Err(why) => {
                let why = format!("DescribeTimeToLive of table {main_table}: {why}");
                return Err(PinnedError::Unseen(why));
            }
        };
        Ok(settings)
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
