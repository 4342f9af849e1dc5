//! The colours of charts, in the console and wherever else the project draws: those of Okabe and Ito, which people
//! with any kind of colour vision can tell apart. What is drawn differs in form, too: lines are solid, dashed or dotted, and what is refused is an area.

/// Red, green and blue, each from 0 to 255.
pub type Rgb = (u8, u8, u8);

/// A colour on a light ground and on a dark one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hue {
    /// What it stands for, as the name of a custom property in CSS.
    pub name: &'static str,
    /// On white.
    pub light: Rgb,
    /// On nearly black.
    pub dark: Rgb,
}

/// What clients ask for.
pub const DEMAND: Hue = Hue { name: "demand", light: (60, 60, 60), dark: (214, 214, 214) };
/// What DynamoDB granted.
pub const ABSORBED: Hue = Hue { name: "absorbed", light: (0, 114, 178), dark: (86, 180, 233) };
/// What it refused.
pub const THROTTLED: Hue = Hue { name: "throttled", light: (213, 94, 0), dark: (255, 140, 66) };
/// What the shards take.
pub const CAPACITY: Hue = Hue { name: "capacity", light: (0, 158, 115), dark: (64, 200, 160) };
/// Items that move.
pub const MOVED: Hue = Hue { name: "moved", light: (200, 114, 162), dark: (226, 150, 192) };
/// A change that is announced.
pub const ANNOUNCED: Hue = Hue { name: "announced", light: (165, 114, 0), dark: (245, 190, 70) };

/// All of them.
pub const HUES: [Hue; 6] = [DEMAND, ABSORBED, THROTTLED, CAPACITY, MOVED, ANNOUNCED];

/// The palette as custom properties, `--absorbed` and so on, for the page.
pub fn css() -> String {
    let properties = |of: fn(&Hue) -> Rgb| {
        let one = |hue: &Hue| {
            let (red, green, blue) = of(hue);
            format!("--{}:rgb({red} {green} {blue});", hue.name)
        };
        HUES.iter().map(one).collect::<String>()
    };
    let (light, dark) = (properties(|hue| hue.light), properties(|hue| hue.dark));
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contrast as the Web Content Accessibility Guidelines reckon it (1.4.11: at least 3 for what is drawn).
    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let light = |(r, g, b): Rgb| 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) + 0.05;
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    #[test]
    fn the_lines_stand_out_from_either_ground() {
        for hue in HUES {
            assert!(contrast(hue.light, (255, 255, 255)) >= 3.0, "{}", hue.name);
            // A card is a little darker than white, and lighter than the page on a dark screen.
            assert!(contrast(hue.light, (247, 248, 250)) >= 3.0, "{}", hue.name);
            assert!(contrast(hue.dark, (30, 35, 42)) >= 3.0, "{}", hue.name);
        }
    }

    #[test]
    fn the_page_gets_both_sets() {
        let css = css();
        assert!(
            css.contains("--absorbed:rgb(0 114 178);")
                && css.contains("--absorbed:rgb(86 180 233);")
        );
    }
}
