use super::document::Document;
use super::{Fault, cbor, json, query};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;

/// A body that a client could send, cut or with a byte changed, or bytes of any kind.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let written = prop_oneof![
        document().prop_map(|document| cbor::write(&document)),
        document().prop_map(|document| json::write(&document)),
        fields().prop_map(|fields| form(&fields)),
    ];
    let damaged = (written, any::<Index>(), any::<u8>(), any::<bool>());
    let damaged = damaged.prop_map(|(mut body, at, byte, cut)| {
        let at = at.index(body.len().max(1));
        if cut {
            body.truncate(at);
        } else if let Some(old) = body.get_mut(at) {
            *old = byte;
        }
        body
    });
    prop_oneof![damaged, prop::collection::vec(any::<u8>(), 0..200)]
}

/// Documents of what CBOR tells apart: all but a scalar that says nothing of its type.
fn document() -> impl Strategy<Value = Document> {
    // Of these every digit survives, in JSON too, whose reader is a bit off with longer ones.
    let number = || any::<i32>().prop_map(|thousandths| f64::from(thousandths) / 1_000.0);
    // Moments are cut to milliseconds (Smithy, "Timestamp formats"). Eighths of a second are exact.
    let moment = any::<i32>().prop_map(|eighths| f64::from(eighths) / 8.0);
    let scalar = prop_oneof![
        Just(Document::Null),
        any::<bool>().prop_map(Document::Boolean),
        any::<i64>().prop_map(Document::Integer),
        number().prop_map(Document::Number),
        moment.prop_map(Document::Timestamp),
        "\\PC{0,12}".prop_map(Document::Text),
    ];
    scalar.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Document::List),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..6)
                .prop_map(|members| Document::Structure(members.into_iter().collect())),
        ]
    })
}

/// What JSON tells apart: a moment is a number there.
fn as_in_json(document: Document) -> Document {
    match document {
        Document::Timestamp(secs) => Document::Number(secs),
        Document::List(items) => items.into_iter().map(as_in_json).collect(),
        Document::Structure(members) => Document::Structure(
            members.into_iter().map(|(name, value)| (name, as_in_json(value))).collect(),
        ),
        scalar => scalar,
    }
}

/// The members of a structure of structures and lists, as the query protocol can write it.
fn fields() -> impl Strategy<Value = Document> {
    let scalar = "\\PC{0,12}".prop_map(Document::Untyped);
    let inner = scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Document::List),
            prop::collection::btree_map("[A-Z][a-z]{0,5}", inner, 1..4)
                .prop_map(|members| Document::Structure(members.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[B-U][a-z]{0,5}", inner, 0..4)
        .prop_map(|members| Document::Structure(members.into_iter().collect()))
}

fn form(fields: &Document) -> Vec<u8> {
    fn write(path: &str, value: &Document, form: &mut form_urlencoded::Serializer<'_, String>) {
        let below = |name: &str| {
            if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
        };
        match value {
            Document::Untyped(text) => drop(form.append_pair(path, text)),
            Document::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    write(&below(&format!("member.{}", at + 1)), item, form);
                }
            }
            Document::Structure(members) => {
                for (name, value) in members {
                    write(&below(name), value, form);
                }
            }
            other => unreachable!("no field is {other:?}"),
        }
    }
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Action", "PutMetricData");
    write("", fields, &mut form);
    form.finish().into_bytes()
}

proptest! {
    #[test]
    fn a_body_is_read_or_refused(body in body()) {
        let read = [cbor::read(&body), json::read(&body), query::read(&body).map(|call| call.input)];
        for error in read.into_iter().filter_map(Result::err) {
            assert!(error.fault.status().is_client_error(), "{error:?}");
        }
    }

    #[test]
    fn what_is_written_as_cbor_is_read_back(document in document()) {
        prop_assert_eq!(cbor::read(&cbor::write(&document)).expect("CBOR"), document);
    }

    #[test]
    fn what_is_written_as_json_is_read_back(document in document()) {
        let read = json::read(&json::write(&document)).expect("JSON");
        prop_assert_eq!(read, as_in_json(document));
    }

    #[test]
    fn the_paths_of_a_form_are_read_as_structures_and_lists(fields in fields()) {
        let call = query::read(&form(&fields)).expect("a call");
        prop_assert_eq!((call.operation.as_str(), call.input), ("PutMetricData", fields));
    }
}

/// A body of a few bytes must not take the process down, however deep it says that it goes.
#[test]
fn bodies_without_a_bottom_are_refused() {
    for body in [[0x81].repeat(100_000), [0xc1].repeat(100_000), [0xa1, 0x60].repeat(100_000)] {
        assert_eq!(cbor::read(&body).expect_err("too deep").fault, Fault::Serialization);
    }
    assert_eq!(
        json::read(&b"[".repeat(100_000)).expect_err("too deep").fault,
        Fault::Serialization
    );
    let form = [b"Action=x&".to_vec(), b"a.".repeat(100_000)].concat();
    assert_eq!(query::read(&form).map(|_| ()).expect_err("too deep").fault, Fault::Serialization);
}
