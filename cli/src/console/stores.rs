use dynashard_console::Prices;
use dynashard_core::{ScalingMode, Settings};

/// What units cost on demand, by the price file of the project.
pub(crate) fn prices() -> Option<Prices> {
    let prices = crate::operator::prices(None).ok()?;
    Some(Prices { write_units_usd: prices.write_unit, read_units_usd: prices.read_unit })
}

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
