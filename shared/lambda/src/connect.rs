//! The stores of a function: its configuration, connected.

use std::sync::Arc;

use dynashard_api::settings::ConfigError;
use dynashard_aws::{
    CloudWatchHeat, DynamoIndexStore, DynamoItemStore, DynamoRecordStore, OsEntropy, ServerClock,
    SystemClock,
};
use dynashard_core::ports::World;
use dynashard_core::{Directory, Reader, Settings, Writer};

use crate::config::{ALARM_NAME, Config};
use crate::metrics::{HeatTelemetry, Metrics};

impl Config {
    /// The metrics of this function.
    pub fn metrics(&self) -> Metrics {
        Metrics::to_stdout(self.function_name.clone())
    }

    /// The stores of this configuration in DynamoDB, and the clock that they share, for a function that
    /// writes. Made once, when an execution environment starts.
    pub async fn connect(self) -> Directory {
        let (client, clock) = self.client().await;
        self.directory(client, clock).pinning()
    }

    /// As [`Config::connect`], for the function that reads. It changes nothing in the metadata table but the
    /// ledgers.
    pub async fn connect_reader(self) -> Reader {
        let metrics = self.metrics();
        let (client, clock) = self.client().await;
        let directory = self.directory(client, clock);
        let telemetry = HeatTelemetry::new(metrics, Arc::clone(&directory.context().world().clock));
        Reader::new(directory).with_telemetry(Arc::new(telemetry))
    }

    async fn client(&self) -> (dynashard_aws::Client, SystemClock) {
        let server_clock = ServerClock::default();
        let endpoint = self.dynamodb_endpoint.as_deref();
        let client = dynashard_aws::connect(endpoint, server_clock.clone()).await;
        (client, SystemClock::new(server_clock))
    }

    /// As [`Config::connect`], for the function that writes, whose telemetry goes into its metrics.
    pub async fn connect_writer(self) -> Writer {
        let metrics = self.metrics();
        let directory = self.connect().await;
        let telemetry = HeatTelemetry::new(metrics, Arc::clone(&directory.context().world().clock));
        Writer::new(directory).with_telemetry(Arc::new(telemetry))
    }

    /// As [`Config::connect`], for the function that acts on throttles: CloudWatch comes in place of
    /// the items.
    pub async fn connect_to_heat(self) -> Result<(CloudWatchHeat, Directory), ConfigError> {
        let alarms =
            self.alarms.clone().ok_or_else(|| ConfigError::new(ALARM_NAME, "is missing"))?;
        let server_clock = ServerClock::default();
        let endpoint = self.dynamodb_endpoint.as_deref();
        let (dynamodb, cloudwatch) =
            dynashard_aws::connect_with_cloudwatch(endpoint, server_clock.clone()).await;
        let clock = SystemClock::new(server_clock);
        let heat =
            CloudWatchHeat::new(dynamodb.clone(), cloudwatch, self.main_table.clone(), alarms);
        Ok((heat, self.directory(dynamodb, clock).pinning()))
    }

    fn directory(self, client: dynashard_aws::Client, clock: SystemClock) -> Directory {
        let (world, settings) = self.world(client, clock);
        Directory::new(world, settings)
    }

    fn world(self, client: dynashard_aws::Client, clock: SystemClock) -> (World, Settings) {
        let (schema, table) = (self.settings.schema.clone(), self.main_table);
        let records = DynamoRecordStore::new(client.clone(), self.metadata_table, &schema);
        let indexes = DynamoIndexStore::new(client.clone(), table.clone(), schema.clone());
        let items = DynamoItemStore::new(client, clock.clone(), table, schema);
        let world = World::new(items, records, clock, OsEntropy).with_indexes(indexes);
        (world, self.settings)
    }
}
