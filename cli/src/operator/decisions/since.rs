//! `--since` of `dynashard decisions`.

use std::str::FromStr;

/// A moment: so many seconds ago, or an epoch second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    Ago(u64),
    At(u64),
}

impl Since {
    pub(super) fn epoch_secs(self, now_secs: u64) -> u64 {
        match self {
            Self::Ago(secs) => now_secs.saturating_sub(secs),
            Self::At(secs) => secs,
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            "it must be a time with its unit, as in 90s, 30m, 6h or 2d, or an epoch second, as in 1795361331"
                .to_owned()
        };
        let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        let number = digits.parse::<u64>().map_err(|_| wrong())?;
        let unit_secs = match unit {
            "" => return Ok(Self::At(number)),
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        Ok(Self::Ago(number.saturating_mul(unit_secs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_an_epoch_second_has_none() {
        let of = |text: &str| text.parse::<Since>().map(|since| since.epoch_secs(1_000_000));
        assert_eq!(of("90s"), Ok(999_910));
        assert_eq!(of("30m"), Ok(998_200));
        assert_eq!(of("6h"), Ok(978_400));
        assert_eq!(of("2d"), Ok(827_200));
        assert_eq!(of("9000d"), Ok(0), "before the epoch");
        assert_eq!(of("999000"), Ok(999_000));
        for wrong in ["", "h", "-1h", "1.5h", "6 h", "6H", "1h30m", "yesterday", "٣h"] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(of("99999999999999999999").is_err(), "no such second");
    }
}
