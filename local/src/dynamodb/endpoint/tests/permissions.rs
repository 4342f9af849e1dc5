//! Functions are held to their roles, and others are not.

use super::*;
use crate::plan::{Effect, Role, Statement, TextPattern, resource_pattern, table_arn};
use crate::plan::{Function, testing::function};

/// A role with these actions on the first table, and `Query` on an index of the second.
fn access(actions: &[&str], leading_keys: Option<&str>) -> Arc<Access> {
    let statement = |actions: &[&str], resource: &str, keys: Option<&str>| Statement {
        sid: None,
        effect: Effect::Allow,
        actions: actions.iter().map(|action| TextPattern::new(action)).collect(),
        resources: vec![resource_pattern(resource).expect("an ARN")],
        leading_keys: keys.map(|keys| vec![TextPattern::new(keys)]),
    };
    let index = format!("{}/index/active", table_arn("Second"));
    let statements = vec![
        statement(actions, &table_arn("First"), leading_keys),
        statement(&["dynamodb:Query"], &index, None),
    ];
    let role = Role { name: "Role".to_owned(), statements };
    let function = Function { role: Some(("Role".to_owned(), 1)), ..function() };
    Arc::new(Access::new(&[function], &[role]))
}

impl Rig {
    async fn with_role(actions: &[&str], leading_keys: Option<&str>) -> Self {
        let tables = [table("First"), table("Second")];
        Self::with_access(Limits::default(), None, &tables, access(actions, leading_keys)).await
    }

    /// Sends a request in the function's name, and returns the name of the error, if it is one.
    async fn as_function(&self, operation: &str, body: &Value) -> Option<String> {
        let request = Request::post(&self.url)
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("authorization", SIGNATURE.replace("Credential=k/", "Credential=Function/"))
            .header("x-amz-date", SIGNED_NOW);
        let (_, answer) = self.exchange(request, &body.to_string()).await;
        let kind = answer["__type"].as_str()?;
        Some(kind.rsplit_once('#').map_or(kind, |(_, name)| name).to_owned())
    }
}

const DENIED: Option<&str> = Some("AccessDeniedException");

#[tokio::test]
async fn a_function_does_what_its_role_allows_and_nothing_else_reaches_the_engine() {
    let rig = Rig::with_role(&["dynamodb:PutItem", "dynamodb:BatchGetItem"], None).await;
    let item = |table: &str| json!({ "TableName": table, "Item": { "pk": { "S": "a" } } });
    let key = |table: &str| json!({ "TableName": table, "Key": { "pk": { "S": "a" } } });
    let batch =
        |table: &str| json!({ "RequestItems": { table: { "Keys": [{ "pk": { "S": "a" } }] } } });
    for (operation, body, expected) in [
        ("PutItem", item("First"), None),
        ("PutItem", item("Second"), DENIED),
        ("GetItem", key("First"), DENIED),
        ("DeleteItem", key("First"), DENIED),
        ("BatchGetItem", batch("First"), None),
        ("BatchGetItem", batch("Second"), DENIED),
        ("Scan", json!({ "TableName": "First" }), DENIED),
        ("DescribeTable", json!({ "TableName": "First" }), DENIED),
        ("DescribeContributorInsights", json!({ "TableName": "First" }), DENIED),
        ("ListTables", json!({}), DENIED),
    ] {
        let answer = rig.as_function(operation, &body).await;
        assert_eq!(answer.as_deref(), expected, "{operation} {body}");
    }
    let malformed = rig.as_function("PutItem", &json!({ "TableName": "First" })).await;
    assert!(malformed.is_some() && malformed.as_deref() != DENIED, "{malformed:?}");
    let counters = rig.endpoint.counters();
    assert_eq!(counters.table_requests("Second"), 0);
    assert_eq!(counters.requests("First", "Scan"), 0);
    rig.ok("Scan", json!({ "TableName": "First" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_transaction_takes_the_permission_of_each_of_its_actions() {
    let rig = Rig::with_role(&["dynamodb:PutItem", "dynamodb:ConditionCheckItem"], None).await;
    let action = |name: &str, pk: &str| {
        let mut action = json!({ "TableName": "First" });
        let key = json!({ "pk": { "S": pk } });
        match name {
            "Put" => action["Item"] = key,
            "Update" => {
                action["Key"] = key;
                action["UpdateExpression"] = "SET a = pk".into();
            }
            _ => action["Key"] = key,
        }
        if name == "ConditionCheck" {
            action["ConditionExpression"] = "attribute_not_exists(pk)".into();
        }
        json!({ name: action })
    };
    for (names, expected) in [
        (["Put", "ConditionCheck"], None),
        (["Put", "Delete"], DENIED),
        (["Update", "Put"], DENIED),
    ] {
        let actions = [action(names[0], "a"), action(names[1], "b")];
        let body = json!({ "TransactItems": actions });
        let answer = rig.as_function("TransactWriteItems", &body).await;
        assert_eq!(answer.as_deref(), expected, "{names:?}");
    }
    let get = json!({ "TransactItems": [{ "Get": { "TableName": "First", "Key": { "pk": { "S": "a" } } } }] });
    assert_eq!(rig.as_function("TransactGetItems", &get).await.as_deref(), DENIED);
    rig.stop().await;
}

#[tokio::test]
async fn a_condition_on_leading_keys_holds_wherever_a_request_has_its_keys() {
    let actions = ["dynamodb:UpdateItem", "dynamodb:PutItem", "dynamodb:Query"];
    let rig = Rig::with_role(&actions, Some("heat#*")).await;
    let keyed = |pk: &str| json!({ "pk": { "S": pk } });
    let update = |pk: &str| json!({ "TableName": "First", "Key": keyed(pk) });
    let put = |pk: &str| json!({ "TableName": "First", "Item": keyed(pk) });
    let query = |pk: &str| {
        json!({
            "TableName": "First",
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": { ":pk": { "S": pk } },
        })
    };
    let both = |first: &str, second: &str| json!({ "TransactItems": [{ "Put": put(first) }, { "Put": put(second) }] });
    for (operation, body, expected) in [
        ("UpdateItem", update("heat#a"), None),
        ("UpdateItem", update("items"), DENIED),
        ("PutItem", put("heat#a"), None),
        ("PutItem", put("heat"), DENIED),
        ("Query", query("heat#a"), None),
        ("Query", query("items"), DENIED),
        ("TransactWriteItems", both("heat#a", "heat#b"), None),
        ("TransactWriteItems", both("heat#a", "items"), DENIED),
    ] {
        let answer = rig.as_function(operation, &body).await;
        assert_eq!(answer.as_deref(), expected, "{operation} {body}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn an_index_is_a_resource_of_its_own() {
    let rig = Rig::with_role(&["dynamodb:Query"], None).await;
    let query = |table: &str, index: &str| {
        json!({
            "TableName": table,
            "IndexName": index,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": { ":pk": { "S": "a" } },
        })
    };
    // The table has no such index, which only who may ask is told.
    let allowed = rig.as_function("Query", &query("Second", "active")).await;
    assert_eq!(allowed.as_deref(), Some("ValidationException"));
    for (table, index) in [("First", "active"), ("Second", "other")] {
        assert_eq!(rig.as_function("Query", &query(table, index)).await.as_deref(), DENIED);
    }
    rig.stop().await;
}
