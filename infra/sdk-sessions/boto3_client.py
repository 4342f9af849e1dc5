"""A session of boto3's client: tables, items, expressions, pages, batches and transactions, as its reference has them."""

import boto3
from transcript import TABLE, TOKEN, call

dynamodb = boto3.client("dynamodb")
MUSIC = "Music"


def s(text: str) -> dict:
    return {"S": text}


def n(number: object) -> dict:
    return {"N": str(number)}


def key(year: int, title: str) -> dict:
    return {"pk": s(f"MOVIES#{year}"), "sk": s(title)}


def movie(year: int, title: str, **info: dict) -> dict:
    return key(year, title) | {"info": {"M": info}}


def tables() -> None:
    call("list tables", dynamodb.list_tables)
    call("list one table", dynamodb.list_tables, Limit=1)
    table = dynamodb.describe_table(TableName=TABLE)["Table"]
    call("describe the keys", lambda: {name: table[name] for name in ("TableName", "KeySchema", "TableStatus")})
    call("describe a missing table", dynamodb.describe_table, TableName="Missing")
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("Artist", "SongTitle", "Genre")]
    keys = [{"AttributeName": "Artist", "KeyType": "HASH"}, {"AttributeName": "SongTitle", "KeyType": "RANGE"}]
    by_genre = [{"AttributeName": "Genre", "KeyType": "HASH"}, {"AttributeName": "SongTitle", "KeyType": "RANGE"}]
    index = {"IndexName": "ByGenre", "KeySchema": by_genre, "Projection": {"ProjectionType": "ALL"}}
    table = {"TableName": MUSIC, "AttributeDefinitions": attributes, "KeySchema": keys, "BillingMode": "PAY_PER_REQUEST"}
    call("create a table", dynamodb.create_table, **table, GlobalSecondaryIndexes=[index])
    call("wait for it", dynamodb.get_waiter("table_exists").wait, TableName=MUSIC)
    call("create it again", dynamodb.create_table, **table, GlobalSecondaryIndexes=[index])
    call("create one without its keys", dynamodb.create_table, **table | {"TableName": "Other", "AttributeDefinitions": []})


def puts() -> None:
    everything = {
        "text": s("é 😀"),
        "number": n("3.140"),
        "bytes": {"B": b"\x00\x01\xff"},
        "yes": {"BOOL": True},
        "nothing": {"NULL": True},
        "items": {"L": [s("a"), n(1), {"L": []}]},
        "map": {"M": {"deep": {"M": {"er": n(-1)}}, "empty": {"M": {}}}},
        "texts": {"SS": ["b", "a"]},
        "numbers": {"NS": ["10", "2", "3.5"]},
        "blobs": {"BS": [b"x", b"y"]},
        "": s("has no name"),
    }
    call("put every type", dynamodb.put_item, TableName=TABLE, Item=key(1999, "Types") | everything)
    del everything[""]
    call("put every type, named", dynamodb.put_item, TableName=TABLE, Item=key(1999, "Types") | everything)
    call("get every type", dynamodb.get_item, TableName=TABLE, Key=key(1999, "Types"))
    large = movie(2013, "Turn It Down", rating=n("6.2"), cast={"L": [s("A. Writer"), s("B. Reader")]}, genres={"SS": ["Drama"]})
    call("put a movie", dynamodb.put_item, TableName=TABLE, Item=large, ReturnConsumedCapacity="TOTAL")
    again = {"TableName": TABLE, "Item": movie(2013, "Turn It Down", rating=n(7)), "ReturnValues": "ALL_OLD"}
    call("replace it", dynamodb.put_item, **again, ReturnConsumedCapacity="INDEXES", ReturnItemCollectionMetrics="SIZE")
    create = {"TableName": TABLE, "ConditionExpression": "attribute_not_exists(pk)"}
    call("create what is there", dynamodb.put_item, **create, Item=large)
    shown = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    call("create what is there, and see it", dynamodb.put_item, **create, **shown, Item=large)
    call("create what is not there", dynamodb.put_item, **create, **shown, Item=movie(2014, "The Long Page", rating=n(5)))
    better = {"ConditionExpression": "info.rating < :r AND attribute_exists(#t)", "ExpressionAttributeNames": {"#t": "sk"}}
    values = {":r": n(6)}
    call(
        "replace a worse one",
        dynamodb.put_item,
        TableName=TABLE,
        Item=movie(2014, "The Long Page", rating=n(6)),
        **better,
        ExpressionAttributeValues=values,
        ReturnValues="ALL_OLD",
    )
    call(
        "replace a better one",
        dynamodb.put_item,
        TableName=TABLE,
        Item=movie(2014, "The Long Page", rating=n(1)),
        **better,
        **shown,
        ExpressionAttributeValues=values,
    )


def refused_puts() -> None:
    def put(what: str, item: dict, **more: object) -> None:
        call(what, dynamodb.put_item, TableName=TABLE, Item=item, **more)

    put("put without the sort key", {"pk": s("MOVIES#2013")})
    put("put with a number for a key", {"pk": n(2013), "sk": s("x")})
    put("put with an empty key", {"pk": s(""), "sk": s("x")})
    put("put an empty set", key(2013, "x") | {"tags": {"SS": []}})
    put("put a set with twins", key(2013, "x") | {"tags": {"SS": ["a", "a"]}})
    put("put what is no number", key(2013, "x") | {"rating": n("six")})
    put("put a number of 39 digits", key(2013, "x") | {"rating": n("1" * 39)})
    put("put a key of 2049 bytes", {"pk": s("k" * 2049), "sk": s("x")})
    put("put a sort key of 1025 bytes", {"pk": s("MOVIES#2013"), "sk": s("k" * 1025)})
    put("ask a put for what is new", key(2013, "x"), ReturnValues="ALL_NEW")
    put("condition with a mistake", key(2013, "x"), ConditionExpression="info.rating <")
    put("condition without its value", key(2013, "x"), ConditionExpression="rating < :r")
    put("condition with a value too many", key(2013, "x"), ConditionExpression="attribute_exists(pk)", ExpressionAttributeValues={":r": n(1)})
    put("condition without its name", key(2013, "x"), ConditionExpression="attribute_exists(#r)")
    put("condition on a reserved word", key(2013, "x"), ConditionExpression="attribute_exists(year)")
    put("condition that is empty", key(2013, "x"), ConditionExpression="")
    put("condition that closes too early", key(2013, "x"), ConditionExpression="attribute_exists(pk)) OR (attribute_exists(sk)")
    put("condition with two brackets", key(2013, "x"), ConditionExpression="((attribute_exists(pk)))")
    put("condition with an unknown function", key(2013, "x"), ConditionExpression="exists(pk)")
    call("put into a missing table", dynamodb.put_item, TableName="Missing", Item=key(2013, "x"))


def gets() -> None:
    def get(what: str, item: dict, **more: object) -> None:
        call(what, dynamodb.get_item, TableName=TABLE, Key=item, **more)

    get("get", key(2013, "Turn It Down"))
    get("get strongly, with units", key(2013, "Turn It Down"), ConsistentRead=True, ReturnConsumedCapacity="TOTAL")
    get("get nothing", key(2013, "No Such Movie"), ReturnConsumedCapacity="TOTAL")
    get("get a part", key(1999, "Types"), ProjectionExpression="#m.deep.er, #i[1], texts", ExpressionAttributeNames={"#m": "map", "#i": "items"})
    get("get the keys", key(1999, "Types"), ProjectionExpression="pk, sk")
    get("get what it has not", key(1999, "Types"), ProjectionExpression="lacking")
    get("get legacy attributes", key(1999, "Types"), AttributesToGet=["text", "number"])
    get("get overlapping parts", key(1999, "Types"), ProjectionExpression="#m, #m.deep", ExpressionAttributeNames={"#m": "map"})
    get("get by half a key", {"pk": s("MOVIES#2013")})
    get("get by too many keys", key(2013, "x") | {"info": s("y")})
    get("get by two forms", key(1999, "Types"), ProjectionExpression="pk", AttributesToGet=["sk"])


def updates() -> None:
    def update(what: str, item: dict, text: str | None, values: dict | None = None, **more: object) -> None:
        parts = {"UpdateExpression": text} if text is not None else {}
        parts |= {"ExpressionAttributeValues": values} if values else {}
        call(what, dynamodb.update_item, TableName=TABLE, Key=item, **parts, **more)

    rush, types = key(2013, "Rush Hours"), key(1999, "Types")
    update("update what is not there", rush, "SET info = :i, votes = :v", {":i": {"M": {"rating": n(8)}}, ":v": n(1)}, ReturnValues="ALL_NEW")
    update("count", rush, "ADD votes :one, tags :tags", {":one": n(1), ":tags": {"SS": ["race", "cars"]}}, ReturnValues="UPDATED_NEW")
    update("set within", rush, "set info.plot = :p, info.rating = info.rating + :d", {":p": s("Fast."), ":d": n("0.5")}, ReturnValues="UPDATED_OLD")
    update(
        "set, add, remove, delete",
        rush,
        "SET cast_ = if_not_exists(cast_, :none), earlier = votes REMOVE info.plot ADD votes :five DELETE tags :cars",
        {":none": {"L": []}, ":five": n(5), ":cars": {"SS": ["cars"]}},
        ReturnValues="ALL_NEW",
        ReturnConsumedCapacity="TOTAL",
    )
    update("append", rush, "SET cast_ = list_append(cast_, :more)", {":more": {"L": [s("C"), s("D")]}}, ReturnValues="ALL_OLD")
    update("remove from a list", rush, "REMOVE cast_[0], nothing", ReturnValues="UPDATED_NEW")
    update("change nothing", rush, "SET votes = votes", ReturnValues="UPDATED_NEW")
    update("empty a set", rush, "DELETE tags :t", {":t": {"SS": ["race"]}}, ReturnValues="ALL_NEW")
    update("touch", key(2013, "Touched"), None, ReturnValues="ALL_NEW")
    update("take a keyword for a name", types, "SET #s = :s", {":s": s("SET")}, ExpressionAttributeNames={"#s": "set"}, ReturnValues="UPDATED_NEW")
    enough = {"ConditionExpression": "votes > :min", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    update("update on condition", rush, "SET hit = :t", {":t": {"BOOL": True}, ":min": n(5)}, **enough, ReturnValues="UPDATED_NEW")
    update("update on a false condition", rush, "SET hit = :t", {":t": {"BOOL": True}, ":min": n(50)}, **enough)
    update("update nothing on condition", key(2013, "None"), "SET hit = :t", {":t": {"BOOL": True}, ":min": n(5)}, **enough)
    update("update a key", rush, "SET sk = :s", {":s": s("x")})
    update("update one path twice", rush, "SET votes = :a, votes = :b", {":a": n(1), ":b": n(2)})
    update("update overlapping paths", rush, "SET info = :a REMOVE info.rating", {":a": {"M": {}}})
    update("add to a text", types, "SET #t = #t + :one", {":one": n(1)}, ExpressionAttributeNames={"#t": "text"})
    update("add a text", types, "ADD votes :one", {":one": s("one")})
    update("set within nothing", rush, "SET lacking.such.path = :a", {":a": n(1)})
    update("count what is not there", rush, "SET likes = likes + :a", {":a": n(1)})
    update("an empty update", rush, "")
    update("two SETs", rush, "SET a = :a SET b = :a", {":a": n(1)})
    update("an update with a mistake", rush, "SET a == :a", {":a": n(1)})
    update("a value too many", rush, "SET a = :a", {":a": n(1), ":b": n(1)})
    more = {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": n(1)}}
    call("update without the sort key", dynamodb.update_item, TableName=TABLE, Key={"pk": s("MOVIES#2013")}, **more)
    legacy = {"votes": {"Value": n(1), "Action": "ADD"}, "hit": {"Action": "DELETE"}, "note": {"Value": s("legacy"), "Action": "PUT"}}
    update("legacy updates", rush, None, AttributeUpdates=legacy, ReturnValues="ALL_NEW")
    expected = {"votes": {"ComparisonOperator": "GE", "AttributeValueList": [n(5)]}, "hit": {"Exists": False}}
    update("legacy condition", rush, None, AttributeUpdates={"note": {"Action": "DELETE"}}, Expected=expected, ReturnValues="ALL_NEW")
    update("false legacy condition", rush, None, AttributeUpdates={"note": {"Action": "DELETE"}}, Expected={"votes": {"Value": n(0)}})


def deletes() -> None:
    def delete(what: str, item: dict, **more: object) -> None:
        call(what, dynamodb.delete_item, TableName=TABLE, Key=item, **more)

    delete("delete", key(2013, "Touched"), ReturnValues="ALL_OLD", ReturnConsumedCapacity="TOTAL")
    delete("delete what is gone", key(2013, "Touched"), ReturnValues="ALL_OLD")
    bad = {"ConditionExpression": "info.rating <= :r", "ExpressionAttributeValues": {":r": n(5)}}
    delete("delete on a false condition", key(2013, "Turn It Down"), **bad)
    delete("delete on that, and see it", key(2013, "Turn It Down"), **bad, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    delete("delete nothing on condition", key(2013, "None"), **bad, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    delete("delete what must not be there", key(2013, "None"), ConditionExpression="attribute_not_exists(pk)")
    delete("delete, asking for what is new", key(2013, "None"), ReturnValues="UPDATED_NEW")


def batches() -> None:
    many = [{"PutRequest": {"Item": movie(2020, f"Part {i:02}", rating=n(i % 10))}} for i in range(25)]
    call("write a batch", dynamodb.batch_write_item, RequestItems={TABLE: many}, ReturnConsumedCapacity="TOTAL")
    song = {"PutRequest": {"Item": {"Artist": s("The Acme Band"), "SongTitle": s("Happy Day"), "Genre": s("Country")}}}
    gone = {"DeleteRequest": {"Key": key(2020, "Part 24")}}
    call("write to two tables", dynamodb.batch_write_item, RequestItems={TABLE: [gone, many[0]], MUSIC: [song]})
    call("write 26", dynamodb.batch_write_item, RequestItems={TABLE: [*many, gone | {"DeleteRequest": {"Key": key(2020, "x")}}]})
    call("write twins", dynamodb.batch_write_item, RequestItems={TABLE: [many[0], many[0]]})
    call("write nothing", dynamodb.batch_write_item, RequestItems={})
    call("write to a missing table", dynamodb.batch_write_item, RequestItems={"Missing": [many[0]], TABLE: [many[1]]})
    fresh = {"PutRequest": {"Item": movie(2020, "Fresh")}}
    bad = {
        "lacks a key": {"pk": s("x")},
        "has a number for a key": {"pk": n(1), "sk": s("x")},
        "has an empty key": {"pk": s("x"), "sk": s("")},
        "has an empty set": key(2020, "x") | {"tags": {"SS": []}},
        "has what is no number": key(2020, "x") | {"rating": n("six")},
        "is larger than 400 KB": key(2020, "x") | {"plot": s("." * 410_000)},
    }
    entries = {why: {"PutRequest": {"Item": item}} for why, item in bad.items()}
    entries["lacks a key of what is to go"] = {"DeleteRequest": {"Key": {"pk": s("x")}}}
    for why, entry in entries.items():
        call(f"write a batch of which one {why}", dynamodb.batch_write_item, RequestItems={TABLE: [fresh, entry]})
        # DynamoDB refuses a batch as a whole.
        call("take what it left", dynamodb.delete_item, TableName=TABLE, Key=key(2020, "Fresh"), ReturnValues="ALL_OLD")
    keys = [key(2020, f"Part {i:02}") for i in (3, 1, 24)]
    call("get a batch", dynamodb.batch_get_item, RequestItems={TABLE: {"Keys": keys}}, ReturnConsumedCapacity="TOTAL")
    part = {"ProjectionExpression": "sk, info.#r", "ExpressionAttributeNames": {"#r": "rating"}, "ConsistentRead": True}
    song_key = {"Artist": s("The Acme Band"), "SongTitle": s("Happy Day")}
    call("get parts of two tables", dynamodb.batch_get_item, RequestItems={TABLE: {"Keys": keys, **part}, MUSIC: {"Keys": [song_key]}})
    call("get twins", dynamodb.batch_get_item, RequestItems={TABLE: {"Keys": [keys[0], keys[0]]}})
    call("get 101", dynamodb.batch_get_item, RequestItems={TABLE: {"Keys": [key(2020, str(i)) for i in range(101)]}})
    call("get by half a key", dynamodb.batch_get_item, RequestItems={TABLE: {"Keys": [{"pk": s("x")}]}})


def queries() -> None:
    def query(what: str, text: str, values: dict, **more: object) -> dict:
        ask = {"TableName": TABLE, "KeyConditionExpression": text, "ExpressionAttributeValues": values, **more}
        return call(what, dynamodb.query, **ask)

    year = {":y": s("MOVIES#2020")}
    first = query("a page", "pk = :y", year, Limit=4, ReturnConsumedCapacity="TOTAL")
    query("the next page", "pk = :y", year, Limit=4, ExclusiveStartKey=first["LastEvaluatedKey"])
    query("a page backwards", "pk = :y", year, Limit=3, ScanIndexForward=False, ConsistentRead=True)
    query("between", "pk = :y AND sk BETWEEN :a AND :b", year | {":a": s("Part 05"), ":b": s("Part 07")})
    query("begins", "#p = :y AND begins_with(#s, :a)", year | {":a": s("Part 2")}, ExpressionAttributeNames={"#p": "pk", "#s": "sk"})
    query("beyond", "(pk = :y) AND (sk > :a)", year | {":a": s("Part 21")}, ProjectionExpression="sk")
    query("up to", "sk <= :a AND pk = :y", year | {":a": s("Part 01")})
    query("one", "pk = :y AND sk = :a", year | {":a": s("Part 09")})
    query("nothing", "pk = :y", {":y": s("MOVIES#1888")}, ReturnConsumedCapacity="INDEXES")
    query("filter", "pk = :y", year | {":r": n(7)}, FilterExpression="info.rating >= :r", ReturnConsumedCapacity="TOTAL")
    query("filter a page", "pk = :y", year | {":r": n(3)}, FilterExpression="NOT info.rating <> :r OR size(info) < :r", Limit=5)
    query("filter by IN", "pk = :y", year | {":a": n(1), ":b": n(2)}, FilterExpression="info.rating IN (:a, :b)", Select="COUNT")
    query("count", "pk = :y", year, Select="COUNT")
    query(
        "types",
        "pk = :y",
        {":y": s("MOVIES#1999"), ":t": s("a"), ":b": s("BOOL")},
        FilterExpression="contains(texts, :t) AND attribute_type(yes, :b) AND attribute_not_exists(lacking)",
    )
    query("a start elsewhere", "pk = :y", year, ExclusiveStartKey=key(1999, "Types"))
    query("a start at no item", "pk = :y", year, ExclusiveStartKey=key(2020, "Part 215"))
    query("a start with half a key", "pk = :y", year, ExclusiveStartKey={"pk": s("MOVIES#2020")})
    query("no partition key", "sk = :y", year)
    query("a range of partition keys", "pk > :y", year)
    query("a filter on a key", "pk = :y", year, FilterExpression="sk = :y")
    query("a number for a key", "pk = :y", {":y": n(2020)})
    query("a limit of none", "pk = :y", year, Limit=0)
    query("count and project", "pk = :y", year, Select="COUNT", ProjectionExpression="sk")
    query("a missing index", "pk = :y", year, IndexName="Missing")
    legacy = {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [s("MOVIES#2020")]}}
    old = {"QueryFilter": {"info": {"ComparisonOperator": "NOT_NULL"}}, "AttributesToGet": ["sk"], "Limit": 2}
    call("a legacy query", dynamodb.query, TableName=TABLE, KeyConditions=legacy, **old)
    pages = dynamodb.get_paginator("query")
    ask = {"TableName": TABLE, "KeyConditionExpression": "pk = :y", "ExpressionAttributeValues": year, "ProjectionExpression": "sk"}
    call("all pages", lambda: list(pages.paginate(**ask, PaginationConfig={"PageSize": 10})))
    call("nine of them", lambda: pages.paginate(**ask, PaginationConfig={"PageSize": 4, "MaxItems": 9}).build_full_result())


def scans() -> None:
    def scan(what: str, **more: object) -> dict:
        return call(what, dynamodb.scan, TableName=TABLE, **more)

    first = scan("scan a page", Limit=6, ReturnConsumedCapacity="TOTAL")
    scan("scan on", Limit=6, ExclusiveStartKey=first["LastEvaluatedKey"], ProjectionExpression="pk, sk")
    scan("scan for a rating", FilterExpression="info.rating > :r", ExpressionAttributeValues={":r": n(8)}, ConsistentRead=True)
    scan("scan and count", Select="COUNT")
    scan("scan half", Segment=0, TotalSegments=2, ProjectionExpression="sk")
    scan("scan the other half", Segment=1, TotalSegments=2, ProjectionExpression="sk")
    scan("scan beyond the segments", Segment=2, TotalSegments=2)
    old = {"pk": {"ComparisonOperator": "BEGINS_WITH", "AttributeValueList": [s("MOVIES#2013")]}}
    scan("a legacy scan", ScanFilter=old, AttributesToGet=["sk"])
    scan("a scan with a mistake", FilterExpression="info.rating >> :r", ExpressionAttributeValues={":r": n(8)})
    pages = dynamodb.get_paginator("scan")
    call("scan all", lambda: list(pages.paginate(TableName=TABLE, ProjectionExpression="sk", PaginationConfig={"PageSize": 9})))


def transactions() -> None:
    there = {"TableName": TABLE, "ConditionExpression": "attribute_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    absent = there | {"ConditionExpression": "attribute_not_exists(pk)"}
    one = {"UpdateExpression": "ADD votes :one", "ExpressionAttributeValues": {":one": n(1)}}
    song = {"TableName": MUSIC, "Item": {"Artist": s("No One"), "SongTitle": s("Call Me"), "Genre": s("Pop")}}
    items = [
        {"Put": absent | {"Item": movie(2021, "Sold", rating=n(4))}},
        {"Update": {"TableName": TABLE, "Key": key(2020, "Part 02"), **one}},
        {"Delete": there | {"Key": key(2020, "Part 03")}},
        {"ConditionCheck": there | {"Key": key(2020, "Part 04")}},
        {"Put": song},
    ]
    write = dynamodb.transact_write_items
    call("a transaction", write, TransactItems=items, ClientRequestToken=TOKEN, ReturnConsumedCapacity="TOTAL")
    call("the transaction once more", write, TransactItems=items, ClientRequestToken=TOKEN, ReturnConsumedCapacity="TOTAL")
    call("another by that token", write, TransactItems=items[1:2], ClientRequestToken=TOKEN)
    call("it again", write, TransactItems=items)
    call("one of two fails", write, TransactItems=[items[1], {"Put": there | {"Item": movie(2021, "Unsold")}}])
    call("it changed nothing", dynamodb.get_item, TableName=TABLE, Key=key(2020, "Part 02"))
    call("one item twice", write, TransactItems=[items[1], {"Delete": there | {"Key": key(2020, "Part 02")}}])
    call(
        "a part with a mistake",
        write,
        TransactItems=[items[1], {"Update": {"TableName": TABLE, "Key": key(2020, "Part 05"), **one, "UpdateExpression": "ADD votes"}}],
    )
    call("101 parts", write, TransactItems=[{"Put": {"TableName": TABLE, "Item": movie(2022, str(i))}} for i in range(101)])
    call("a missing table", write, TransactItems=[{"Put": song | {"TableName": "Missing"}}])
    part = {"ProjectionExpression": "sk, votes"}
    gets = [{"Get": {"TableName": TABLE, "Key": key(2020, f"Part {i:02}"), **part}} for i in (2, 3)]
    gets.append({"Get": {"TableName": MUSIC, "Key": {"Artist": s("No One"), "SongTitle": s("Call Me")}}})
    call("get together", dynamodb.transact_get_items, TransactItems=gets, ReturnConsumedCapacity="TOTAL")
    call("get by half a key", dynamodb.transact_get_items, TransactItems=[{"Get": {"TableName": TABLE, "Key": {"pk": s("x")}}}])


def other_table() -> None:
    """What passes the endpoint untouched."""
    by_genre = {"TableName": MUSIC, "IndexName": "ByGenre", "ExpressionAttributeValues": {":g": s("Country")}}
    call("query an index", dynamodb.query, **by_genre, KeyConditionExpression="Genre = :g", ReturnConsumedCapacity="INDEXES")
    call("query an index strongly", dynamodb.query, **by_genre, KeyConditionExpression="Genre = :g", ConsistentRead=True)
    statement = f'SELECT SongTitle FROM "{MUSIC}" WHERE Artist = ?'
    call("PartiQL", dynamodb.execute_statement, Statement=statement, Parameters=[s("No One")])
    ttl = {"Enabled": True, "AttributeName": "expires"}
    call("let items expire", dynamodb.update_time_to_live, TableName=MUSIC, TimeToLiveSpecification=ttl)
    call("do they expire?", dynamodb.describe_time_to_live, TableName=MUSIC)
    call("delete the table", dynamodb.delete_table, TableName=MUSIC)
    call("wait until it is gone", dynamodb.get_waiter("table_not_exists").wait, TableName=MUSIC)
    call("delete a missing table", dynamodb.delete_table, TableName="Missing")


for part in (tables, puts, refused_puts, gets, updates, deletes, batches, queries, scans, transactions, other_table):
    part()
