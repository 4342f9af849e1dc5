//! Figures for people.

/// A figure with its thousands set apart, and to three digits where it is small.
pub fn number(figure: f64) -> String {
    let digits = if figure >= 100.0 || (figure - figure.round()).abs() < 1e-9 {
        format!("{figure:.0}")
    } else if figure >= 1.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.3}")
    };
    grouped(&digits)
}

/// A count with its thousands set apart.
pub fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// US dollars, to the cent.
pub fn dollars(amount: f64) -> String {
    format!("${}", grouped(&format!("{amount:.2}")))
}

fn grouped(digits: &str) -> String {
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let groups = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",") + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        let shown = [0.0, 0.123_4, 1.0, 18.18, 999.6, 11_112.0, 1_234_567.8].map(number);
        assert_eq!(shown, ["0", "0.123", "1", "18.2", "1,000", "11,112", "1,234,568"]);
        assert_eq!(dollars(1_620.0), "$1,620.00");
        assert_eq!(count(20_000_000), "20,000,000");
    }
}
