//! What is admitted, what is refused, and in which words.

use super::*;

/// A table on demand, with a global index on `day`.
fn indexed_table(name: &str) -> Value {
    let attribute = |name: &str| json!({ "AttributeName": name, "AttributeType": "S" });
    let key = |name: &str, kind: &str| json!({ "AttributeName": name, "KeyType": kind });
    json!({
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [attribute("pk"), attribute("sk"), attribute("day")],
        "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
        "GlobalSecondaryIndexes": [{
            "IndexName": "ByDay",
            "KeySchema": [key("day", "HASH")],
            "Projection": { "ProjectionType": "KEYS_ONLY" },
        }],
    })
}

/// A table with this many units a second, of reads and of writes, for the table and the index.
fn provisioned_table(name: &str, table_units: u32, index_units: u32) -> Value {
    let throughput = |units| json!({ "ReadCapacityUnits": units, "WriteCapacityUnits": units });
    let mut table = indexed_table(name);
    table["BillingMode"] = json!("PROVISIONED");
    table["ProvisionedThroughput"] = throughput(table_units);
    table["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"] = throughput(index_units);
    table
}

fn key(pk: &str, sk: &str) -> Value {
    json!({ "pk": { "S": pk }, "sk": { "S": sk } })
}

fn put(pk: &str, sk: &str) -> Value {
    json!({ "TableName": "Flights", "Item": key(pk, sk) })
}

fn get(pk: &str, sk: &str) -> Value {
    json!({ "TableName": "Flights", "Key": key(pk, sk), "ConsistentRead": true })
}

async fn flights() -> Rig {
    let rig = Rig::throttling().await;
    rig.ok("CreateTable", indexed_table("Flights")).await;
    rig
}

const TABLE_ARN: &str = "arn:aws:dynamodb:dynoxide:000000000000:table/Flights";

#[tokio::test]
async fn each_operation_meets_the_limit_of_its_partition_and_passes_again_a_second_later() {
    let rig = flights().await;
    let query = json!({
        "TableName": "Flights",
        "KeyConditionExpression": "#p = :p",
        "ExpressionAttributeNames": { "#p": "pk" },
        "ExpressionAttributeValues": { ":p": { "S": "queried" } },
    });
    let mut index_query = query.clone();
    index_query["IndexName"] = json!("ByDay");
    index_query["ExpressionAttributeNames"]["#p"] = json!("day");
    let update = json!({
        "TableName": "Flights", "Key": key("updated", "1"),
        "UpdateExpression": "SET note = :n", "ExpressionAttributeValues": { ":n": { "S": "x" } },
    });
    let eventual = json!({ "TableName": "Flights", "Key": key("got", "1") });
    for (operation, body, admitted, reason) in [
        ("PutItem", put("put", "1"), 10, "TableWriteKeyRangeThroughputExceeded"),
        ("UpdateItem", update, 10, "TableWriteKeyRangeThroughputExceeded"),
        (
            "DeleteItem",
            json!({ "TableName": "Flights", "Key": key("deleted", "1") }),
            10,
            "TableWriteKeyRangeThroughputExceeded",
        ),
        ("GetItem", get("strongly", "1"), 10, "TableReadKeyRangeThroughputExceeded"),
        ("GetItem", eventual, 20, "TableReadKeyRangeThroughputExceeded"),
        ("Query", query, 20, "TableReadKeyRangeThroughputExceeded"),
        ("Query", index_query, 20, "IndexReadKeyRangeThroughputExceeded"),
        ("Scan", json!({ "TableName": "Flights" }), 20, "TableReadKeyRangeThroughputExceeded"),
    ] {
        assert_eq!(rig.drain(operation, &body).await, admitted, "{operation}");
        let (error, answer) = rig.refused(operation, body.clone()).await;
        assert_eq!(error, "ProvisionedThroughputExceededException");
        let is_index = reason.starts_with("Index");
        let resource =
            if is_index { format!("{TABLE_ARN}/index/ByDay") } else { TABLE_ARN.to_owned() };
        assert_eq!(
            answer["ThrottlingReasons"],
            json!([{ "reason": reason, "resource": resource }])
        );
        let message = answer["message"].as_str().expect("a message");
        assert!(message.starts_with("Throughput exceeds the current capacity"), "{message}");
        rig.clock.advance(Duration::from_secs(1));
        rig.ok(operation, body).await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn only_the_partition_that_is_hot_throttles() {
    let rig = flights().await;
    assert_eq!(rig.drain("PutItem", &put("hot", "1")).await, 10);
    for shard in 0..16 {
        rig.ok("PutItem", put(&format!("hot#{shard}"), "1")).await;
    }
    rig.refused("PutItem", put("hot", "2")).await;
    rig.ok("GetItem", get("hot", "1")).await;

    let counters = rig.endpoint.counters();
    assert_eq!(counters.requests("Flights", "PutItem"), 26, "the others did not reach the engine");
    assert_eq!(counters.throttles["Flights"]["TableWriteKeyRangeThroughputExceeded"], 2);
    assert_eq!(counters.table_throttles("Flights"), 2);
    let keys = rig.endpoint.observed().partitions(|partitions| {
        let table = dynashard_limits::partition::Resource::table("Flights");
        let writes = [dynashard_limits::partition::Kind::Write];
        partitions.statistics().throttled_partition_keys(table, &writes, 0..u64::MAX, 25)
    });
    let keys: Vec<_> =
        keys.iter().map(|(key, times)| (key.partition_key.as_str(), *times)).collect();
    assert_eq!(keys, [("hot", 2)]);
    rig.stop().await;
}

#[tokio::test]
async fn a_write_batch_leaves_what_is_throttled_as_unprocessed() {
    let rig = flights().await;
    let write = |pk: &str, sk: &str| json!({ "PutRequest": { "Item": key(pk, sk) } });
    let delete = |pk: &str, sk: &str| json!({ "DeleteRequest": { "Key": key(pk, sk) } });
    let hot: Vec<_> = (0..12).map(|n| write("hot", &format!("{n:02}"))).collect();
    let batch = [hot.as_slice(), &[write("a", "1"), delete("b", "1")]].concat();
    let answer = rig.ok(
        "BatchWriteItem",
        json!({ "RequestItems": { "Flights": batch }, "ReturnConsumedCapacity": "TOTAL" }),
    );
    let answer = answer.await;
    assert_eq!(answer["UnprocessedItems"], json!({ "Flights": hot[10..] }));
    assert_eq!(answer["ConsumedCapacity"][0]["CapacityUnits"], 12.0);
    rig.ok("GetItem", get("a", "1")).await["Item"].as_object().expect("it was put");
    assert!(rig.ok("GetItem", get("hot", "10")).await.get("Item").is_none(), "it was not");

    let batch = json!({ "RequestItems": { "Flights": [write("hot", "10"), delete("hot", "00")] } });
    let (error, answer) = rig.refused("BatchWriteItem", batch.clone()).await;
    assert_eq!(error, "ProvisionedThroughputExceededException");
    assert_eq!(answer["ThrottlingReasons"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(rig.endpoint.counters().table_throttles("Flights"), 4, "each item counts");
    rig.clock.advance(Duration::from_secs(1));
    assert_eq!(rig.ok("BatchWriteItem", batch).await["UnprocessedItems"], json!({}));
    rig.stop().await;
}

#[tokio::test]
async fn a_read_batch_leaves_what_is_throttled_as_unprocessed_with_its_options() {
    let rig = flights().await;
    rig.ok("CreateTable", indexed_table("Others")).await;
    rig.ok("PutItem", put("a", "1")).await;
    assert_eq!(rig.drain("GetItem", &get("hot", "1")).await, 10);
    let others = json!({ "Keys": [key("hot", "1")] });
    let answer = rig.ok(
        "BatchGetItem",
        json!({ "RequestItems": {
        "Flights": {
            "Keys": [key("hot", "1"), key("a", "1")],
            "ConsistentRead": true,
            "ProjectionExpression": "#p",
            "ExpressionAttributeNames": { "#p": "pk" },
        },
        "Others": others,
    } }),
    );
    let answer = answer.await;
    assert_eq!(answer["Responses"]["Flights"], json!([{ "pk": { "S": "a" } }]));
    assert_eq!(
        answer["UnprocessedKeys"],
        json!({ "Flights": {
            "Keys": [key("hot", "1")],
            "ConsistentRead": true,
            "ProjectionExpression": "#p",
            "ExpressionAttributeNames": { "#p": "pk" },
        } })
    );
    let alone = json!({ "RequestItems": { "Flights": { "Keys": [key("hot", "2")] } } });
    let (error, answer) = rig.refused("BatchGetItem", alone).await;
    assert_eq!(error, "ProvisionedThroughputExceededException");
    assert_eq!(answer["ThrottlingReasons"][0]["reason"], "TableReadKeyRangeThroughputExceeded");
    rig.stop().await;
}

#[tokio::test]
async fn a_throttled_transaction_is_cancelled_as_a_whole_and_says_by_which_action() {
    let rig = flights().await;
    assert_eq!(rig.drain("PutItem", &put("hot", "1")).await, 10);
    let write = json!({ "TransactItems": [
        { "Put": put("cold", "1") },
        { "Put": put("hot", "2") },
        { "Delete": { "TableName": "Flights", "Key": key("cold", "2") } },
    ] });
    let (error, answer) = rig.refused("TransactWriteItems", write.clone()).await;
    assert_eq!(error, "TransactionCanceledException");
    let message = answer["Message"].as_str().expect("a message");
    assert!(message.ends_with("specific reasons [None, ThrottlingError, None]"), "{message}");
    let reasons = answer["CancellationReasons"].as_array().expect("reasons");
    assert_eq!(reasons[0], json!({ "Code": "None" }));
    assert_eq!(reasons[1]["Code"], "ThrottlingError");
    assert!(reasons[1]["Message"].as_str().is_some_and(|text| text.contains("hot key")));
    assert!(rig.ok("GetItem", get("cold", "1")).await.get("Item").is_none(), "nothing was written");
    rig.clock.advance(Duration::from_secs(1));
    rig.ok("TransactWriteItems", write).await;

    // A transactional read of a small item takes two units.
    let read =
        json!({ "TransactItems": [{ "Get": { "TableName": "Flights", "Key": key("r", "1") } }] });
    for _ in 0..5 {
        rig.ok("TransactGetItems", read.clone()).await;
    }
    let (error, answer) = rig.refused("TransactGetItems", read).await;
    assert_eq!(error, "TransactionCanceledException");
    assert_eq!(answer["CancellationReasons"][0]["Code"], "ThrottlingError");
    rig.stop().await;
}

#[tokio::test]
async fn a_provisioned_table_has_a_limit_of_its_own_which_updates_change() {
    let rig = Rig::with(Limits { burst_secs: 1, ..TEN_UNITS }, None, &[]).await;
    rig.ok("CreateTable", provisioned_table("Flights", 5, 100)).await;
    let key_of = |n: u32| format!("key {n}");
    for n in 0..5 {
        rig.ok("PutItem", put(&key_of(n), "1")).await;
    }
    let (error, answer) = rig.refused("PutItem", put(&key_of(5), "1")).await;
    assert_eq!(error, "ProvisionedThroughputExceededException");
    assert_eq!(
        answer["ThrottlingReasons"],
        json!([{ "reason": "TableWriteProvisionedThroughputExceeded", "resource": TABLE_ARN }])
    );
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("UpdateTable"), "{message}");
    let transaction = json!({ "TransactItems": [{ "Put": put("another", "1") }] });
    let (_, answer) = rig.refused("TransactWriteItems", transaction).await;
    assert_eq!(answer["CancellationReasons"][0]["Code"], "ProvisionedThroughputExceeded");

    let units = json!({ "ReadCapacityUnits": 5, "WriteCapacityUnits": 8 });
    rig.ok("UpdateTable", json!({ "TableName": "Flights", "ProvisionedThroughput": units })).await;
    rig.clock.advance(Duration::from_secs(1));
    for n in 0..8 {
        rig.ok("PutItem", put(&key_of(n), "2")).await;
    }
    rig.refused("PutItem", put(&key_of(9), "2")).await;

    let on_demand = json!({ "TableName": "Flights", "BillingMode": "PAY_PER_REQUEST" });
    rig.ok("UpdateTable", on_demand).await;
    assert_eq!(rig.drain("PutItem", &put("hot", "1")).await, 10, "partitions alone limit it");
    rig.stop().await;
}

/// It refused as before.
#[tokio::test]
async fn regression_an_index_of_a_table_on_demand_kept_what_it_was_provisioned_with() {
    let rig = Rig::with(Limits { burst_secs: 1, ..TEN_UNITS }, None, &[]).await;
    rig.ok("CreateTable", provisioned_table("Flights", 100, 1)).await;
    let on_demand = json!({ "TableName": "Flights", "BillingMode": "PAY_PER_REQUEST" });
    rig.ok("UpdateTable", on_demand).await;
    for n in 0..5 {
        let mut put = put(&format!("key {n}"), "1");
        put["Item"]["day"] = json!({ "S": "today" });
        rig.ok("PutItem", put).await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_table_that_is_not_warm_says_what_it_takes_at_once_and_takes_no_more() {
    let limits = Limits { warm_wcu: NonZeroU32::new(3), ..TEN_UNITS };
    let rig = Rig::with(limits, None, &[]).await;
    let created = rig.ok("CreateTable", indexed_table("Flights")).await;
    let warm =
        json!({ "ReadUnitsPerSecond": 40_960, "WriteUnitsPerSecond": 3, "Status": "ACTIVE" });
    assert_eq!(created["TableDescription"]["WarmThroughput"], warm);
    let described = rig.ok("DescribeTable", json!({ "TableName": "Flights" })).await;
    assert_eq!(described["Table"]["WarmThroughput"], warm);
    assert_eq!(described["Table"]["GlobalSecondaryIndexes"][0]["WarmThroughput"], warm);
    for n in 0..3 {
        rig.ok("PutItem", put(&format!("key {n}"), "1")).await;
    }
    let (error, answer) = rig.refused("PutItem", put("key 3", "1")).await;
    assert_eq!(error, "ProvisionedThroughputExceededException");
    assert_eq!(
        answer["ThrottlingReasons"],
        json!([{ "reason": "TableWriteKeyRangeThroughputExceeded", "resource": TABLE_ARN }])
    );
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("automatically scaling"), "{message}");
    rig.clock.advance(Duration::from_secs(1));
    rig.ok("PutItem", put("key 3", "1")).await;
    rig.stop().await;
}

#[tokio::test]
async fn heat_splits_a_collection_unless_the_table_has_a_local_index() {
    let limits = Limits { split_after_secs: NonZeroU32::new(2), ..TEN_UNITS };
    let rig = Rig::with(limits, None, &[]).await;
    let mut table = indexed_table("Global");
    table["AttributeDefinitions"][1]["AttributeType"] = json!("N");
    rig.ok("CreateTable", table.clone()).await;
    table["TableName"] = json!("Local");
    table["LocalSecondaryIndexes"] = table["GlobalSecondaryIndexes"].take();
    table["LocalSecondaryIndexes"][0]["KeySchema"] = json!([
        { "AttributeName": "pk", "KeyType": "HASH" },
        { "AttributeName": "day", "KeyType": "RANGE" },
    ]);
    rig.ok("CreateTable", table).await;
    for (table, after) in [("Local", 15), ("Global", 5)] {
        let item = |n: u32| json!({ "pk": { "S": "hot" }, "sk": { "N": n.to_string() } });
        let put = |n| json!({ "PutRequest": { "Item": item(n) } });
        let batch = json!({ "RequestItems": { table: (0..25).map(put).collect::<Vec<_>>() } });
        for expected in [15, 15, 15, after] {
            let answer = rig.ok("BatchWriteItem", batch.clone()).await;
            let left = answer["UnprocessedItems"][table].as_array().map(Vec::len);
            assert_eq!(left, Some(expected), "{table}");
            rig.clock.advance(Duration::from_secs(1));
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_table_that_was_deleted_is_forgotten() {
    let rig = Rig::with(Limits { burst_secs: 1, ..TEN_UNITS }, None, &[]).await;
    rig.ok("CreateTable", provisioned_table("Flights", 1, 1)).await;
    assert_eq!(rig.drain("PutItem", &put("hot", "1")).await, 1);
    rig.ok("DeleteTable", json!({ "TableName": "Flights" })).await;
    let (error, _) = rig.refused("PutItem", put("hot", "1")).await;
    assert_eq!(error, "ResourceNotFoundException");
    rig.ok("CreateTable", indexed_table("Flights")).await;
    assert_eq!(rig.drain("PutItem", &put("hot", "1")).await, 10);
    rig.stop().await;
}

#[tokio::test]
async fn an_index_without_capacity_throttles_the_writes_of_its_table() {
    let rig = flights().await;
    let flight = |n: u32| {
        let mut put = put(&format!("flight {n}"), "1");
        put["Item"]["day"] = json!({ "S": "2013-01-01" });
        put
    };
    for n in 0..10 {
        rig.ok("PutItem", flight(n)).await;
    }
    let (_, answer) = rig.refused("PutItem", flight(10)).await;
    assert_eq!(
        answer["ThrottlingReasons"],
        json!([{
            "reason": "IndexWriteKeyRangeThroughputExceeded",
            "resource": format!("{TABLE_ARN}/index/ByDay"),
        }])
    );
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("global secondary indexes"), "{message}");
    rig.ok("PutItem", put("flight 10", "1")).await;
    let throttles = &rig.endpoint.counters().throttles["Flights"];
    assert_eq!(throttles["IndexWriteKeyRangeThroughputExceeded"], 1);
    rig.stop().await;
}

#[tokio::test]
async fn tables_of_a_data_directory_throttle_from_the_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let rig = Rig::with(TEN_UNITS, Some(directory.path()), &[]).await;
    rig.ok("CreateTable", provisioned_table("Flights", 3, 3)).await;
    rig.stop().await;

    let limits = Limits { burst_secs: 1, ..TEN_UNITS };
    let rig = Rig::with(limits, Some(directory.path()), &[]).await;
    assert_eq!(rig.drain("PutItem", &put("hot", "1")).await, 3);
    rig.stop().await;
}

#[tokio::test]
async fn what_becomes_known_later_is_charged_later() {
    let rig = flights().await;
    // The update makes an item of 30 KB out of nothing, so three seconds are owed.
    let update = json!({
        "TableName": "Flights", "Key": key("grown", "1"),
        "UpdateExpression": "SET note = :n",
        "ExpressionAttributeValues": { ":n": { "S": "x".repeat(30 << 10) } },
    });
    rig.ok("UpdateItem", update).await;
    rig.clock.advance(Duration::from_secs(2));
    rig.refused("PutItem", put("grown", "2")).await;
    rig.clock.advance(Duration::from_millis(300));
    rig.ok("PutItem", put("grown", "2")).await;

    // A strong query of it costs eight units, of which one was admitted.
    let query = json!({
        "TableName": "Flights", "ConsistentRead": true,
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": { ":p": { "S": "grown" } },
    });
    let page = rig.ok("Query", query).await;
    assert_eq!(page["Count"], 2);
    assert!(page.get("ConsumedCapacity").is_none(), "the client did not ask for it");
    assert_eq!(rig.drain("GetItem", &get("grown", "2")).await, 2);
    rig.stop().await;
}

#[tokio::test]
async fn what_does_not_happen_is_paid_back() {
    let rig = flights().await;
    let conditional = |note: usize| {
        let mut put = put("a", "1");
        put["Item"]["note"] = json!({ "S": "x".repeat(note) });
        put["ConditionExpression"] = json!("attribute_not_exists(pk)");
        put
    };
    rig.ok("PutItem", conditional(1)).await;
    let (error, _) = rig.refused("PutItem", conditional(7 << 10)).await;
    assert_eq!(error, "ConditionalCheckFailedException");
    let mut invalid = put("a", "1");
    invalid["Item"]["empty"] = json!({ "SS": [] });
    let (error, _) = rig.refused("PutItem", invalid).await;
    assert_eq!(error, "ValidationException");
    // Of ten units the first put took one, and the failed condition one by the item that was there.
    assert_eq!(rig.drain("PutItem", &put("a", "2")).await, 8);
    rig.stop().await;
}
