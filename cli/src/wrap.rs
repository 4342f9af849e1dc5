//! Texts for people in lines of a width, whose further lines stand below the words and not below the name before them.

/// A help text in lines of at most so many columns, whatever its width was: lines of a paragraph flow together, and so do
/// those that go on under a description in a list. Commands keep their lines.
pub(crate) fn flowing(text: &str, columns: usize) -> String {
    /// From this indent on a line goes on with the one before: names of lists stand further left.
    const GOES_ON: usize = 5;
    /// From this one on it is a description, also where its name left no room beside it.
    const DESCRIBES: usize = 10;
    let mut lines = Vec::<String>::new();
    for line in text.lines() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        let goes_on = |before: &String| {
            let is_paragraph = indent == 0 && !before.starts_with(' ') && !before.ends_with(':');
            let is_text = !words.is_empty() && !before.is_empty();
            is_text && (is_paragraph || indent >= GOES_ON)
        };
        match lines.last_mut().filter(|before| goes_on(before)) {
            Some(before) => {
                let is_first = indent >= DESCRIBES && !before.trim_start().contains("  ");
                *before = format!("{before}{}{words}", if is_first { "  " } else { " " });
            }
            None => lines.push(line.to_owned()),
        }
    }
    wrapped(&lines.join("\n"), columns)
}

/// Each line of a text in lines of at most so many columns, but for words that are longer.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    text.lines().map(|line| one_wrapped(line, columns)).collect::<Vec<_>>().join("\n")
}

/// One line, whose further lines are indented to what stands after its first gap.
fn one_wrapped(line: &str, columns: usize) -> String {
    /// Further lines have so much room at least, or begin below the name.
    const LEAST_ROOM: usize = 10;
    let words = line.trim_start();
    let indent = line.len() - words.len();
    let name = words.split("  ").next().unwrap_or_default();
    let gap = &words[name.len()..];
    let described = name.len() + gap.len() - gap.trim_start().len();
    let hanging = match () {
        () if gap.is_empty() && indent == 0 => 0,
        () if gap.is_empty() || indent + described + LEAST_ROOM > columns => indent + 2,
        () => indent + described,
    };
    let mut text = String::new();
    let mut line = " ".repeat(indent);
    let mut is_empty = true;
    for word in words.split(' ') {
        if !is_empty && width(&line) + 1 + width(word) > columns && !word.is_empty() {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(hanging);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    text + line.trim_end()
}

fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_lines_of_one_word_stood_below_paragraphs_that_were_wrapped_before() {
        let help = "One two three four five six seven\neight nine.\n\nExamples:\n  dynashard demo\n  dynashard plan";
        let expected = "One two three four five\nsix seven eight nine.\n\nExamples:\n  dynashard demo\n  dynashard plan";
        assert_eq!(flowing(help, 24), expected);
    }

    #[test]
    fn a_description_goes_on_below_its_begin() {
        let list =
            "Findings:\n  ahead   an item with a\n          generation above\n  lost    gone";
        let expected = "Findings:\n  ahead   an item with\n          a generation\n          above\n  lost    gone";
        assert_eq!(flowing(list, 23), expected);
        let step = "Settled   at 6 s and then long";
        assert_eq!(wrapped(step, 24), "Settled   at 6 s and\n          then long");
    }

    #[test]
    fn a_width_of_nothing_still_ends() {
        assert_eq!(wrapped("a b\n  c  d", 0), "a\nb\n  c\n    d");
    }
}
