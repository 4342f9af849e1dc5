use super::*;

#[expect(clippy::unnecessary_wraps, reason = "as a table has it")]
fn key(name: &str, letter: &str) -> Option<KeyAttribute> {
    Some(KeyAttribute { name: name.to_owned(), letter: letter.to_owned() })
}

fn table() -> TableState {
    TableState {
        is_active: true,
        status: "ACTIVE".to_owned(),
        is_protected: true,
        partition_key: key("place", "S"),
        sort_key: key("at", "N"),
        ..TableState::default()
    }
}

fn around() -> Surroundings {
    Surroundings {
        ttl: Ok(None),
        legacy_replicas: Ok(None),
        kinesis: Ok(Vec::new()),
        insights: Ok(true),
        recovery: Ok(true),
        policy: Ok(None),
        caller: String::new(),
    }
}

fn index(name: &str, key: &[&str], holds_all: bool) -> IndexState {
    IndexState {
        name: name.to_owned(),
        key: key.iter().map(|&name| name.to_owned()).collect(),
        holds_all,
        is_active: true,
        ..IndexState::default()
    }
}

fn found(state: &TableState, around: &Surroundings, check: &str) -> Check {
    let checks = keys(state).into_iter().chain(checks("T", state, around)).collect::<Vec<_>>();
    let mut found = checks.iter().filter(|found| found.name == check);
    let one = found.next().unwrap_or_else(|| panic!("{check}: {checks:?}")).clone();
    assert_eq!(found.next(), None, "each has a name of its own");
    one
}

#[test]
fn a_table_without_peculiarities_is_fine() {
    let checks = keys(&table()).into_iter().chain(checks("T", &table(), &around()));
    for check in checks {
        assert_eq!((check.status, &check.advice), (Status::Ok, &None), "{check:?}");
    }
    let schema = schema(&table(), Separator::Dot).expect("a schema");
    assert_eq!((schema.sort_key_type, schema.separator), (SortKeyType::Number, Separator::Dot));
}

#[test]
fn keys_that_cannot_be_are_a_problem() {
    for (change, check) in [
        (TableState { partition_key: key("place", "N"), ..table() }, "partition_key"),
        (TableState { sort_key: key("at", "B"), ..table() }, "sort_key"),
        (TableState { sort_key: None, ..table() }, "sort_key"),
        (TableState { partition_key: key("_ds_place", "S"), ..table() }, "key_names"),
        (TableState { sort_key: key("phase", "S"), ..table() }, "key_names"),
        (TableState { sort_key: key("the time", "S"), ..table() }, "key_names"),
        (TableState { partition_key: key("2nd", "S"), ..table() }, "key_names"),
    ] {
        assert_eq!(found(&change, &around(), check).status, Status::Problem, "{change:?}");
        assert!(schema(&change, Separator::default()).is_err());
    }
}

#[test]
fn what_users_of_the_table_will_see_is_a_warning() {
    for (state, check) in [
        (TableState { stream_view: Some("NEW_IMAGE".to_owned()), ..table() }, "stream"),
        (TableState { local_indexes: vec!["l".to_owned()], ..table() }, "local_indexes"),
        (TableState { vector_indexes: vec!["v".to_owned()], ..table() }, "vector_indexes"),
        (TableState { kms_key: Some("arn".to_owned()), ..table() }, "encryption"),
        (TableState { is_protected: false, ..table() }, "deletion_protection"),
    ] {
        assert_eq!(found(&state, &around(), check).status, Status::Warning, "{check}");
    }
    let replicated = TableState { replicas: vec!["eu-west-3".to_owned()], ..table() };
    assert_eq!(found(&replicated, &around(), "replicas").status, Status::Problem);
    let creating = TableState { is_active: false, ..table() };
    assert_eq!(found(&creating, &around(), "table").status, Status::Problem);
    let provisioned = TableState { provisioned: Some((5, 7)), ..table() };
    let billing = found(&provisioned, &around(), "billing");
    assert!(billing.seen.contains("5 read and 7 write"), "{billing:?}");
}

#[test]
fn a_marker_enters_an_index_of_the_tables_keys_alone() {
    let with = |indexes| TableState { indexes, ..table() };
    let other = with(vec![index("by_status", &["status"], true)]);
    assert_eq!(found(&other, &around(), "index_markers").status, Status::Ok);

    let inverted = with(vec![
        index("by_status", &["status", "place"], true),
        index("inverted", &["at", "place"], false),
    ]);
    let markers = found(&inverted, &around(), "index_markers");
    assert_eq!(markers.status, Status::Warning);
    assert!(markers.seen.contains("enter inverted:"), "{markers:?}");
    assert!(markers.advice.expect("advice").contains("inverted must project `_ds_fwd`"));
    let keys = found(&inverted, &around(), "index_keys");
    assert_eq!(keys.status, Status::Warning);
    assert!(keys.seen.ends_with("the keys of by_status, inverted"), "{keys:?}");

    let projected = with(vec![index("inverted", &["at", "place"], true)]);
    let advice = found(&projected, &around(), "index_markers").advice.expect("advice");
    assert!(!advice.contains("anew"), "{advice}");
}

#[test]
fn regression_an_index_was_fine_though_it_shows_moving_items_twice() {
    for key in ["status", "place"] {
        let state = TableState { indexes: vec![index("i", &[key], true)], ..table() };
        let check = found(&state, &around(), "index_keys");
        assert_eq!(check.status, Status::Warning);
        assert!(check.advice.expect("advice").contains("an item twice"));
    }
}

#[test]
fn regression_items_could_expire_by_their_key() {
    for name in ["place", "at"] {
        let around = Surroundings { ttl: Ok(Some(name.to_owned())), ..around() };
        assert_eq!(found(&table(), &around, "time_to_live").status, Status::Problem);
    }
}

#[test]
fn regression_a_global_table_of_the_first_version_went_unseen() {
    for (legacy_replicas, expected) in [
        (Ok(Some(vec!["eu-west-3".to_owned()])), Status::Problem),
        (Err(Unseen::NotSupported), Status::Unknown),
    ] {
        let around = Surroundings { legacy_replicas, ..around() };
        assert_eq!(found(&table(), &around, "legacy_replicas").status, expected);
    }
}

#[test]
fn items_that_expire_need_the_parameter() {
    let ttl = |name: &str| Surroundings { ttl: Ok(Some(name.to_owned())), ..around() };
    let check = found(&table(), &ttl("expires"), "time_to_live");
    assert_eq!(check.status, Status::Ok);
    assert!(check.advice.expect("advice").contains("TtlAttribute=expires"));
    assert_eq!(found(&table(), &ttl("_expires"), "time_to_live").status, Status::Problem);
}
