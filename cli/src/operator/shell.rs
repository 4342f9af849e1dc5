//! Commands that are printed to be pasted into a shell.

/// A text as a shell takes it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The flags that have a value, each behind a space.
pub(super) fn flags(flags: &[(&str, Option<&str>)]) -> String {
    let given = flags.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    given
        .flat_map(|(name, value)| {
            [" ".to_owned(), (*name).to_owned(), " ".to_owned(), quoted(value)]
        })
        .collect()
}
