//! Popular items are kept by the real function, with the template's parameters.

use serde_json::json;

use crate::common::LocalStack;

#[test]
fn a_popular_item_is_read_once_and_shown_as_it_was() {
    let set = ["--set", "ItemCacheSecs=3600", "--set", "ItemCacheMegabytes=1"];
    // One environment, as each keeps what it has read itself.
    let stack = LocalStack::start(&[&set[..], &["--max-environments", "1"]].concat());
    let path = "/item?pk=JFK&sk=1";
    let put = |text: &str| stack.json("PUT", path, &json!({ "text": text }));
    let first = put("first");
    let of = |read: &str| stack.get(&format!("{path}{read}"));
    let read = of("");
    assert_eq!(
        (read.etag.as_ref(), read.header("dynashard-items-read")),
        (first.etag.as_ref(), Some("1"))
    );
    assert_eq!(read.header("cache-control"), Some("max-age=3600"));
    let second = put("second");
    for _ in 0..10 {
        let kept = of("");
        assert_eq!(kept.json()["text"], "first");
        assert_eq!(kept.header("dynashard-consumed-rcu"), Some("0"), "{kept:?}");
        assert!(kept.header("age").is_some_and(|age| age.parse::<u64>().is_ok()), "{kept:?}");
    }
    let current = of("&consistent=true");
    assert_eq!(
        (current.etag.as_ref(), current.header("cache-control")),
        (second.etag.as_ref(), Some("no-store"))
    );
    let tag = first.etag.as_deref().expect("an etag");
    let known = stack.send("GET", path, &[("if-none-match", tag)], None);
    assert_eq!(
        (known.status, known.header("vary")),
        (304, Some("accept, authorization, origin")),
        "{known:?}"
    );
}
