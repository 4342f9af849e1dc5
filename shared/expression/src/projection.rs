use crate::tokens::tokens;

/// A projection expression with these names, such as `#g`, behind its own.
///
/// DynamoDB refuses paths that overlap, so the names must be reserved ones. A projection without a path stays as it is:
/// DynamoDB refuses that in its own words.
pub fn with_projected(projection: &str, names: &[String]) -> String {
    if names.is_empty() || tokens(projection).next().is_none() {
        return projection.to_owned();
    }
    format!("{projection}, {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_behind_the_paths_of_the_client() {
        let names = ["#g".to_owned(), "#v".to_owned()];
        assert_eq!(with_projected("a, b.c[0]", &names), "a, b.c[0], #g, #v");
        assert_eq!(with_projected("a", &[]), "a");
        assert_eq!(with_projected(" ", &names), " ");
    }
}
