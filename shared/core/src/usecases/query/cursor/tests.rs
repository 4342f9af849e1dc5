use dynashard_keys::PartitionKey;
use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

use super::*;
use crate::ports::Consistency;
use crate::usecases::query::MAX_OPEN_SHARDS;
use crate::usecases::query::strategy::Strategy;

fn query() -> Query {
    Query::all(PartitionKey::new("EWR").expect("pk"))
}

fn of(strategy: Strategy) -> Query {
    Query { strategy, ..query() }
}

fn key(text: &str) -> SortKey {
    SortKey::string(text).expect("sk")
}

fn code(text: &str, query: &Query) -> Code {
    Cursor::decode(text, query, SortKeyType::String).expect_err("refused").code()
}

fn positions(turn: usize, positions: Vec<Position>) -> Cursor {
    Cursor::Positions { generation: Generation::new(7), turn, positions }
}

fn any_key(sort_keys: SortKeyType) -> impl proptest::strategy::Strategy<Value = SortKey> {
    let text = match sort_keys {
        SortKeyType::String => "(2013-01-0[1-3]T)?\\PC{1,40}",
        SortKeyType::Number => "-?[1-9][0-9]{0,20}(e[0-9]{1,2})?",
    };
    text.prop_map(move |text| SortKey::parse(&text, sort_keys).expect("sk"))
}

fn any_cursor(
    sort_keys: SortKeyType,
) -> impl proptest::strategy::Strategy<Value = (Query, Cursor, SortKeyType)> {
    let position = prop_oneof![
        Just(Position::Start),
        Just(Position::End),
        any_key(sort_keys).prop_map(Position::After),
    ];
    let runs = prop::collection::vec((position, 1..5_usize), 1..20);
    let strategy =
        prop::sample::select(vec![Strategy::Parallel, Strategy::RoundRobin, Strategy::Sequential]);
    let positions = (any::<u64>(), any::<prop::sample::Index>(), runs, strategy);
    prop_oneof![
        (any_key(sort_keys), prop::sample::select(Strategy::ALL.to_vec()))
            .prop_map(move |(key, strategy)| (of(strategy), Cursor::Watermark(key), sort_keys)),
        positions.prop_map(move |(generation, turn, runs, strategy)| {
            let runs = runs.into_iter().flat_map(|(position, n)| vec![position; n]);
            let positions = runs.collect::<Vec<_>>();
            let turn = turn.index(positions.len());
            let generation = Generation::new(generation);
            (of(strategy), Cursor::Positions { generation, turn, positions }, sort_keys)
        }),
    ]
}

proptest! {
    #[test]
    fn a_cursor_reads_back((query, cursor, sort_keys) in prop_oneof![
        any_cursor(SortKeyType::String), any_cursor(SortKeyType::Number),
    ]) {
        let text = cursor.encode(&query);
        prop_assert_eq!(Cursor::decode(&text, &query, sort_keys), Ok(cursor));
    }

    #[test]
    fn any_damage_is_noticed(
        (query, cursor, sort_keys) in any_cursor(SortKeyType::String),
        at: prop::sample::Index,
        change in 1..=255_u8,
    ) {
        let code = |bytes: &[u8]| {
            let text = URL_SAFE_NO_PAD.encode(bytes);
            Cursor::decode(&text, &query, sort_keys).map_err(|error| error.code())
        };
        let mut bytes = URL_SAFE_NO_PAD.decode(cursor.encode(&query)).expect("base64");
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert_eq!(code(&bytes), Err(Code::BadCursor));
        bytes[at] ^= change;
        prop_assert_eq!(code(&bytes[..at]), Err(Code::BadCursor), "cut short");
        bytes.push(change);
        prop_assert_eq!(code(&bytes), Err(Code::BadCursor), "with something behind it");
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        prop_assert_eq!(code(&text, &query()), Code::BadCursor);
    }

    /// Whoever forges a cursor can make the checksum right.
    #[test]
    fn no_bytes_behind_a_right_checksum_make_it_panic(
        body in prop::collection::vec(any::<u8>(), 0..60),
        strategy in prop::sample::select(Strategy::ALL.to_vec()),
    ) {
        let query = of(strategy);
        let mut whole = fingerprint(&query).to_be_bytes().to_vec();
        whole.extend(&body);
        for body in [whole, body] {
            let decoded = Cursor::decode(&seal(FORMAT, &body), &query, SortKeyType::String);
            if let Ok(Cursor::Positions { turn, positions, .. }) = decoded {
                prop_assert!(turn < positions.len());
            }
        }
    }
}

#[test]
fn a_cursor_of_another_version_is_told_from_a_damaged_one() {
    let body = fingerprint(&query()).to_be_bytes();
    for version in [0, 1, 3, u8::MAX] {
        assert_eq!(code(&seal(version, &body), &query()), Code::UnsupportedCursor);
    }
    // As the first version wrote it, for this query.
    let first = "AbFXLTJIZJn1AFMAGzIwMTMtMDEtMDFUMTA6MDA6MDBaI1VBMTY5Ng";
    assert_eq!(code(first, &query()), Code::UnsupportedCursor);
    let damaged = first.replace("MTY5Ng", "MTY5Nw");
    assert_eq!(code(&damaged, &query()), Code::BadCursor);
}

#[test]
fn a_cursor_belongs_to_one_query() {
    let text = Cursor::Watermark(key("m")).encode(&query());
    let other_collection = Query::all(PartitionKey::new("JFK").expect("pk"));
    let descending = Query { ascending: false, ..query() };
    let ranged = Query { range: SortRange::From(key("a")), ..query() };
    let strategies = Strategy::ALL.into_iter().filter(|s| *s != Strategy::Ordered).map(of);
    for other in [other_collection, descending, ranged].into_iter().chain(strategies) {
        assert_eq!(code(&text, &other), Code::CursorMismatch);
    }
    let larger_page = Query { limit: 7, consistency: Consistency::Strong, ..query() };
    assert!(Cursor::decode(&text, &larger_page, SortKeyType::String).is_ok());
}

#[test]
fn neighbouring_parts_of_a_query_are_kept_apart() {
    let ranges = [
        SortRange::All,
        SortRange::BeginsWith("a".to_owned()),
        SortRange::From(key("a")),
        SortRange::To(key("a")),
        SortRange::Between(key("a"), key("a")),
    ];
    let prints = ranges.map(|range| fingerprint(&Query { range, ..query() }));
    let distinct = prints.iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(distinct.len(), prints.len());
}

#[test]
fn a_watermark_outside_the_range_is_refused() {
    let ranged = Query { range: SortRange::BeginsWith("2013-01-02".into()), ..query() };
    let text = Cursor::Watermark(key("2013-01-03")).encode(&ranged);
    assert_eq!(code(&text, &ranged), Code::BadCursor);
}

#[test]
fn a_cursor_is_small() {
    let at = |n: usize| Position::After(key(&format!("2013-01-01T10:{:02}:00Z#UA{n:04}", n % 60)));
    let ordered = Cursor::Watermark(key("2013-01-01T10:00:00Z#UA1545")).encode(&query());
    assert!(ordered.len() <= 56, "{} bytes", ordered.len());

    // However many shards there are, one of them is being read.
    let mut shards = vec![Position::End; 65_536];
    shards[100..].fill(Position::Start);
    shards[100] = at(7);
    let sequential = positions(0, shards).encode(&of(Strategy::Sequential));
    assert!(sequential.len() <= 80, "{} bytes", sequential.len());

    let of_all = positions(3, (0..256).map(at).collect());
    let round_robin = of_all.encode(&of(Strategy::RoundRobin));
    assert!(round_robin.len() <= 5_500, "{} bytes", round_robin.len());
}

#[test]
fn the_longest_cursor_reads_back() {
    let query = of(Strategy::RoundRobin);
    let at = |n: usize| Position::After(key(&format!("{n:04}").repeat(256)));
    let mut longest = (0..MAX_OPEN_SHARDS).map(at).collect::<Vec<_>>();
    longest.resize(65_536, at(MAX_OPEN_SHARDS));
    let cursor = positions(255, longest);
    let text = cursor.encode(&query);
    assert!(text.len() < 360_000, "{} bytes", text.len());
    assert_eq!(Cursor::decode(&text, &query, SortKeyType::String), Ok(cursor));
}

#[test]
fn regression_a_short_forged_cursor_stood_for_any_number_of_positions() {
    let query = of(Strategy::Parallel);
    let forged = |tail: &[u8]| {
        let mut body = fingerprint(&query).to_be_bytes().to_vec();
        body.extend([KIND_POSITIONS, 7, 0]);
        body.extend(tail);
        seal(FORMAT, &body)
    };
    let mut again = vec![1];
    put_varint(&mut again, 65_535 << 3);
    assert_eq!(code(&forged(&again), &query), Code::BadCursor, "one more than there are shards");
    for count in [u64::from(u32::MAX), u64::MAX >> 3] {
        let mut again = vec![1];
        put_varint(&mut again, count << 3);
        assert_eq!(code(&forged(&again), &query), Code::BadCursor);
    }
    assert_eq!(code(&forged(&[0]), &query), Code::BadCursor, "nothing to repeat");
    // Each of them is a byte longer than the key before, so that they share all of it.
    let growing = (0..1_024_usize).flat_map(|n| {
        let mut token = Vec::new();
        put_varint(&mut token, u64::try_from(n).expect("small") << 3 | 3);
        token.extend([1, b'a']);
        token
    });
    assert_eq!(code(&forged(&growing.collect::<Vec<_>>()), &query), Code::BadCursor);
}
