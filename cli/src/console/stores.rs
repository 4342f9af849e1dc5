use dynashard_aws::{DynamoItemStore, DynamoMetadataStore, OsEntropy, SystemClock};
use dynashard_aws_operator::CloudWatchUsage;
use dynashard_console::{Prices, Stores, Tables};
use dynashard_core::{ScalingMode, Settings};
use serde_json::Value;

/// The tables of DynamoDB.
pub(crate) struct DynamoStores;

impl Stores for DynamoStores {
    type Items = DynamoItemStore;
    type Metadata = DynamoMetadataStore;
    type Clock = SystemClock;
    type Entropy = OsEntropy;
    type Usage = CloudWatchUsage;
}

/// What units cost on demand, by the price file of the project.
pub(crate) fn prices() -> Option<Prices> {
    let file = include_str!("../../../data/prices-us-east-1.json");
    let file = serde_json::from_str::<Value>(file).ok()?;
    let unit = |name: &str| {
        let price = &file["prices"][name];
        Some(price["usd"].as_f64()? / price["per"].as_f64()?)
    };
    Some(Prices {
        write_units_usd: unit("dynamodb_write_units")?,
        read_units_usd: unit("dynamodb_read_units")?,
    })
}

/// Whatever serves a page of [`DynamoStores`].
pub(crate) type DynamoTables = Tables<DynamoStores>;

/// The settings of a reader that reports nothing to the ledgers.
pub(crate) fn only_looking(mut settings: Settings) -> Settings {
    settings.scaling.mode = ScalingMode::Off;
    settings.shrink.mode = ScalingMode::Off;
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cost_what_the_price_file_says() {
        let prices = prices().expect("prices");
        assert!((prices.write_units_usd * 1e6 - 0.625).abs() < 1e-9, "{prices:?}");
        assert!((prices.read_units_usd * 1e6 - 0.125).abs() < 1e-9, "{prices:?}");
    }
}
