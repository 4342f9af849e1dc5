"""A session of boto3's resources: a table of users, conditions by `Key` and `Attr`, the batch writer, and the serialiser of types."""

from collections.abc import Callable
from decimal import Decimal

import boto3
from boto3.dynamodb.conditions import Attr, Key, Not, Or
from boto3.dynamodb.types import Binary, TypeDeserializer, TypeSerializer
from transcript import TABLE, call

dynamodb = boto3.resource("dynamodb")
table = dynamodb.Table(TABLE)
FORUM = "Forum"


def user(group: str, name: str, **more: object) -> dict:
    return {"pk": f"USERS#{group}", "sk": name, **more}


def tables() -> None:
    call("the table's keys", lambda: [table.name, table.key_schema, table.table_status])
    call("all tables", lambda: [each.name for each in dynamodb.tables.all()])
    keys = [{"AttributeName": "Name", "KeyType": "HASH"}]
    by_views = [{"AttributeName": "Category", "KeyType": "HASH"}, {"AttributeName": "Views", "KeyType": "RANGE"}]
    attributes = [{"AttributeName": name, "AttributeType": "N" if name == "Views" else "S"} for name in ("Name", "Category", "Views")]
    index = {"IndexName": "ByViews", "KeySchema": by_views, "Projection": {"ProjectionType": "KEYS_ONLY"}}
    new = {"TableName": FORUM, "KeySchema": keys, "AttributeDefinitions": attributes, "BillingMode": "PAY_PER_REQUEST"}
    forum = call("create a table", dynamodb.create_table, **new, GlobalSecondaryIndexes=[index])
    call("wait for it", forum.wait_until_exists)
    with forum.batch_writer() as batch:
        for name, views in [("DynamoDB", 12), ("S3", 7), ("Lambda", 30)]:
            batch.put_item(Item={"Name": name, "Category": "AWS", "Views": views, "Threads": {name}})
    popular = Key("Category").eq("AWS") & Key("Views").gt(10)
    call("query its index", forum.query, IndexName="ByViews", KeyConditionExpression=popular, ScanIndexForward=False)
    call("load a missing table", dynamodb.Table("Missing").load)
    call("delete it", forum.delete)
    call("wait until it is gone", forum.wait_until_not_exists)


def items() -> None:
    jane = user("doe", "janedoe", first_name="Jane", last_name="Doe", age=25, account_type="standard_user")
    call("put", table.put_item, Item=jane)
    call("get", table.get_item, Key=user("doe", "janedoe"))
    older = {"UpdateExpression": "SET age = :val1", "ExpressionAttributeValues": {":val1": 26}}
    call("update", table.update_item, Key=user("doe", "janedoe"), **older)
    call("get again", table.get_item, Key=user("doe", "janedoe"), ConsistentRead=True, ProjectionExpression="age, sk")
    # Before it is sent, boto3 makes names and values of its own of a condition.
    call("create again", table.put_item, Item=jane, ConditionExpression=Attr("pk").not_exists())
    young = Attr("age").lt(20) | Attr("account_type").eq("super_user")
    call(
        "update the young",
        table.update_item,
        Key=user("doe", "janedoe"),
        **older,
        ConditionExpression=young,
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )
    old = Attr("age").gte(20) & Not(Attr("last_name").begins_with("X")) & Attr("first_name").size().lt(10)
    call(
        "update the old",
        table.update_item,
        Key=user("doe", "janedoe"),
        UpdateExpression="ADD age :n",
        ExpressionAttributeValues={":n": 1},
        ConditionExpression=old,
        ReturnValues="ALL_NEW",
    )
    types = {
        "int": 42,
        "decimal": Decimal("3.14159265358979323846264338327950288"),
        "huge": Decimal("1E+30"),
        "bytes": Binary(b"\x00\xff"),
        "none": None,
        "bool": False,
        "strings": {"a", "b"},
        "numbers": {Decimal("1.5"), Decimal(2)},
        "blobs": {b"1", b"2"},
        "list": ["a", 1, {"deep": [None, True]}],
        "map": {"a.b": {"c": []}},
        "empty": "",
    }
    call("put every type", table.put_item, Item=user("types", "all", **types))
    call("get every type", table.get_item, Key=user("types", "all"))
    call("put a float", lambda: str(raised(lambda: table.put_item(Item=user("types", "float", it=1.5)))))
    call("put without a key", table.put_item, Item={"pk": "USERS#doe", "first_name": "None"})
    call("put by a number", table.put_item, Item={"pk": 1, "sk": "x"})
    call("delete", table.delete_item, Key=user("doe", "janedoe"), ReturnValues="ALL_OLD", ConditionExpression=Attr("age").between(20, 30))
    call("get what is gone", table.get_item, Key=user("doe", "janedoe"))
    call("delete what is gone", table.delete_item, Key=user("doe", "janedoe"), ConditionExpression=Attr("sk").exists())
    call("read a missing table", dynamodb.Table("Missing").get_item, Key=user("doe", "janedoe"))


def raised(does: Callable) -> TypeError | None:
    try:
        does()
    except TypeError as error:
        return error
    return None


def batches() -> None:
    with table.batch_writer() as batch:
        for i in range(30):
            address = {"road": f"{i % 7} Main Street", "city": "Los Angeles", "state": "CA" if i % 2 else "NY"}
            batch.put_item(Item=user("batch", f"user{i:02}", first_name=f"unknown{i}", age=20 + i % 30, address=address))
    # A batch may not name a key twice: the writer keeps the last.
    with table.batch_writer(overwrite_by_pkeys=["pk", "sk"]) as batch:
        batch.put_item(Item=user("batch", "user01", first_name="once"))
        batch.delete_item(Key=user("batch", "user02"))
        batch.put_item(Item=user("batch", "user01", first_name="twice"))
        for i in range(24, 30):
            batch.delete_item(Key=user("batch", f"user{i}"))
    keys = [user("batch", f"user{i:02}") for i in (1, 2, 3)]
    asked = {TABLE: {"Keys": keys, "ProjectionExpression": "sk, first_name"}}
    call("get a batch", dynamodb.batch_get_item, RequestItems=asked, ReturnConsumedCapacity="TOTAL")
    writes = [{"PutRequest": {"Item": user("batch", "user60", age=1)}}, {"DeleteRequest": {"Key": user("batch", "user03")}}]
    call("write a batch", dynamodb.batch_write_item, RequestItems={TABLE: writes})


def queries() -> None:
    batch = Key("pk").eq("USERS#batch")
    call("query", table.query, KeyConditionExpression=batch & Key("sk").lt("user05"))
    call("query a range", table.query, KeyConditionExpression=batch & Key("sk").between("user10", "user12"), ScanIndexForward=False)
    call("query names", table.query, KeyConditionExpression=batch & Key("sk").begins_with("user2"), ProjectionExpression="sk")
    west = Attr("address.state").eq("CA") & Attr("age").is_in([21, 23, 25])
    call("query and filter", table.query, KeyConditionExpression=batch, FilterExpression=west, ReturnConsumedCapacity="INDEXES")
    call("count", table.query, KeyConditionExpression=batch, Select="COUNT", FilterExpression=Or(Attr("age").lt(22), Attr("age").not_exists()))
    call("query no key", table.query, KeyConditionExpression=Key("sk").eq("user01"))
    call("query a key by a number", table.query, KeyConditionExpression=Key("pk").eq(1))
    found, more = [], {}
    while True:
        page = table.query(KeyConditionExpression=batch, Limit=7, ProjectionExpression="sk, age", **more)
        found.append([each["sk"] for each in page["Items"]])
        if "LastEvaluatedKey" not in page:
            break
        more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    call("all pages by hand", lambda: found)
    strong = {"ConsistentRead": True, "ExpressionAttributeNames": {"#k": "sk"}, "ProjectionExpression": "#k"}
    call("scan", table.scan, FilterExpression=Attr("first_name").begins_with("unknown1") & Attr("age").attribute_type("N"), **strong)
    call("scan for a set", table.scan, FilterExpression=Attr("strings").contains("a") & Attr("none").ne(1), **strong)
    pages = dynamodb.meta.client.get_paginator("scan")
    call("scan by pages", lambda: [page["Count"] for page in pages.paginate(TableName=TABLE, PaginationConfig={"PageSize": 8})])


def transactions() -> None:
    write, get = dynamodb.meta.client.transact_write_items, dynamodb.meta.client.transact_get_items
    pay = {"TableName": TABLE, "UpdateExpression": "SET balance = balance + :by", "ConditionExpression": "balance + :by >= :none"}
    enough = {"TableName": TABLE, "UpdateExpression": "SET balance = balance + :by", "ConditionExpression": "balance >= :min"}
    both = [user("money", "alice"), user("money", "bob")]
    opened = [{"Put": {"TableName": TABLE, "Item": each | {"balance": 100}}} for each in both]
    call("open accounts", write, TransactItems=opened)
    give = {
        "Update": enough | {"Key": both[0], "ExpressionAttributeValues": {":by": -70, ":min": 70}, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    }
    take = {"Update": {"TableName": TABLE, "Key": both[1], "UpdateExpression": "ADD balance :by", "ExpressionAttributeValues": {":by": 70}}}
    call("pay", write, TransactItems=[give, take])
    call("pay what is not there", write, TransactItems=[give, take])
    call("a sum in a condition", write, TransactItems=[{"Update": pay | {"Key": both[0], "ExpressionAttributeValues": {":by": 1, ":none": 0}}}])
    call("balances", get, TransactItems=[{"Get": {"TableName": TABLE, "Key": each}} for each in both])


def serialiser() -> None:
    serialise, deserialise = TypeSerializer().serialize, TypeDeserializer().deserialize
    value = {"title": "Echo", "tags": {"x", "y"}, "parts": [Decimal("0.1"), None, b"\x07"]}
    client = boto3.client("dynamodb")
    typed = {name: serialise(each) for name, each in user("serialised", "one", **value).items()}
    call("put what was serialised", client.put_item, TableName=TABLE, Item=typed)
    stored = client.get_item(TableName=TABLE, Key={name: typed[name] for name in ("pk", "sk")})["Item"]
    call("read it back", lambda: {name: deserialise(each) for name, each in stored.items()})


for part in (tables, items, batches, queries, transactions, serialiser):
    part()
