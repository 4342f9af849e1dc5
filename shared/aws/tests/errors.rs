//! What becomes of DynamoDB's errors and of broken connections: a server on this machine gives the
//! answers that the engine never gives.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use dynashard_aws::{
    DynamoItemStore, DynamoRecordStore, OsEntropy, ServerClock, SystemClock, connect_local,
};
use dynashard_core::ports::{
    Action, Arrival, Clock, Condition, Consistency, Dated, Expected, ItemStore, ReadRecords,
    RecordStore, ShardPage, ShardQuery, SortRange, StoreError, Transfer, Transferred, World, Write,
};
use dynashard_core::query::PageBudget;
use dynashard_core::{
    AttributeValue, Attributes, Code, CollectionMetadata, Deadline, Directory, DirectoryItem,
    Error, Generation, Job, Lease, Reader, Settings, StoredItem, TableSchema, Throttle,
    ThrottleLimit, Version,
};
use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, Placement, ShardCount, ShardId, SortKey};
use dynashard_testkit::{beginning, ending, enlisting};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A server that answers every request alike.
struct Server {
    address: SocketAddr,
    requests: Requests,
}

/// A port at which nobody accepts: the connections that it holds fill its queue, so that a further one
/// is never established.
struct FullPort {
    address: SocketAddr,
    _held: (TcpListener, Vec<TcpStream>),
}

impl FullPort {
    async fn open() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let listener = socket.listen(1).expect("a port that listens");
        let address = listener.local_addr().expect("the port that was bound");
        // Linux takes one connection more than the queue is long.
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(TcpStream::connect(address).await.expect("a place in the queue"));
        }
        Self { address, _held: (listener, held) }
    }
}

/// The requests that were received, head and body.
type Requests = Arc<Mutex<Vec<String>>>;

#[derive(Clone)]
enum Answer {
    Body {
        status: u16,
        text: String,
    },
    /// The connection is closed instead.
    Close,
}

impl Server {
    async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the port that was bound");
        let requests = Requests::default();
        let received = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that breaks off shows in the test.
                let _ = converse(stream, &answer, &received).await;
            }
        });
        Self { address, requests }
    }

    /// A port where nobody listens.
    async fn absent() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the port that was bound");
        Self { address, requests: Requests::default() }
    }

    /// A port that hangs up on everybody, before it has read anything.
    async fn hanging_up() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the port that was bound");
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        address
    }

    fn requests(&self) -> usize {
        self.received().len()
    }

    fn received(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads one request, notes it, and answers.
async fn converse(
    mut stream: TcpStream,
    answer: &Answer,
    requests: &Requests,
) -> std::io::Result<()> {
    let mut received = Vec::new();
    while !is_whole(&received) {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&received).into_owned();
    requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let Answer::Body { status, text } = answer else { return Ok(()) };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status} Canned\r\ncontent-type: application/x-amz-json-1.0\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await
}

fn is_whole(received: &[u8]) -> bool {
    let text = String::from_utf8_lossy(received);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    body.len() >= length.unwrap_or(0)
}

/// The stores over one server, and what every test asks of them.
struct Stores {
    server: Server,
    items: DynamoItemStore,
    metadata: DynamoRecordStore,
    clock: SystemClock,
}

impl Stores {
    async fn over(server: Server) -> Self {
        Self::at(&format!("http://{}", server.address), server).await
    }

    async fn at(endpoint: &str, server: Server) -> Self {
        let server_clock = ServerClock::default();
        let clock = SystemClock::new(server_clock.clone());
        let client = connect_local(endpoint, server_clock).await;
        let schema = TableSchema::default();
        let table = || "table".to_owned();
        Self {
            items: DynamoItemStore::new(client.clone(), clock.clone(), table(), schema.clone()),
            metadata: DynamoRecordStore::new(client, table(), &schema),
            server,
            clock,
        }
    }

    async fn answering(status: u16, body: &Value) -> Self {
        Self::over(Server::start(Answer::Body { status, text: body.to_string() }).await).await
    }

    /// The errors of each operation that only reads.
    async fn reads(&self) -> Vec<StoreError> {
        let strong = Consistency::Strong;
        vec![
            self.items.get(&key(), None, strong).await.expect_err("a read that fails"),
            self.page().await.expect_err("a query that fails"),
            self.items.batch_get(&[key()], None, strong).await.expect_err("a batch that fails"),
            self.metadata
                .get::<CollectionMetadata>(&partition())
                .await
                .expect_err("a metadata read that fails"),
        ]
    }

    async fn page(&self) -> Result<ShardPage, StoreError> {
        let query = ShardQuery {
            partition: key().partition,
            range: SortRange::All,
            ascending: true,
            after: None,
            limit: 1,
            fields: None,
            consistency: Consistency::Strong,
            replica: None,
        };
        self.items.query(&query).await
    }

    /// The errors of each operation that writes to the main table.
    async fn item_writes(&self) -> Vec<StoreError> {
        let mut errors = Vec::new();
        for action in [Action::Put(item().into()), Action::Delete] {
            let condition = Condition { generation: Generation::new(1), expected: Expected::Any };
            let write = Write { key: key(), action, condition, lease: self.lease() };
            errors.push(self.items.write(&write).await.expect_err("a write that fails"));
        }
        errors
    }

    /// The errors of each operation that writes.
    async fn writes(&self) -> Vec<StoreError> {
        let mut errors = self.item_writes().await;
        errors.push(self.transfer().await.expect_err("a transaction that fails"));
        errors.push(self.creation().await);
        errors
    }

    /// A move of an item to its new home.
    async fn transfer(&self) -> Result<Transferred, StoreError> {
        let StoredItem { version, generation, .. } = item();
        let transfer = Transfer {
            old: key(),
            new: key_in(ShardId::new(1)),
            seen: (version, generation),
            arrival: Arrival::Copy(item()),
            generation,
            lease: self.lease(),
        };
        self.items.transfer(&transfer).await
    }

    fn lease(&self) -> Lease {
        Lease::new(self.clock.now(), None, Duration::from_mins(1))
    }

    async fn creation(&self) -> StoreError {
        let metadata =
            CollectionMetadata::stable(partition(), Placement::Xxh64, ShardCount::ONE, 1);
        enlist(&self.metadata, &metadata).await.expect_err("a creation that fails")
    }
}

/// The request that gives a collection its metadata, as the first of all.
async fn enlist(
    store: &DynamoRecordStore,
    metadata: &CollectionMetadata,
) -> Result<Dated<()>, StoreError> {
    let seen = DirectoryItem::default();
    store.commit(&enlisting(&seen, metadata, None)).await
}

fn partition() -> PartitionKey {
    PartitionKey::new("EWR").expect("a valid partition key")
}

fn key() -> PhysicalKey {
    key_in(ShardId::new(0))
}

fn key_in(shard: ShardId) -> PhysicalKey {
    let sort = SortKey::string("UA1545").expect("a valid sort key");
    ItemKey::new(partition(), sort).at(shard, Placement::Xxh64, TableSchema::default().separator)
}

fn item() -> StoredItem {
    StoredItem {
        attributes: Attributes::from([(
            "dest".to_owned(),
            AttributeValue::String("IAH".to_owned()),
        )]),
        generation: Generation::new(3),
        version: Version::new(7),
        forwarded: false,
    }
}

fn error(code: &str) -> Value {
    json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "no" })
}

/// Every read fails with `read` and every write with `write`, and each was sent once.
async fn check(stores: &Stores, read: &StoreError, write: &StoreError) {
    let (reads, writes) = (stores.reads().await, stores.writes().await);
    assert_eq!(stores.server.requests(), reads.len() + writes.len(), "each is sent once");
    assert!(reads.iter().all(|error| error == read), "{read:?} expected, and not {reads:?}");
    assert!(writes.iter().all(|error| error == write), "{write:?} expected, and not {writes:?}");
}

/// As [`check`], for errors whose text is not this project's.
async fn check_kinds(
    stores: &Stores,
    read: &StoreError,
    write: &StoreError,
    requests_of_each: usize,
) {
    let (reads, writes) = (stores.reads().await, stores.writes().await);
    let sent = requests_of_each * (reads.len() + writes.len());
    assert_eq!(stores.server.requests(), sent, "each is sent once");
    let are = |errors: &[StoreError], expected: &StoreError| {
        errors.iter().all(|error| discriminant(error) == discriminant(expected))
    };
    assert!(are(&reads, read), "{read:?} expected, and not {reads:?}");
    assert!(are(&writes, write), "{write:?} expected, and not {writes:?}");
}

fn unavailable() -> StoreError {
    StoreError::Unavailable(String::new())
}

fn unknown() -> StoreError {
    StoreError::OutcomeUnknown(String::new())
}

#[tokio::test]
async fn throttles_say_their_reason_and_resource() {
    let arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/main";
    let reasons = json!([{ "reason": "TableWriteKeyRangeThroughputExceeded", "resource": arn }]);
    // AWS spells the member in two ways.
    for (code, member) in [
        ("ProvisionedThroughputExceededException", "ThrottlingReasons"),
        ("RequestLimitExceeded", "ThrottlingReasons"),
        ("ThrottlingException", "throttlingReasons"),
    ] {
        let mut body = error(code);
        body[member] = reasons.clone();
        let throttled = StoreError::Throttled(Throttle {
            limit: ThrottleLimit::KeyRange,
            on_index: false,
            resource: Some(arn.to_owned()),
        });
        check(&Stores::answering(400, &body).await, &throttled, &throttled).await;

        let throttled = StoreError::Throttled(Throttle::unknown());
        check(&Stores::answering(400, &error(code)).await, &throttled, &throttled).await;
    }
}

/// Invariant I6.
#[tokio::test]
async fn definite_refusals_are_told_apart() {
    let text = |code: &str| format!("{code}: no");
    for (code, expected) in [
        ("TransactionConflictException", StoreError::Conflict),
        ("ValidationException", StoreError::Rejected(text("ValidationException"))),
        ("ResourceNotFoundException", StoreError::Misconfigured(text("ResourceNotFoundException"))),
        ("AccessDeniedException", StoreError::Misconfigured(text("AccessDeniedException"))),
        (
            "UnrecognizedClientException",
            StoreError::Misconfigured(text("UnrecognizedClientException")),
        ),
        ("ExpiredTokenException", StoreError::Misconfigured(text("ExpiredTokenException"))),
    ] {
        check(&Stores::answering(400, &error(code)).await, &expected, &expected).await;
    }
}

/// The transaction's own message names neither the index nor the attribute.
#[tokio::test]
async fn regression_nobody_was_told_why_dynamodb_rejects_an_item() {
    let mut body = error("TransactionCanceledException");
    for code in ["ValidationError", "ItemCollectionSizeLimitExceeded"] {
        body["CancellationReasons"] =
            json!([{ "Code": "None" }, { "Code": code, "Message": "why" }]);
        let stores = Stores::answering(400, &body).await;
        let rejected = StoreError::Rejected(format!("{code}: why"));
        assert_eq!(stores.transfer().await, Err(rejected));
    }
}

/// Wrong credentials do not get better by waiting, and were retried until the deadline all the same:
/// a signature that is wrong and one that came late have one code.
#[tokio::test]
async fn regression_wrong_credentials_were_retried_as_if_the_signature_had_come_late() {
    let answering = async |message: &str| {
        let mut body = error("InvalidSignatureException");
        body["message"] = json!(message);
        Stores::answering(400, &body).await
    };
    let text = |message: &str| format!("InvalidSignatureException: {message}");
    for late in [
        "Signature expired: 20261120T100000Z is now earlier than 20261120T101010Z (20261120T102510Z - 15 min.)",
        "Signature not yet current: 20261120T104000Z is still later than 20261120T102510Z (20261120T101010Z + 15 min.)",
    ] {
        let refused = StoreError::Unavailable(text(late));
        check(&answering(late).await, &refused, &refused).await;
    }
    let wrong = "The request signature we calculated does not match the signature you provided. \
                 Check your AWS Secret Access Key and signing method.";
    let refused = StoreError::Misconfigured(text(wrong));
    check(&answering(wrong).await, &refused, &refused).await;
}

/// Invariant I6.
#[tokio::test]
async fn a_fault_of_the_server_leaves_a_write_unknown_and_a_read_without_effect() {
    for (status, code) in
        [(500, "InternalServerError"), (503, "ServiceUnavailable"), (400, "SomethingNewException")]
    {
        let text = format!("{code}: no");
        let (read, write) =
            (StoreError::Unavailable(text.clone()), StoreError::OutcomeUnknown(text));
        check(&Stores::answering(status, &error(code)).await, &read, &write).await;
    }
}

/// Invariant I6.
#[tokio::test]
async fn an_answer_that_makes_no_sense_leaves_a_write_unknown() {
    for status in [200, 400, 500] {
        let answer = Answer::Body { status, text: "<html>bad gateway".to_owned() };
        let stores = Stores::over(Server::start(answer).await).await;
        check_kinds(&stores, &unavailable(), &unknown(), 1).await;
    }
}

/// Invariant I6.
#[tokio::test]
async fn a_connection_that_is_closed_without_an_answer_leaves_a_write_unknown() {
    let stores = Stores::over(Server::start(Answer::Close).await).await;
    check_kinds(&stores, &unavailable(), &unknown(), 1).await;
}

/// Invariant I6.
#[tokio::test]
async fn a_refused_connection_certainly_wrote_nothing() {
    let stores = Stores::over(Server::absent().await).await;
    check_kinds(&stores, &unavailable(), &unavailable(), 0).await;
}

/// Invariant I6. Without credentials nothing is signed and nothing sent, and each write was answered 504.
#[tokio::test]
async fn regression_a_write_without_credentials_counted_as_sent() {
    let server = Server::start(Answer::Body { status: 200, text: "{}".to_owned() }).await;
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .endpoint_url(format!("http://{}", server.address))
        .credentials_provider(Nobody)
        .build();
    let client = Client::from_conf(config);
    let clock = SystemClock::new(ServerClock::default());
    let schema = TableSchema::default();
    let stores = Stores {
        items: DynamoItemStore::new(
            client.clone(),
            clock.clone(),
            "table".to_owned(),
            schema.clone(),
        ),
        metadata: DynamoRecordStore::new(client, "table".to_owned(), &schema),
        server,
        clock,
    };
    for error in stores.writes().await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }
}

/// Whose credentials cannot be had.
#[derive(Debug)]
struct Nobody;

impl ProvideCredentials for Nobody {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::provider_error("they have ended")))
    }
}

/// Invariant I6. Only a refused connection was known to have carried nothing; each of these was
/// answered 504.
#[tokio::test]
async fn regression_a_write_without_a_connection_counted_as_sent() {
    // A label of a host name has at most 63 characters, so no name server is asked.
    let unknown_host = format!("http://{}.invalid", "a".repeat(64));
    let hanging_up = Server::hanging_up().await;
    let full = FullPort::open().await;
    let mut outcomes = Vec::new();
    for endpoint in
        [unknown_host, format!("https://{hanging_up}"), format!("http://{}", full.address)]
    {
        let stores = Stores::at(&endpoint, Server::absent().await).await;
        let creation =
            CollectionMetadata::stable(partition(), Placement::Xxh64, ShardCount::ONE, 1);
        // Side by side, since each of them may wait as long as a connection takes at most.
        let (read, write) = tokio::join!(stores.page(), enlist(&stores.metadata, &creation));
        outcomes.extend([read.map(drop), write.map(drop)]);
    }
    let is_unavailable =
        |outcome: &Result<(), StoreError>| matches!(outcome, Err(StoreError::Unavailable(_)));
    assert!(outcomes.iter().all(is_unavailable), "{outcomes:#?}");
}

/// Invariant I12.
#[tokio::test]
async fn a_failed_condition_brings_what_was_there() {
    let mut body = error("ConditionalCheckFailedException");
    let nothing = StoreError::ConditionFailed { existing: None };
    let stores = Stores::answering(400, &body).await;
    let writes = stores.writes().await;
    assert!(
        writes.iter().all(|error| *error == nothing),
        "{nothing:?} expected, and not {writes:?}"
    );

    body["Item"] = json!({
        "pk": { "S": "EWR" },
        "sk": { "S": "UA1545" },
        "dest": { "S": "IAH" },
        "_ds_g": { "N": "3" },
        "_ds_v": { "N": "7" },
    });
    let found = StoreError::ConditionFailed { existing: Some(Box::new(item())) };
    let stores = Stores::answering(400, &body).await;
    assert_eq!(stores.item_writes().await, [found.clone(), found]);
    assert_eq!(stores.creation().await, nothing);
    assert_eq!(stores.server.requests(), 3, "each is sent once");

    body["Item"]["_ds_g"] = json!({ "N": "-3" });
    let stores = Stores::answering(400, &body).await;
    let damaged =
        StoreError::Corrupt("_ds_g is \"-3\", which is not an unsigned number".to_owned());
    assert_eq!(stores.item_writes().await, [damaged.clone(), damaged]);
}

/// Nothing is sent twice, so no two transactions share a token, and none is taken for another.
#[tokio::test]
async fn each_transaction_carries_its_own_token() {
    let stores = Stores::answering(200, &json!({ "Item": sound_job() })).await;
    let job = stores.metadata.get::<Job>(&partition()).await.expect("a sound job").value;
    let job = job.expect("a job");
    let metadata = CollectionMetadata::stable(partition(), Placement::Xxh64, ShardCount::ONE, 1);
    let (began, finished) = (
        stores.metadata.commit(&beginning(&metadata, &metadata, Some(&job), &job)).await,
        stores.metadata.commit(&ending(&metadata, &metadata, &job)).await,
    );
    assert!(began.is_ok() && finished.is_ok(), "{began:?}, {finished:?}");
    let done = Ok(Transferred::Done { consumed_wcu: 0.0 });
    assert_eq!(stores.transfer().await, done, "the answer reports none");

    let received = stores.server.received();
    let is_transaction = |request: &&String| request.contains("TransactWriteItems");
    let transactions = received.iter().filter(is_transaction).collect::<Vec<_>>();
    assert_eq!(transactions.len(), 3, "{received:?}");
    let token = |request: &&String| {
        let (_, rest) = request.split_once(r#""ClientRequestToken":""#).expect("a token");
        rest.split('"').next().expect("its end").to_owned()
    };
    let tokens: BTreeSet<_> = transactions.iter().copied().map(|it| token(&it)).collect();
    assert_eq!(tokens.len(), 3, "{tokens:?}");
}

#[tokio::test]
async fn a_damaged_item_names_the_attribute() {
    for (attribute, value, why) in [
        ("_ds_g", json!({ "N": "1.5" }), "_ds_g is \"1.5\", which is not an unsigned number"),
        ("_ds_g", json!({ "S": "3" }), "_ds_g is not a number"),
        (
            "_ds_v",
            json!({ "N": "18446744073709551616" }),
            "_ds_v is \"18446744073709551616\", which is not an unsigned number",
        ),
        ("_ds_v", json!({ "BOOL": true }), "_ds_v is not a number"),
    ] {
        let mut item = json!({ "pk": { "S": "EWR" }, "sk": { "S": "UA1545" } });
        item[attribute] = value;
        let stores = Stores::answering(200, &json!({ "Item": item })).await;
        let found = stores.items.get(&key(), None, Consistency::Strong).await;
        assert_eq!(found, Err(StoreError::Corrupt(why.to_owned())));
    }
}

#[tokio::test]
async fn of_a_page_the_damaged_item_is_named() {
    let item = json!({ "pk": { "S": "EWR" }, "sk": { "S": "UA1545" }, "_ds_v": { "S": "7" } });
    let page = json!({ "Items": [item], "Count": 1, "ScannedCount": 1 });
    let stores = Stores::answering(200, &page).await;
    let why = "the item with sort key \"UA1545\": _ds_v is not a number";
    assert_eq!(stores.page().await, Err(StoreError::Corrupt(why.to_owned())));
}

/// It kept all keys that were asked for with it from being read, those of other collections too.
#[tokio::test]
async fn regression_a_damaged_item_hid_the_others_of_its_batch() {
    let [sound, damaged] =
        [("1", json!({ "N": "7" })), ("2", json!({ "S": "7" }))].map(|(sk, version)| {
            json!({
                "pk": { "S": "EWR" },
                "sk": { "S": sk },
                "_ds_g": { "N": "1" },
                "_ds_v": version,
            })
        });
    let mut metadata = metadata_in_forward();
    for field in ["from", "to"] {
        metadata.as_object_mut().expect("an item").remove(field);
    }
    metadata["phase"] = json!({ "S": "stable" });
    metadata["number_of_shards"] = json!({ "N": "1" });
    metadata["shard_history"] = json!({ "SS": ["1356998400:1"] });
    metadata["min_shards"] = json!({ "N": "1" });
    // This answer stands for the directory item, too, which lists EWR.
    metadata["collections"] = json!({ "B": "1DUkdAibYxw=" });
    // And for the item of the owner.
    metadata["_ds_owner"] = json!({ "S": "one" });
    metadata["_ds_metadata"] = json!({ "S": "metadata" });
    metadata["settings"] = json!({ "M": {
        "format": { "N": "1" },
        "revision": { "N": "1" },
        "stack_id": { "S": "one" },
        "partition_key_name": { "S": "pk" },
        "sort_key_name": { "S": "sk" },
        "sort_key_type": { "S": "S" },
        "separator": { "S": "#~" },
        "lease_secs": { "N": "2" },
        "request_lifetime_secs": { "N": "960" },
    } });
    let body = json!({ "Item": metadata, "Responses": { "table": [damaged, sound] } });
    let Stores { items, metadata, clock, .. } = Stores::answering(200, &body).await;
    let directory =
        Directory::new(World::new(items, metadata, clock.clone(), OsEntropy), Settings::default());
    let reader = Reader::new(directory);
    let keys = ["1", "2", "3"]
        .map(|sk| ItemKey::new(partition(), SortKey::string(sk).expect("a sort key")));
    let deadline = Deadline::after(clock.now(), Duration::from_secs(20));
    let got = reader
        .batch_get(keys.to_vec(), None, Consistency::Strong, PageBudget::UNLIMITED, deadline)
        .await;
    let got = got.expect("a batch");
    assert_eq!(got.items.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [keys[0].clone()]);
    assert_eq!(got.unprocessed, [(keys[1].clone(), Code::CorruptData)]);
    let why = Error::new(Code::CorruptData, "_ds_v is not a number");
    assert_eq!(got.failures, [(keys[1].clone(), why)]);
}

/// Items of before the largest count was kept have their history.
#[tokio::test]
async fn a_metadata_item_without_a_largest_count_is_read_by_its_history() {
    let mut item = metadata_in_forward();
    let largest = async |item: &Value| {
        let stores = Stores::answering(200, &json!({ "Item": item })).await;
        let metadata =
            stores.metadata.get::<CollectionMetadata>(&partition()).await.expect("sound").value;
        metadata.expect("a collection").largest_count.get()
    };
    assert_eq!(largest(&item).await, 8, "the count that it changes to");
    item["shard_history"] = json!({ "SS": ["1356998300:32", "1356998400:4"] });
    assert_eq!(largest(&item).await, 32);
    item["_ds_max_shards"] = json!({ "N": "64" });
    assert_eq!(largest(&item).await, 64);
    for wrong in [json!({ "N": "0" }), json!({ "S": "64" })] {
        item["_ds_max_shards"] = wrong;
        let stores = Stores::answering(200, &json!({ "Item": item })).await;
        match stores.metadata.get::<CollectionMetadata>(&partition()).await {
            Err(StoreError::Corrupt(why)) => assert!(why.contains("_ds_max_shards"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

fn metadata_in_forward() -> Value {
    json!({
        "pk": { "S": "EWR" },
        "number_of_shards": { "N": "4" },
        "last_updated": { "N": "1356998400" },
        "shard_history": { "SS": ["1356998400:4"] },
        "generation": { "N": "1" },
        "phase": { "S": "forward" },
        "from": { "N": "4" },
        "to": { "N": "8" },
        "placement": { "S": "xxh64" },
        "rev": { "N": "1" },
        "min_shards": { "N": "4" },
    })
}

#[tokio::test]
async fn a_damaged_metadata_item_names_the_field() {
    let whole = metadata_in_forward();
    let stores = Stores::answering(200, &json!({ "Item": whole.clone() })).await;
    assert!(
        stores.metadata.get::<CollectionMetadata>(&partition()).await.is_ok(),
        "the whole item is sound"
    );

    let mut left_over = whole.clone();
    left_over["phase"] = json!({ "S": "stable" });
    let stores = Stores::answering(200, &json!({ "Item": left_over })).await;
    let why =
        "the metadata item of \"EWR\" is damaged: from: is there, although the phase is stable";
    let found =
        stores.metadata.get::<CollectionMetadata>(&partition()).await.map(|found| found.value);
    assert_eq!(found, Err(StoreError::Corrupt(why.to_owned())));

    let counts = ["0", "65537", "1.5", "-4"];
    let numbers = ["-1", "1.5", "18446744073709551616"];
    let out_of_range: [(&str, &str, &[&str]); 10] = [
        ("number_of_shards", "N", &counts),
        ("last_updated", "N", &numbers),
        ("shard_history", "SS", &["", "4", "1:0", "1:65537", "-1:4", "1:4:4", "x:4"]),
        ("generation", "N", &numbers),
        ("phase", "S", &["", "Stable", "moving"]),
        ("from", "N", &counts),
        ("to", "N", &counts),
        ("placement", "S", &["", "md5", "XXH64"]),
        ("rev", "N", &numbers),
        ("min_shards", "N", &counts),
    ];
    for (field, r#type, values) in out_of_range {
        let mut damaged = vec![Value::Null, json!({ "BOOL": true })];
        damaged.extend(values.iter().map(|text| match r#type {
            "SS" => json!({ "SS": ["1356998400:4", text] }),
            r#type => json!({ r#type: text }),
        }));
        for value in damaged {
            let mut item = whole.clone();
            if value.is_null() {
                item.as_object_mut().expect("an object").remove(field);
            } else {
                item[field] = value.clone();
            }
            let stores = Stores::answering(200, &json!({ "Item": item })).await;
            match stores.metadata.get::<CollectionMetadata>(&partition()).await {
                Err(StoreError::Corrupt(why)) => {
                    let named = format!("the metadata item of \"EWR\" is damaged: {field}: ");
                    assert!(why.starts_with(&named), "{field} {value}: {why}");
                }
                other => panic!("{field} {value}: {other:?}"),
            }
        }
    }
}

/// A job item in which every field has a value.
fn sound_job() -> Value {
    json!({
        "pk": { "S": "_ds_job#EWR" },
        "generation": { "N": "2" },
        "rev": { "N": "7" },
        "slice": { "S": "running" },
        "job": { "M": {
            "from": { "N": "4" },
            "to": { "N": "8" },
            "then": { "N": "4" },
            "started": { "N": "1356998400" },
            "forward_seen": { "N": "1356998400" },
            "move_seen": { "N": "1356998408" },
            "scan_began": { "N": "1356999400" },
            "scanned": { "N": "1356999408" },
            "closed_seen": { "N": "1356999416" },
            "closing": { "BOOL": true },
            "scan": { "N": "2" },
            "done": { "NS": ["0", "3"] },
            "under_way": { "M": { "1": { "S": "UA1545" } } },
            "spans": { "M": { "1": { "L": [{ "S": "AA1" }, { "S": "WN9" }] } } },
            "claims": { "M": { "1": { "M": {
                "worker": { "N": "7" },
                "lane": { "N": "1" },
                "until": { "N": "1356999420" },
                "wcu": { "N": "400" },
            } } } },
            "last_lane": { "N": "2" },
            "called_until": { "N": "1356999421" },
            "marked_first": { "N": "0" },
            "marked_last": { "N": "3" },
            "items_moved": { "N": "12" },
        } },
    })
}

#[tokio::test]
async fn a_damaged_job_item_names_the_field() {
    let sound = sound_job();
    let stores = Stores::answering(200, &json!({ "Item": sound.clone() })).await;
    assert!(stores.metadata.get::<Job>(&partition()).await.is_ok(), "the whole item is sound");

    let numbers = [json!({ "N": "-1" }), json!({ "N": "1.5" }), json!({ "S": "1" })];
    let counts = [json!({ "N": "0" }), json!({ "N": "65537" }), json!({ "BOOL": true })];
    let shards = [json!({ "N": "4294967296" }), json!({ "S": "1" })];
    let at_top = |field: &'static str, values: &[Value]| (field, true, values.to_vec());
    let inside = |field: &'static str, values: &[Value]| (field, false, values.to_vec());
    let cases = [
        at_top("generation", &numbers),
        at_top("rev", &numbers),
        at_top("slice", &[json!({ "N": "1" })]),
        at_top("job", &[json!({ "S": "{}" })]),
        inside("from", &counts),
        inside("to", &counts),
        inside("then", &counts),
        inside("started", &numbers),
        inside("forward_seen", &numbers),
        inside("move_seen", &numbers),
        inside("scan_began", &numbers),
        inside("scanned", &numbers),
        inside("closed_seen", &numbers),
        inside("closing", &[json!({ "S": "true" })]),
        inside("scan", &shards),
        inside("done", &[json!({ "NS": ["1.5"] }), json!({ "SS": ["1"] })]),
        inside(
            "under_way",
            &[
                json!({ "S": "UA1545" }),
                json!({ "M": { "x": { "S": "UA1545" } } }),
                json!({ "M": { "1": { "BOOL": true } } }),
                json!({ "M": { "1": { "N": "1E+200" } } }),
            ],
        ),
        inside(
            "spans",
            &[
                json!({ "S": "AA1" }),
                json!({ "M": { "1": { "S": "AA1" } } }),
                json!({ "M": { "1": { "L": [{ "S": "AA1" }] } } }),
                json!({ "M": { "1": { "L": [{ "S": "AA1" }, { "BOOL": true }] } } }),
            ],
        ),
        inside(
            "claims",
            &[
                json!({ "S": "7" }),
                json!({ "M": { "1": { "S": "7" } } }),
                json!({ "M": { "x": { "M": {} } } }),
                json!({ "M": { "1": { "M": { "worker": { "N": "7" } } } } }),
            ],
        ),
        inside("last_lane", &shards),
        inside("called_until", &numbers),
        inside("marked_first", &shards),
        inside("marked_last", &shards),
        inside("items_moved", &numbers),
    ];
    let required = [
        "generation",
        "rev",
        "slice",
        "job",
        "from",
        "to",
        "started",
        "closing",
        "scan",
        "under_way",
        "marked_last",
        "items_moved",
    ];
    for (field, is_at_top, values) in cases {
        let missing = required.contains(&field).then_some(Value::Null);
        for value in values.into_iter().chain(missing) {
            let mut item = sound.clone();
            let map = if is_at_top { &mut item } else { &mut item["job"]["M"] };
            if value.is_null() {
                map.as_object_mut().expect("an object").remove(field);
            } else {
                map[field] = value.clone();
            }
            let stores = Stores::answering(200, &json!({ "Item": item })).await;
            match stores.metadata.get::<Job>(&partition()).await {
                Err(StoreError::Corrupt(why)) => {
                    let named = format!("the job item of \"EWR\" is damaged: {field}: ");
                    assert!(why.starts_with(&named), "{field} {value}: {why}");
                }
                other => panic!("{field} {value}: {other:?}"),
            }
        }
    }
}
