use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use serde_json::Value;

use super::{Fault, cbor};

/// A body that a client could send, cut or with a byte changed, or bytes of any kind.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let written = value().prop_map(|value| cbor::write(&value));
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

fn value() -> impl Strategy<Value = Value> {
    let number = any::<i32>().prop_map(|thousandths| f64::from(thousandths) / 1_000.0);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        number.prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let structure = scalar.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    // Moments are cut to milliseconds (Smithy, "Timestamp formats"). Eighths of a second are exact.
    let moment = any::<i32>().prop_map(|eighths| f64::from(eighths) / 8.0);
    (structure, moment).prop_map(|(value, secs)| {
        let members = [("Value", value), ("StateUpdatedTimestamp", secs.into())];
        Value::Object(members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
    })
}

proptest! {
    #[test]
    fn a_body_is_read_or_refused(body in body()) {
        if let Err(error) = cbor::read(&body) {
            assert!(error.fault.2.is_client_error(), "{error:?}");
        }
    }

    #[test]
    fn what_is_written_as_cbor_is_read_back(value in value()) {
        prop_assert_eq!(cbor::read(&cbor::write(&value)).expect("CBOR"), value);
    }
}

/// A body of a few bytes must not take the process down, however deep it says that it goes.
#[test]
fn bodies_without_a_bottom_are_refused() {
    for body in [[0x81].repeat(100_000), [0xc1].repeat(100_000), [0xa1, 0x60].repeat(100_000)] {
        assert_eq!(cbor::read(&body).expect_err("too deep").fault, Fault::SERIALIZATION);
    }
}
