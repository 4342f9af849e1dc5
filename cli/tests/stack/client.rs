//! The typed client on a stack: by way of the HTTP API and on the tables themselves, with the same outcome.

#[path = "../../../shared/client/examples/users.rs"]
pub(crate) mod users;

use std::time::Duration;

use dynashard_aws_operator::{Caller, Operator, RequestSigner};
use dynashard_client::{Bounds, Client, CollectionQuery, Condition, HttpApi, InProcess, Store};
use dynashard_core::ScalingMode;
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, SortKey};
use futures_util::TryStreamExt;
use serde_json::json;
use users::User;

use crate::common::LocalStack;

fn partition(key: &str) -> PartitionKey {
    PartitionKey::new(key).expect("a key")
}

/// All users of a tenant by way of `client`, which did not store them.
async fn read<S: Store>(client: &Client<S>, tenant_id: &str) -> Vec<User> {
    let all = CollectionQuery::of(User::partition_key_of(tenant_id).expect("a key")).consistent();
    client.query(&all).try_collect().await.expect("it reads")
}

#[tokio::test(flavor = "multi_thread")]
async fn both_stores_see_the_same_items_and_versions() {
    let stack = tokio::task::spawn_blocking(|| LocalStack::start(&["--set", "LeaseSecs=1"]));
    let stack = stack.await.expect("it starts");
    let api = Client::new(HttpApi::new(&stack.api).expect("a URL"));

    // Its first request makes the stack pin its settings, which the tables are asked for.
    let by_api = users::tour(&api, "of-api").await.expect("it runs");
    let endpoint_url = Some(stack.dynamodb.clone());
    let caller = Caller { endpoint_url, ..Caller::default() };
    let tables = InProcess::connect(&caller, "MainTable", "MetadataTable").await;
    let tables = Client::new(tables.expect("the settings are pinned"));
    let by_tables = users::tour(&tables, "of-tables").await.expect("it runs");

    assert_eq!(by_api.len(), 19);
    assert_eq!(read(&tables, "of-api").await, by_api);
    assert_eq!(read(&api, "of-tables").await, by_tables);
    let but_for_tenants =
        by_tables.into_iter().map(|user| User { tenant_id: "of-api".to_owned(), ..user });
    assert_eq!(but_for_tenants.collect::<Vec<_>>(), by_api);

    // A version that one store answered is a condition for the other.
    let key = User::item_key_of("of-api", "u00").expect("a key");
    let found = api.get_consistent::<User>(&key).await.expect("it reads").expect("it exists");
    let condition = Condition::Version(found.etag);
    let etag = tables.put_if(&found.value, &condition).await.expect("it is this version");
    api.delete(&key, &Condition::Version(etag)).await.expect("it is the next version");
    assert_eq!(tables.get_consistent::<User>(&key).await.expect("it reads"), None);

    // What one counts, the other reads.
    let visits = User::item_key_of("of-api", "visits").expect("a key");
    assert_eq!(api.store().counter(&visits).await.expect("it reads"), None);
    let bounds = Bounds { min: Some(0), max: None };
    api.store().add_to_counter(&visits, 3, bounds).await.expect("it is made");
    tables.store().add_to_counter(&visits, -2, bounds).await.expect("it is added");
    let refused = api.store().add_to_counter(&visits, -2, bounds).await.expect_err("too much");
    assert_eq!(refused.code(), Some("counter_limit"));
    // What one refuses, the other does.
    for wrong in [Bounds { min: Some(5), max: Some(1) }, Bounds { min: None, max: Some(i64::MAX) }]
    {
        let by_api = api.store().add_to_counter(&visits, 1, wrong).await.expect_err("wrong");
        let by_tables = tables.store().add_to_counter(&visits, 1, wrong).await.expect_err("wrong");
        assert_eq!([by_api.code(), by_tables.code()], [Some("bad_body"); 2], "{wrong:?}");
    }
    let by_api = api.delete(&visits, &Condition::Absent).await.expect_err("it makes no sense");
    let by_tables = tables.delete(&visits, &Condition::Absent).await.expect_err("nor here");
    assert_eq!([by_api.code(), by_tables.code()], [Some("bad_header"); 2]);
    assert_eq!(api.store().counter(&visits).await.expect("it reads"), Some(1));
    assert_eq!(tables.store().counter(&visits).await.expect("it reads"), Some(1));

    // A key that is too long for a URL is as good as any other.
    let (tenant_id, id) = ("é".repeat(900), "é".repeat(400));
    let key = User::item_key_of(&tenant_id, &id).expect("a key");
    let long = User { tenant_id, id, ..found.value };
    let etag = api.put_if(&long, &Condition::Absent).await.expect("it is new");
    let found = api.get_consistent::<User>(&key).await.expect("it reads").expect("it exists");
    assert_eq!((&found.value, &found.etag), (&long, &etag));
    assert!(api.put_if(&long, &Condition::Absent).await.is_err());
    api.delete(&key, &Condition::Version(etag)).await.expect("it is this version");
    assert_eq!(tables.get_consistent::<User>(&key).await.expect("it reads"), None);

    // A collection has the shards of its type, whoever made it, and its items lie in all of them.
    // So that the stack tells by what it decides.
    tokio::task::block_in_place(|| stack.run_schedule());
    for (client_of, tenant_id) in [("api", "spread-by-api"), ("tables", "spread-by-tables")] {
        let partition = User::partition_key_of(tenant_id).expect("a key");
        match client_of {
            "api" => api.create_collection::<User>(&partition).await.expect("it is new"),
            _ => tables.create_collection::<User>(&partition).await.expect("it is new"),
        }
        let path = format!("/collection?pk={partition}");
        let collection = tokio::task::block_in_place(|| stack.get(&path)).json();
        assert_eq!(collection["number_of_shards"], json!(16), "{collection}");
        assert_eq!(collection["placement"], json!("xxh64"));
        assert_eq!(users::tour(&tables, tenant_id).await.expect("it runs").len(), 19);
        assert_eq!(read(&api, tenant_id).await.len(), 19);
    }
    tokio::task::spawn_blocking(move || drop(stack)).await.expect("it ends");
}

/// A client on the tables gave any key any number of shards: writers of a key that the stack leaves alone no longer found its items.
#[tokio::test(flavor = "multi_thread")]
async fn regression_a_client_on_the_tables_sharded_keys_that_the_stack_leaves_alone() {
    let set = ["LeaseSecs=1", "GrowKeys=EVENT#*", "MaxShards=8"];
    let set = set.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    let stack = tokio::task::spawn_blocking(move || LocalStack::start(&set)).await;
    let stack = stack.expect("it starts");
    let api = HttpApi::new(&stack.api).expect("a URL");
    // The first request makes the stack pin its settings.
    let key = ItemKey::new(partition("EVENT#0"), SortKey::string("0").expect("a sort key"));
    api.put(&key, "{}", &Condition::None).await.expect("it is put");
    // So that the stack tells by what it decides.
    tokio::task::block_in_place(|| stack.run_schedule());
    let caller = Caller { endpoint_url: Some(stack.dynamodb.clone()), ..Caller::default() };
    let tables = InProcess::connect(&caller, "MainTable", "MetadataTable").await;
    let tables = tables.expect("the settings are pinned");
    for (pk, shards, code) in [
        ("ORDER#1", 2, Some("collection_not_allowed")),
        ("EVENT#1", 16, Some("bad_shard_count")),
        ("EVENT#2", 8, None),
    ] {
        let partition = partition(pk);
        let count = ShardCount::new(shards).expect("a count");
        let by_tables = tables.create_collection(&partition, Placement::Xxh64, count).await;
        let by_tables = by_tables.as_ref().map_err(|error| error.code().unwrap_or_default());
        assert_eq!(by_tables.err(), code, "{pk}");
        let by_api = api.create_collection(&partition, Placement::Xxh64, count).await;
        let by_api = by_api.as_ref().map_err(|error| error.code().unwrap_or_default());
        assert_eq!(by_api.err(), code.or(Some("collection_exists")), "{pk}");
    }
    tokio::task::spawn_blocking(move || drop(stack)).await.expect("it ends");
}

/// Services on the tables, and endpoints, told nobody what they ask for: a key that they kept hot was shrunk as one that nobody uses.
#[tokio::test(flavor = "multi_thread")]
async fn regression_who_is_not_a_function_of_the_stack_reported_no_load() {
    let stack = tokio::task::spawn_blocking(|| LocalStack::start(&[])).await.expect("it starts");
    // The first request makes the stack pin its settings.
    let api = HttpApi::new(&stack.api).expect("a URL");
    let key = ItemKey::new(partition("EWR"), SortKey::string("0").expect("a sort key"));
    api.put(&key, "{}", &Condition::None).await.expect("it is put");
    let caller = Caller { endpoint_url: Some(stack.dynamodb.clone()), ..Caller::default() };
    let operator = Operator::connect(&caller).await.expect("an operator");
    let tables = operator.stack_tables("MainTable", None, Duration::from_secs(10)).await;
    let settings = tables.expect("the settings are pinned").settings;
    // Load is reported unless both are off.
    assert_eq!((settings.scaling.mode, settings.shrink.mode), (ScalingMode::Off, ScalingMode::On));
    tokio::task::spawn_blocking(move || drop(stack)).await.expect("it ends");
}

/// The gateway verifies signatures as API Gateway does: of the path, of a query string that had to be encoded, and of
/// the body.
#[tokio::test(flavor = "multi_thread")]
async fn signed_requests_are_let_in_and_unsigned_ones_are_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let principals = directory.path().join("principals.json");
    let user = json!({
        "access_key_id": "AKIDCLIENT",
        "secret_access_key": "hidden",
        "arn": "arn:aws:iam::123456789012:user/client",
    });
    std::fs::write(&principals, json!({ "users": [user] }).to_string()).expect("it is written");
    let principals = principals.to_str().expect("UTF-8").to_owned();
    let start = move || LocalStack::start(&["--auth", "--principals", &principals]);
    let stack = tokio::task::spawn_blocking(start).await.expect("it starts");

    let api = || HttpApi::new(&stack.api).expect("a URL");
    let refused = users::tour(&Client::new(api()), "abc").await.expect_err("nobody signed");
    assert!(refused.to_string().starts_with("http_403"), "{refused}");
    let signer = |secret| RequestSigner::of_user("AKIDCLIENT", secret, "us-east-1", "execute-api");
    let wrong = users::tour(&Client::new(api().signed(signer("wrong"))), "abc").await;
    assert!(wrong.expect_err("another secret").to_string().starts_with("http_403"));
    let client = Client::new(api().signed(signer("hidden")));
    let found = users::tour(&client, "a/b c+d=ü&~").await.expect("it is let in");
    assert_eq!(found.len(), 19);
    tokio::task::spawn_blocking(move || drop(stack)).await.expect("it ends");
}
