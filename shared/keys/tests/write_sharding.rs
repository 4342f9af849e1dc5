//! The rules of the articles: their own examples, and what holds for every key.

use std::collections::BTreeSet;

use dynashard_keys::{
    Affix, IndexForm, IndexKey, IndexSharding, KeyError, Separator, ShardCount, ShardId, ShardRule,
    WriteSharding,
};
use proptest::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF};

fn count(n: u32) -> ShardCount {
    ShardCount::new(n).expect("a count")
}

fn shards(rule: ShardRule, n: u32) -> WriteSharding {
    WriteSharding::new(rule, count(n)).expect("a count of the rule")
}

fn home(rule: ShardRule, n: u32, pk: &str, sk: &str) -> u32 {
    shards(rule, n).home(pk, sk).expect("calculated").get()
}

/// "Choosing the right number of shards": its table shows `_6` for this item, and its rule gives 5.
#[test]
fn md5_gives_5_where_the_article_shows_6() {
    let (pk, sk) = ("/shared/firetvGen2.txt", "123456789101");
    let sharding = shards(ShardRule::Md5, 10);
    let shard = sharding.home(pk, sk).expect("calculated");
    assert_eq!(sharding.at(pk, shard), "/shared/firetvGen2.txt_5");
    let drawn = shards(ShardRule::Random, 10).with_separator(Separator::Underscore);
    assert_eq!(drawn.at(pk, ShardId::new(3)), "/shared/firetvGen2.txt_3");
}

/// From Python: `int(hashlib.md5((pk + sk).encode()).hexdigest(), 16) % n + 1`.
#[test]
fn md5_divides_all_128_bits() {
    for (pk, sk, n, shard) in [
        ("/shared/firetvGen2.txt", "123456789101", 7, 1),
        ("/shared/firetvGen2.txt", "123456789101", 65_536, 18_317),
        ("", "", 200, 167),
        ("ключ", "🔑", 1_000, 818),
    ] {
        assert_eq!(home(ShardRule::Md5, n, pk, sk), shard, "{pk:?} {sk:?} {n}");
    }
}

/// "Dynamo DB Sharding": the sixteen shards of its list, and those of its tenant without a name.
#[test]
fn xxh64_gives_the_shards_of_dynamo_db_sharding() {
    let expected = [12, 14, 13, 6, 6, 5, 12, 11, 13, 5, 12, 15, 13, 5, 14, 14];
    for (sk, shard) in expected.into_iter().enumerate() {
        let found = home(ShardRule::Xxh64, 16, "user.v1.User:abc", &sk.to_string());
        assert_eq!(found, shard, "sk {sk}");
    }
    for (sk, shard) in [("a", 12), ("b", 15), ("c", 14)] {
        assert_eq!(home(ShardRule::Xxh64, 16, "", sk), shard, "sk {sk}");
    }
    let sharding = shards(ShardRule::Xxh64, 16);
    let shard = sharding.home("user.v1.User:abc", "123").expect("calculated");
    assert_eq!(sharding.at("user.v1.User:abc", shard), "user.v1.User:abc:11");
    assert_eq!(sharding.at("user.v1.User:abc", ShardId::new(0)), "user.v1.User:abc:0");
}

/// "Best Practices for Tables": the keys of a day are `2014-07-09.1` to `2014-07-09.200`.
#[test]
fn code_points_give_the_keys_of_a_day() {
    let sharding = shards(ShardRule::CodePoints, 200);
    let keys = sharding.shards().map(|shard| sharding.at("2014-07-09", shard)).collect::<Vec<_>>();
    assert_eq!(
        (keys[0].as_str(), keys[199].as_str(), keys.len()),
        ("2014-07-09.1", "2014-07-09.200", 200)
    );
    // The products themselves: 65, 65 * 49, and one far above 64 bits.
    for (sk, shard) in [("A", 66), ("A1", 186), ("", 2), ("\u{10ffff}x\u{10ffff}y\u{10ffff}z", 41)]
    {
        assert_eq!(home(ShardRule::CodePoints, 200, "2014-07-09", sk), shard, "{sk:?}");
    }
    assert_eq!(home(ShardRule::CodePoints, 1, "2014-07-09", ""), 1);
}

/// "Choosing the Right DynamoDB Partition Key": `121212-1` to `121212-5`, each to be queried.
#[test]
fn a_random_suffix_is_one_of_those_that_a_reader_asks_for() {
    let invoices = shards(ShardRule::Random, 5).with_separator(Separator::Dash);
    let third = u64::MAX / 5;
    let keys = [0, third * 2 + 5, u64::MAX]
        .map(|draw| invoices.at("121212", invoices.place("121212", "Client1_trans1", draw)));
    assert_eq!(keys, ["121212-1", "121212-3", "121212-5"]);
    assert_eq!(invoices.home("121212", "Client1_trans1"), None);
    assert_eq!(invoices.shards().map(ShardId::get).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

/// Four hyphens are four fives, and hexadecimal digits give the twos.
#[test]
fn the_product_of_code_points_puts_every_uuid_into_one_shard_of_200() {
    let mut hash = 1_u128;
    for _ in 0..1_000 {
        hash = hash.wrapping_mul(0x2545_F491_4F6C_DD1D_2545_F491_4F6C_DD1D).rotate_left(41) ^ 7;
        let hex = format!("{hash:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        let uuid = parts.join("-");
        assert_eq!(home(ShardRule::CodePoints, 200, "2014-07-09", &uuid), 1, "{uuid}");
    }
}

/// Random ids of ten capital letters and digits: a product of ten factors is most often a multiple of 200.
#[test]
fn the_product_of_code_points_puts_73_percent_of_random_ids_into_one_shard_of_200() {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut state = 1_u64;
    let mut id = || {
        let letters = (0..10).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).expect("31 bits") % ALPHABET.len();
            char::from(ALPHABET[at])
        });
        letters.collect::<String>()
    };
    let ids = 20_000;
    let in_shard_1 =
        (0..ids).filter(|_| home(ShardRule::CodePoints, 200, "2014-07-09", &id()) == 1).count();
    let percent = in_shard_1 * 100 / ids;
    assert!((72..=74).contains(&percent), "{percent}%");
}

#[test]
fn all_rules_but_the_product_are_balanced() {
    const SHARDS: u32 = 64;
    for (rule, is_balanced) in
        [(ShardRule::Md5, true), (ShardRule::Xxh64, true), (ShardRule::CodePoints, false)]
    {
        let sharding = shards(rule, SHARDS);
        let mut items = [0_u32; SHARDS as usize];
        for i in 0..SHARDS * 200 {
            let shard =
                sharding.home("EWR", &format!("2013-01-01T10:00:00Z#UA{i}")).expect("calculated");
            items[(shard.get() - rule.first().get()) as usize] += 1;
        }
        let squares = items.iter().map(|n| (f64::from(*n) - 200.0).powi(2) / 200.0);
        let chance = ChiSquared::new(f64::from(SHARDS - 1)).expect("freedom").sf(squares.sum());
        // One run in a million of a fair rule would fail; the keys are the same each time.
        assert_eq!(chance > 1e-6, is_balanced, "{rule}: p = {chance}");
    }
}

/// What keeps them from being placements: to grow from 16 to 17 moves nearly everything.
#[test]
fn a_modulo_moves_nearly_every_item_when_a_shard_is_added() {
    let stays = |i: &u32| {
        let sk = i.to_string();
        home(ShardRule::Md5, 16, "EWR", &sk) == home(ShardRule::Md5, 17, "EWR", &sk)
    };
    let stayed = (0..10_000).filter(stays).count();
    assert!(
        stayed < 1_000,
        "{stayed} of 10,000 stayed; of a placement that moves least, 9,412 would"
    );
}

#[test]
fn the_key_of_an_index_comes_from_the_key_of_the_table() {
    let sharding =
        shards(ShardRule::Md5, 10).with_affix(Affix::Prefix).with_separator(Separator::Dash);
    let concatenated = IndexSharding::new(sharding, IndexForm::Concatenated);
    let shard = sharding.home("121212", "head").expect("calculated");
    let expected = IndexKey::Concatenated(format!("{shard}-USA"));
    assert_eq!(concatenated.key("USA", "121212", "head", 0), expected);
    // A draw matters to random shards alone.
    assert_eq!(concatenated.key("USA", "121212", "head", u64::MAX), expected);
    let IndexKey::Concatenated(paid) = concatenated.key("FRA", "121212", "head", 0) else {
        panic!()
    };
    assert_eq!(sharding.parse(&paid), Ok(("FRA", shard)), "another value, the same shard");

    let both = IndexSharding::new(sharding, IndexForm::MultiAttribute);
    let key = both.key("USA", "121212", "head", 0);
    assert_eq!(key, IndexKey::MultiAttribute { shard, value: "USA".to_owned() });
    let all = both.keys("USA").collect::<Vec<_>>();
    assert_eq!(all.len(), 10);
    assert!(all.contains(&key));
}

#[test]
fn what_is_no_key_of_these_shards_is_refused() {
    let suffix = shards(ShardRule::Md5, 10);
    for text in
        ["", "a", "a_", "a_0", "a_01", "a_11", "a_+1", "a_1x", "a_99999999999999999999", "_", "1_a"]
    {
        assert_eq!(suffix.parse(text), Err(KeyError::NotAShardedKey { text: text.to_owned() }));
    }
    let prefix = suffix.with_affix(Affix::Prefix);
    for text in ["a_1", "0_a", "01_a", "11_a", "_a"] {
        assert!(prefix.parse(text).is_err(), "{text}");
    }
    assert_eq!(shards(ShardRule::Xxh64, 16).parse("a:0"), Ok(("a", ShardId::new(0))));
    assert!(shards(ShardRule::Xxh64, 16).parse("a:16").is_err());
    let no_power_of_two = WriteSharding::new(ShardRule::Xxh64, count(10));
    assert_eq!(no_power_of_two, Err(KeyError::ShardCountNotPowerOfTwo { count: 10 }));
}

#[test]
fn rules_are_read_by_their_names_only() {
    for rule in ShardRule::ALL {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
    assert_eq!(
        "MD5".parse::<ShardRule>(),
        Err(KeyError::UnknownShardRule { text: "MD5".to_owned() })
    );
}

fn any_sharding() -> impl Strategy<Value = WriteSharding> {
    let rules = proptest::sample::select(&ShardRule::ALL[..]);
    let separators = proptest::sample::select(&Separator::ALL[..]);
    let affixes = proptest::sample::select(&[Affix::Suffix, Affix::Prefix][..]);
    (rules, 0..=16_u32, separators, affixes).prop_map(|(rule, log, separator, affix)| {
        shards(rule, 1 << log).with_separator(separator).with_affix(affix)
    })
}

proptest! {
    #[test]
    fn a_key_reads_back(
        sharding in any_sharding(), pk in "[a0-9#~_.:-]{0,8}|\\PC{0,20}", sk in "\\PC{0,20}", draw in proptest::num::u64::ANY,
    ) {
        let shard = sharding.place(&pk, &sk, draw);
        prop_assert!(sharding.shards().any(|of| of == shard));
        let key = sharding.at(&pk, shard);
        prop_assert_eq!(sharding.parse(&key), Ok((pk.as_str(), shard)));
    }

    #[test]
    fn two_shards_never_share_a_key(
        sharding in any_sharding(), a in "[a0-9#~_.:-]{0,8}", b in "[a0-9#~_.:-]{0,8}", draws in proptest::array::uniform2(proptest::num::u64::ANY),
    ) {
        let shards = draws.map(|draw| sharding.place(&a, &draw.to_string(), draw));
        let keys = BTreeSet::from([sharding.at(&a, shards[0]), sharding.at(&b, shards[1])]);
        prop_assert_eq!(keys.len() == 1, (&a, shards[0]) == (&b, shards[1]));
    }
}
