use proptest::prelude::*;

use super::*;

fn schema() -> TableSchema {
    TableSchema {
        partition_key_name: "place".to_owned(),
        sort_key_name: "at".to_owned(),
        ..TableSchema::default()
    }
}

fn item(pk: &str, more: &[(&str, AttributeValue)]) -> Attributes {
    let text = |text: &str| AttributeValue::String(text.to_owned());
    let key = [("place", text(pk)), ("at", text("1"))];
    let all = key.into_iter().chain(more.iter().cloned());
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::Number(value.into())
}

fn survey(items: &[Attributes]) -> Survey {
    let mut survey = Survey::default();
    for item in items {
        survey.observe(item, lens(&schema(), &"USER#*".parse().expect("patterns")));
    }
    survey
}

fn lens<'a>(schema: &'a TableSchema, grow_keys: &'a GrowKeys) -> Lens<'a> {
    Lens { schema, grow_keys, local_indexes: 0, is_in_use: false }
}

#[test]
fn regression_a_stack_took_its_own_items_for_a_problem() {
    let (schema, grow_keys) = (schema(), "*".parse().expect("patterns"));
    let in_use = Lens { is_in_use: true, ..lens(&schema, &grow_keys) };
    let room = MAX_ITEM_BYTES - 9 - 1;
    let large = AttributeValue::String("x".repeat(room));
    let more = [("_ds_v", number(u64::MAX)), ("_ds_g", number(2)), ("n", large)];
    for (own, lens, is_fine) in [
        (item("a#~3", &more), in_use, true),
        (item("a#~3", &more), lens(&schema, &grow_keys), false),
        (item("a#~3", &[]), in_use, false),
    ] {
        let mut survey = Survey::default();
        survey.observe(&own, lens);
        assert_eq!(survey.suffixed(Separator::HashTilde).count == 0, is_fine);
        assert!(!is_fine || survey.odd(Oddity::ItemSize).count == 0);
    }
}

#[test]
fn regression_entries_of_local_indexes_did_not_count() {
    let (schema, grow_keys) = (schema(), "*".parse().expect("patterns"));
    let half = item("a", &[("n", AttributeValue::String("x".repeat(MAX_ITEM_BYTES / 2)))]);
    for (local_indexes, expected) in [(0, 0), (1, 1)] {
        let mut survey = Survey::default();
        survey.observe(&half, Lens { local_indexes, ..lens(&schema, &grow_keys) });
        assert_eq!(survey.odd(Oddity::ItemSize).count, expected);
    }
}

#[test]
fn each_kind_is_counted_with_an_example() {
    let text = |bytes: usize| AttributeValue::String("x".repeat(bytes));
    // Names and values of the key: 5 + 1 + 2 + 1, and the name of the attribute.
    let room = MAX_ITEM_BYTES - 9 - 1;
    let nested = (0..32).fold(AttributeValue::Null, |inner, _| AttributeValue::List(vec![inner]));
    let cases = [
        (Oddity::DynashardItem, item("a", &[("_ds_v", number(u64::MAX))])),
        (Oddity::DynashardItem, item("a", &[("_ds_fwd", AttributeValue::Bool(true))])),
        (Oddity::ReservedKey, item("_ds_a", &[])),
        (Oddity::KeyLength, item(&"k".repeat(2_001), &[])),
        (Oddity::SortKeyLength, item("a", &[("at", text(1_025))])),
        (Oddity::ItemSize, item("a", &[("n", text(room + 1))])),
        (Oddity::ReservedAttribute, item("a", &[("_ds_other", number(1))])),
        (Oddity::ReservedAttribute, item("a", &[("_ds_v", text(1))])),
        (Oddity::Value, item("a", &[("n", nested)])),
    ];
    for (oddity, item) in cases {
        let survey = survey(std::slice::from_ref(&item));
        let found = survey.oddities.keys().copied().collect::<Vec<_>>();
        assert_eq!(found, [oddity], "{item:?}");
        let tally = survey.odd(oddity);
        assert_eq!((tally.count, tally.growing), (1, 0));
        assert_eq!(tally.example.map(|example| example.pk), Some(example(&item, &schema()).pk));
    }
    let plain = [
        item("a", &[("pk", text(1)), ("sk", text(1))]),
        item("a", &[("n", text(room))]),
        item(&"k".repeat(2_000), &[]),
        item("a", &[("place2", text(1)), ("ds_", text(1))]),
    ];
    assert_eq!(survey(&plain).oddities, BTreeMap::new());
}

#[test]
fn the_example_is_of_a_collection_that_may_be_changed() {
    let odd = |pk: &str| item(pk, &[("_ds_x", number(1))]);
    let tally =
        survey(&[odd("a"), odd("USER#1"), odd("USER#2"), odd("b")]).odd(Oddity::ReservedAttribute);
    assert_eq!((tally.count, tally.growing), (4, 2));
    assert_eq!(tally.example.map(|example| example.pk).as_deref(), Some("USER#1"));
}

#[test]
fn the_first_separator_that_is_free_is_chosen() {
    let keys = |keys: &[&str]| {
        survey(&keys.iter().map(|key| item(key, &[])).collect::<Vec<_>>()).free_separator()
    };
    assert_eq!(keys(&["USER#1", "a_2", "b.3", "c-4", "d:5"]), Some(Separator::HashTilde));
    assert_eq!(keys(&["a#~1", "a#~x"]), Some(Separator::Hash));
    assert_eq!(keys(&["a#~1", "USER#007", "a_2"]), Some(Separator::Dot));
    assert_eq!(keys(&["a#~1", "a#1", "a_1", "a.1", "a-1", "a:1"]), None);
}

proptest! {
    /// An item is found under its own key if and only if that is what its key reads as.
    #[test]
    fn free_keys_are_those_that_lie_under_themselves(
        key in "([a-z_]{0,3}(#~|#|_|\\.|-|:)){0,3}[0-9a-z]{0,3}",
    ) {
        let survey = survey(&[item(&key, &[])]);
        for separator in Separator::ALL {
            let read = PhysicalPartitionKey::parse(&key, separator);
            let lies_under_itself =
                read.is_ok_and(|(partition, shard)| partition.as_str() == key && shard.is_none());
            let is_free = survey.suffixed(separator).count == 0;
            prop_assert_eq!(is_free && PartitionKey::new(&key).is_ok(), lies_under_itself);
        }
    }

    #[test]
    fn a_survey_is_the_same_after_it_was_stored(
        keys in proptest::collection::vec("[a-z#~0-9]{1,6}", 0..20),
    ) {
        let survey = survey(&keys.iter().map(|key| item(key, &[])).collect::<Vec<_>>());
        let stored = serde_json::to_string(&survey).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Survey>(&stored).expect("a survey"), survey);
    }
}
