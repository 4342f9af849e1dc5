//! The log of a function: one line of JSON for each event, through which no key passes in plain text.
//!
//! Every line that is logged is written here; panics and metrics are not. Keys stand in fields of their
//! own, or quoted in the text of an error, and are replaced by a keyed digest in both places. Whatever
//! else is quoted is replaced with them: a value that cannot be read is better than a key that can.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

use dynashard_core::Error;
use dynashard_keys::{ItemKey, PartitionKey};
use ring::hmac;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// How keys appear in the log (`LOG_KEYS` and `LOG_KEY_SECRET`).
#[derive(Clone, PartialEq, Eq)]
pub enum LogKeys {
    /// As they are.
    Plain,
    /// As a digest with this secret: equal keys have equal digests, and whoever does not have the secret
    /// cannot find out the key by trying keys.
    Digest(String),
}

impl fmt::Debug for LogKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Digest(_) => "Digest(..)",
        })
    }
}

/// What logs as the functions do: one line of JSON for each event up to `level`, written to `out`.
pub fn subscriber<W>(
    keys: &LogKeys,
    level: LevelFilter,
    out: W,
) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // The id of an invocation is in a span of INFO, which lines of any level are to have.
    let least = level.max(LevelFilter::INFO);
    let shown = filter_fn(move |of| *of.level() <= if of.is_span() { least } else { level })
        .with_max_level_hint(least);
    Registry::default().with(JsonLines { keys: Digests::new(keys), out }.with_filter(shown))
}

/// Logs the failures of a batch that an operator has to look at, each code once. The batch itself is
/// answered with 200.
pub fn log_failures(failures: &[(ItemKey, Error)]) {
    let mut by_code = BTreeMap::<&str, (usize, &ItemKey, &Error)>::new();
    for (key, error) in failures {
        by_code.entry(error.code().as_str()).or_insert((0, key, error)).0 += 1;
    }
    for (code, (items, key, error)) in by_code {
        let (partition_key, sort_key) = (key.partition.as_str(), key.sort.to_string());
        let detail = error.message();
        tracing::error!(code, items, partition_key, sort_key, detail, "items of a batch failed");
    }
}

/// Logs what a request did without: its answer shows null in that place.
pub fn log_left_out(partition: &PartitionKey, what: &'static str, error: &Error) {
    let (partition_key, code, detail) =
        (partition.as_str(), error.code().as_str(), error.message());
    tracing::warn!(code, partition_key, what, detail, "a part of an answer could not be read");
}

/// Names a key in the log. The digest is `HMAC-SHA-256`, cut to [`DIGEST_BYTES`], in hexadecimal.
struct Digests(Option<hmac::Key>);

/// Long enough that no two keys share a digest, and as short as people can compare.
const DIGEST_BYTES: usize = 16;

/// The fields that hold nothing but a key.
const KEY_FIELDS: [&str; 3] = ["key", "partition_key", "sort_key"];

impl Digests {
    fn new(keys: &LogKeys) -> Self {
        Self(match keys {
            LogKeys::Plain => None,
            LogKeys::Digest(secret) => Some(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())),
        })
    }

    /// What stands in the log for a key.
    fn of_key<'a>(&self, key: &'a str) -> Cow<'a, str> {
        let Some(secret) = &self.0 else { return Cow::Borrowed(key) };
        let tag = hmac::sign(secret, key.as_bytes());
        let mut text = String::from("key:");
        for byte in tag.as_ref().iter().take(DIGEST_BYTES) {
            // Writing to a text does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Cow::Owned(text)
    }

    /// A text with everything that it quotes replaced. A quotation that does not end goes to the end.
    fn of_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.0.is_none() || !text.contains('"') {
            return Cow::Borrowed(text);
        }
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, quoted)) = rest.split_once('"') {
            replaced.push_str(before);
            let (quoted, after) = quotation(quoted);
            replaced.push_str(&self.of_key(&quoted));
            rest = after;
        }
        replaced.push_str(rest);
        Cow::Owned(replaced)
    }
}

/// What is quoted, from behind the opening mark on, and the text behind the closing one: as Rust's `Debug`
/// writes texts.
fn quotation(text: &str) -> (String, &str) {
    let mut quoted = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (quoted, &text[at + 1..]),
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => quoted.push('\n'),
                Some('r') => quoted.push('\r'),
                Some('t') => quoted.push('\t'),
                Some('0') => quoted.push('\0'),
                Some('u') => {
                    let digits = characters.by_ref().map(|(_, digit)| digit);
                    let digits = digits.skip(1).take_while(|digit| *digit != '}');
                    let code = u32::from_str_radix(&digits.collect::<String>(), 16);
                    quoted.extend(code.ok().and_then(char::from_u32));
                }
                other => quoted.extend(other),
            },
            plain => quoted.push(plain),
        }
    }
    (quoted, "")
}

struct JsonLines<W> {
    keys: Digests,
    out: W,
}

/// The id of the invocation that a span is, as Lambda's runtime tells it.
struct RequestId(String);

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields { keys: &self.keys, found: Map::new() };
        attributes.record(&mut fields);
        if let (Some(Value::String(id)), Some(span)) =
            (fields.found.remove(SPAN_REQUEST_ID), context.span(id))
        {
            span.extensions_mut().insert(RequestId(id));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields { keys: &self.keys, found: Map::new() };
        let mut timestamp = String::new();
        if SystemTime.format_time(&mut Writer::new(&mut timestamp)).is_ok() {
            fields.found.insert("timestamp".to_owned(), timestamp.into());
        }
        let level = event.metadata().level().as_str();
        fields.found.insert("level".to_owned(), level.into());
        event.record(&mut fields);
        let mut spans = context.event_scope(event).into_iter().flatten();
        let request_id =
            spans.find_map(|span| span.extensions().get::<RequestId>().map(|id| id.0.clone()));
        if let Some(id) = request_id {
            fields.found.entry(REQUEST_ID).or_insert(id.into());
        }
        let line = format!("{}\n", Value::Object(fields.found));
        // A request does not fail because the log is full or gone.
        let _: io::Result<()> = self.out.make_writer().write_all(line.as_bytes());
    }
}

/// What the runtime calls the id of an invocation in its span.
const SPAN_REQUEST_ID: &str = "requestId";

/// What the log calls it.
const REQUEST_ID: &str = "request_id";

struct Fields<'a> {
    keys: &'a Digests,
    found: Map<String, Value>,
}

impl Fields<'_> {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.found.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_key = KEY_FIELDS.contains(&field.name());
        let shown = if is_key { self.keys.of_key(value) } else { self.keys.of_text(value) };
        self.insert(field, shown.into_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::{Access, CountChange, Decision, Diagnosis, Extent, Figures};
    use dynashard_keys::{PartitionKey, ShardCount, SortKey};
    use dynashard_testkit::Output;
    use proptest::prelude::*;

    use super::*;

    /// `printf %s EWR | openssl dgst -sha256 -hmac 'a secret of the stack'`, of which the log has half.
    const EWR: &str = "key:46ca2385de27c51dc22cc0ace648acdd";

    fn digests() -> Digests {
        Digests::new(&LogKeys::Digest("a secret of the stack".to_owned()))
    }

    fn logged(keys: &LogKeys, log: impl FnOnce()) -> Value {
        logged_at(LevelFilter::INFO, keys, log)
    }

    fn logged_at(level: LevelFilter, keys: &LogKeys, log: impl FnOnce()) -> Value {
        let output = Output::default();
        let out = output.clone();
        let subscriber = subscriber(keys, level, move || out.clone());
        tracing::subscriber::with_default(subscriber, log);
        let text = output.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn a_key_has_the_digest_that_an_operator_computes() {
        assert_eq!(digests().of_key("EWR"), EWR);
        let other = Digests::new(&LogKeys::Digest("another".to_owned()));
        assert_ne!(other.of_key("EWR"), EWR);
        assert_eq!(Digests::new(&LogKeys::Plain).of_key("EWR"), "EWR");
        let shown = format!("{:?}", LogKeys::Digest("a secret of the stack".to_owned()));
        assert!(!shown.contains("secret of"), "{shown}");
    }

    #[test]
    fn a_line_has_digests_wherever_a_key_would_be() {
        let log = || {
            let span = tracing::info_span!("Lambda runtime invoke", requestId = "request-1");
            let _entered = span.enter();
            let detail = format!("the job item of {:?} is damaged: {:?}", "EWR", "E\"W\nR");
            tracing::error!(partition_key = "EWR", detail, shards = 4, "it failed: {:?}", "EWR");
            tracing::debug!("more than is asked for");
        };
        let line = logged(&LogKeys::Digest("a secret of the stack".to_owned()), log);
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["partition_key"], EWR);
        assert_eq!(line["message"], format!("it failed: {EWR}"));
        let detail = line["detail"].as_str().expect("a text");
        let escaped = digests().of_key("E\"W\nR").into_owned();
        assert_eq!(detail, format!("the job item of {EWR} is damaged: {escaped}"));
        assert_eq!(line["shards"], 4);
        assert_eq!(line["request_id"], "request-1");
        assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");

        let line = logged(&LogKeys::Plain, log);
        assert_eq!(line["partition_key"], "EWR");
        assert_eq!(line["message"], "it failed: \"EWR\"");
    }

    #[test]
    fn regression_the_reason_of_a_decision_told_a_sort_key() {
        let key = |text| SortKey::string(text).expect("a sort key");
        let decision = Decision {
            partition: PartitionKey::new("log").expect("a key"),
            diagnosis: Diagnosis::HotKey,
            access: Access::Write,
            count: ShardCount::ONE,
            action: CountChange::Grow(ShardCount::new(4).expect("a count")),
            extent: Extent::Behind { boundary: key("EWR"), descending: false },
            hindrance: None,
            bound: None,
            figures: Figures::default(),
        };
        let keys = LogKeys::Digest("a secret of the stack".to_owned());
        let line = logged(&keys, || tracing::info!(reason = %decision, "decided"));
        let reason = line["reason"].as_str().expect("a text");
        assert!(reason.contains(&format!(" behind {EWR}, and what there is stays")), "{line}");
    }

    #[test]
    fn regression_lines_lost_their_request_id_where_only_errors_are_logged() {
        let line = logged_at(LevelFilter::ERROR, &LogKeys::Plain, || {
            let span = tracing::info_span!("Lambda runtime invoke", requestId = "request-1");
            let _entered = span.enter();
            tracing::info!("less than is asked for");
            tracing::error!("it failed");
        });
        assert_eq!(
            (&line["message"], &line["request_id"]),
            (&"it failed".into(), &"request-1".into())
        );
    }

    proptest! {
        #[test]
        fn whatever_is_quoted_has_the_digest_of_what_it_was(
            key in ".{0,20}", before in "[^\"]{0,9}", after in "[^\"]{0,9}",
        ) {
            let text = format!("{before}{key:?}{after}");
            let expected = format!("{before}{}{after}", digests().of_key(&key));
            prop_assert_eq!(digests().of_text(&text), expected);
        }

        #[test]
        fn no_text_is_too_odd(text in any::<String>()) {
            let _ = digests().of_text(&text);
        }
    }
}
