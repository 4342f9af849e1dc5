//! The tables of a console, whatever they were found by.

use dynashard_aws_operator::{MeasuredTables, Operator, ReadMeter};
use dynashard_console::{Prices, Tables, UsagePace};
use dynashard_core::ports::UsageSource;
use dynashard_core::{Reader, Scaler, ScalingMode, Settings};

/// Where the tables are, and what the page may do with them.
pub(crate) struct Found {
    /// For people.
    pub(crate) place: String,
    pub(crate) operator: Operator,
    pub(crate) tables: MeasuredTables,
    pub(crate) settings: Settings,
    /// Whether a change of a shard count pins the settings; none if the page may change nothing.
    pub(crate) pins: Option<bool>,
    /// How CloudWatch is asked, and at which address if not its own; none if it is not.
    pub(crate) usage: Option<(Option<String>, UsagePace)>,
}

impl Found {
    /// The tables as the page reads them, with what it reads counted.
    pub(crate) fn tables(self) -> Tables {
        let Self { place, operator, tables, settings, pins, usage } = self;
        let (watched, asked) = (ReadMeter::default(), ReadMeter::default());
        let (watching, operator) = (operator.metered(&watched), operator.metered(&asked));
        // A reader that only looks reports nothing to the ledgers.
        let mut looking = settings.clone();
        looking.scaling.mode = ScalingMode::Off;
        looking.shrink.mode = ScalingMode::Off;
        // What it shows of an item is what the table has.
        looking.read_replicas = 0;
        let directory = |operator: &Operator, settings: &Settings| {
            operator.directory(&tables.main, &tables.metadata, settings.clone())
        };
        let scaler = pins.map(|pins| {
            let directory = directory(&operator, &settings);
            Scaler::new(if pins { directory.pinning() } else { directory })
        });
        Tables {
            place,
            scaling: settings.scaling.mode,
            reader: Reader::new(directory(&operator, &looking)),
            watcher: Reader::new(directory(&watching, &looking)),
            scaler,
            usage: usage.map(|(url, pace)| {
                let source = operator.usage(url.as_deref(), tables.clone());
                (Box::new(source) as Box<dyn UsageSource>, pace)
            }),
            watched_rcu: Box::new(move || watched.consumed_rcu()),
            asked_rcu: Box::new(move || asked.consumed_rcu()),
            prices: prices(),
        }
    }
}

/// What units cost on demand, by the price file of the project.
fn prices() -> Option<Prices> {
    let prices = crate::operator::prices(None).ok()?;
    Some(Prices { write_units_usd: prices.write_unit, read_units_usd: prices.read_unit })
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
