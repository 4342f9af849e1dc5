// A session of the JavaScript SDK v3: the client, the document client, paginators, waiters, batches and transactions.

import {
  CreateTableCommand,
  DeleteItemCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  DynamoDBClient,
  ExecuteStatementCommand,
  GetItemCommand,
  ListTablesCommand,
  PutItemCommand,
  QueryCommand,
  ScanCommand,
  UpdateItemCommand,
  paginateListTables,
  waitUntilTableExists,
  waitUntilTableNotExists,
} from "@aws-sdk/client-dynamodb";
import {
  BatchGetCommand,
  BatchWriteCommand,
  DeleteCommand,
  DynamoDBDocumentClient,
  GetCommand,
  NumberValue,
  PutCommand,
  QueryCommand as QueryDocuments,
  ScanCommand as ScanDocuments,
  TransactGetCommand,
  TransactWriteCommand,
  UpdateCommand,
  paginateQuery,
  paginateScan,
} from "@aws-sdk/lib-dynamodb";
import { TABLE, TOKEN, call } from "./transcript.mjs";

const client = new DynamoDBClient({});
const documents = DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });
const BREEDS = "DogBreeds";
const WAIT = { client, minDelay: 1, maxWaitTime: 30 };

const send = (what, command) => call(what, () => client.send(command));
const document = (what, command) => call(what, () => documents.send(command));
const key = (kind, name) => ({ pk: kind, sk: name });
const typed = (kind, name) => ({ pk: { S: kind }, sk: { S: name } });
/** A document client that keeps every digit. Its options are its client's, so that it has one of its own. */
const exact = DynamoDBDocumentClient.from(new DynamoDBClient({}), { unmarshallOptions: { wrapNumbers: (value) => `(number) ${value}` } });

async function tables() {
  await send("list tables", new ListTablesCommand({}));
  await call("list all tables", async () => {
    const names = [];
    for await (const page of paginateListTables({ client, pageSize: 1 }, {})) names.push(...page.TableNames);
    return names;
  });
  await call("describe the keys", async () => (await client.send(new DescribeTableCommand({ TableName: TABLE }))).Table.KeySchema);
  await send("describe a missing table", new DescribeTableCommand({ TableName: "Missing" }));
  const attribute = (AttributeName) => ({ AttributeName, AttributeType: "S" });
  const index = {
    IndexName: "ByGroup",
    KeySchema: [{ AttributeName: "group", KeyType: "HASH" }],
    Projection: { ProjectionType: "INCLUDE", NonKeyAttributes: ["size"] },
  };
  const table = {
    TableName: BREEDS,
    AttributeDefinitions: [attribute("breed"), attribute("group")],
    KeySchema: [{ AttributeName: "breed", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
    GlobalSecondaryIndexes: [index],
  };
  await send("create a table", new CreateTableCommand(table));
  await call("wait for it", async () => (await waitUntilTableExists(WAIT, { TableName: BREEDS })).state);
  await send("create it again", new CreateTableCommand(table));
}

async function items() {
  const cookie = { ...typed("COOKIES", "Chocolate"), Calories: { N: "350" }, Tags: { SS: ["sweet", "brown"] }, Bytes: { B: Uint8Array.of(0, 255) } };
  await send("put", new PutItemCommand({ TableName: TABLE, Item: cookie, ReturnConsumedCapacity: "TOTAL" }));
  const again = { TableName: TABLE, Item: { ...cookie, Calories: { N: "400" } } };
  await send("put again", new PutItemCommand({ ...again, ReturnValues: "ALL_OLD" }));
  const create = { ...again, ConditionExpression: "attribute_not_exists(#pk)", ExpressionAttributeNames: { "#pk": "pk" } };
  await send("create again", new PutItemCommand(create));
  await send("create again, and see it", new PutItemCommand({ ...create, ReturnValuesOnConditionCheckFailure: "ALL_OLD" }));
  await send("get", new GetItemCommand({ TableName: TABLE, Key: typed("COOKIES", "Chocolate"), ConsistentRead: true }));
  await send("get a part", new GetItemCommand({ TableName: TABLE, Key: typed("COOKIES", "Chocolate"), ProjectionExpression: "Calories, pk" }));
  await send("get nothing", new GetItemCommand({ TableName: TABLE, Key: typed("COOKIES", "Salt"), ReturnConsumedCapacity: "TOTAL" }));
  await send("get by half a key", new GetItemCommand({ TableName: TABLE, Key: { pk: { S: "COOKIES" } } }));
  await send("get from a missing table", new GetItemCommand({ TableName: "Missing", Key: typed("a", "b") }));
  const update = { TableName: TABLE, Key: typed("COOKIES", "Chocolate"), ReturnValues: "ALL_NEW" };
  const has = { UpdateExpression: "set HasChunks = :chunks, Made.#by = :by", ExpressionAttributeNames: { "#by": "By" } };
  const values = { ":chunks": { BOOL: false }, ":by": { S: "Ann" } };
  await send("update within nothing", new UpdateItemCommand({ ...update, ...has, ExpressionAttributeValues: values }));
  const made = { UpdateExpression: "SET Made = if_not_exists(Made, :made)", ExpressionAttributeValues: { ":made": { M: {} } } };
  await send("make it", new UpdateItemCommand({ ...update, ...made }));
  await send("update", new UpdateItemCommand({ ...update, ...has, ExpressionAttributeValues: values }));
  await send("update nothing", new UpdateItemCommand({ ...update, Key: typed("COOKIES", "New") }));
  await send(
    "update by a mistake",
    new UpdateItemCommand({ ...update, UpdateExpression: "SET = :a", ExpressionAttributeValues: { ":a": { S: "a" } } }),
  );
  const few = { ConditionExpression: "Calories < :n", ExpressionAttributeValues: { ":n": { N: "100" } } };
  await send(
    "delete on a false condition",
    new DeleteItemCommand({ TableName: TABLE, Key: update.Key, ...few, ReturnValuesOnConditionCheckFailure: "ALL_OLD" }),
  );
  await send("delete", new DeleteItemCommand({ TableName: TABLE, Key: update.Key, ReturnValues: "ALL_OLD" }));
  const cookies = { TableName: TABLE, KeyConditionExpression: "pk = :pk", ExpressionAttributeValues: { ":pk": { S: "COOKIES" } } };
  await send("query", new QueryCommand({ ...cookies, ReturnConsumedCapacity: "INDEXES" }));
  await send("scan", new ScanCommand({ TableName: TABLE, Select: "COUNT" }));
}

async function documentsOfAllTypes() {
  const types = {
    string: "ü",
    empty: "",
    number: 1.5,
    large: 2n ** 52n,
    exact: NumberValue.from("3.14159265358979323846264338327950288"),
    truth: true,
    nothing: null,
    gone: undefined,
    bytes: Uint8Array.of(1, 2, 3),
    strings: new Set(["b", "a"]),
    numbers: new Set([2, 10]),
    list: ["a", [1, { deep: null }]],
    map: { "a.b": { c: {} } },
  };
  await document("put every type", new PutCommand({ TableName: TABLE, Item: { ...key("TYPES", "all"), ...types } }));
  await call("get every type", () => exact.send(new GetCommand({ TableName: TABLE, Key: key("TYPES", "all") })));
  const part = { ProjectionExpression: "#m.#ab, #l[1][0]", ExpressionAttributeNames: { "#m": "map", "#ab": "a.b", "#l": "list" } };
  await document("get a part", new GetCommand({ TableName: TABLE, Key: key("TYPES", "all"), ...part }));
  const update = {
    TableName: TABLE,
    Key: key("TYPES", "all"),
    UpdateExpression: "SET #n = #n + :by, #l = list_append(:first, #l) REMOVE truth DELETE strings :a",
    ExpressionAttributeNames: { "#n": "number", "#l": "list" },
    ExpressionAttributeValues: { ":by": 0.25, ":first": ["first"], ":a": new Set(["a"]) },
    ReturnValues: "UPDATED_NEW",
  };
  await document("update", new UpdateCommand(update));
  const when = { ConditionExpression: "attribute_type(nothing, :null) AND NOT contains(strings, :b)" };
  const asked = { ...update.ExpressionAttributeValues, ":null": "NULL", ":b": "b" };
  const seen = { ReturnValuesOnConditionCheckFailure: "ALL_OLD" };
  await document("update on a false condition", new UpdateCommand({ ...update, ...when, ...seen, ExpressionAttributeValues: asked }));
  await document("put a number for a key", new PutCommand({ TableName: TABLE, Item: { pk: 1, sk: "x" } }));
  await document("put an empty key", new PutCommand({ TableName: TABLE, Item: { pk: "", sk: "x" } }));
  await document("delete", new DeleteCommand({ TableName: TABLE, Key: key("TYPES", "all"), ReturnValues: "ALL_OLD" }));
  await document(
    "delete what is gone",
    new DeleteCommand({ TableName: TABLE, Key: key("TYPES", "all"), ConditionExpression: "attribute_exists(pk)" }),
  );
}

async function batches() {
  const movies = Array.from({ length: 50 }, (_, i) => ({ ...key(`MOVIES#${1990 + (i % 2)}`, `Movie ${String(i).padStart(2, "0")}`), rank: i % 7 }));
  for (let i = 0; i < movies.length; i += 25) {
    const puts = movies.slice(i, i + 25).map((Item) => ({ PutRequest: { Item } }));
    await document("write a batch", new BatchWriteCommand({ RequestItems: { [TABLE]: puts }, ReturnConsumedCapacity: "TOTAL" }));
  }
  const breeds = [
    ["Labrador", "Sporting"],
    ["Poodle", "Toy"],
    ["Pointer", "Sporting"],
  ];
  const dogs = breeds.map(([breed, group]) => ({ PutRequest: { Item: { breed, group, size: breed.length } } }));
  const gone = { DeleteRequest: { Key: key("MOVIES#1990", "Movie 48") } };
  await document("write to two tables", new BatchWriteCommand({ RequestItems: { [BREEDS]: dogs, [TABLE]: [gone] } }));
  await document("write twins", new BatchWriteCommand({ RequestItems: { [TABLE]: [gone, gone] } }));
  await document("write nothing", new BatchWriteCommand({ RequestItems: { [TABLE]: [] } }));
  const keys = [key("MOVIES#1990", "Movie 02"), key("MOVIES#1991", "Movie 03"), key("MOVIES#1990", "Movie 48")];
  const wanted = {
    [TABLE]: { Keys: keys, ProjectionExpression: "sk, #r", ExpressionAttributeNames: { "#r": "rank" } },
    [BREEDS]: { Keys: [{ breed: "Poodle" }] },
  };
  await document("get a batch", new BatchGetCommand({ RequestItems: wanted, ReturnConsumedCapacity: "TOTAL" }));
  await document("get twins", new BatchGetCommand({ RequestItems: { [TABLE]: { Keys: [keys[0], keys[0]] } } }));
}

async function queries() {
  const year = { TableName: TABLE, KeyConditionExpression: "pk = :y", ExpressionAttributeValues: { ":y": "MOVIES#1990" } };
  const values = (more) => ({ ExpressionAttributeValues: { ...year.ExpressionAttributeValues, ...more } });
  const first = await document("query", new QueryDocuments({ ...year, Limit: 5, ReturnConsumedCapacity: "TOTAL" }));
  await document("query on", new QueryDocuments({ ...year, Limit: 5, ExclusiveStartKey: first.LastEvaluatedKey }));
  const between = { KeyConditionExpression: "pk = :y AND sk BETWEEN :a AND :b", ...values({ ":a": "Movie 10", ":b": "Movie 14" }) };
  await document("query between, backwards", new QueryDocuments({ ...year, ...between, ScanIndexForward: false, ConsistentRead: true }));
  const best = { FilterExpression: "#r IN (:a, :b)", ExpressionAttributeNames: { "#r": "rank" }, ...values({ ":a": 0, ":b": 6 }) };
  await document("query and filter", new QueryDocuments({ ...year, ...best, ProjectionExpression: "sk, #r" }));
  await document("count", new QueryDocuments({ ...year, ...best, Select: "COUNT" }));
  await document("query no key", new QueryDocuments({ ...year, KeyConditionExpression: "sk = :y" }));
  await document("query, a value lacks", new QueryDocuments({ ...year, KeyConditionExpression: "pk = :y AND sk = :z" }));
  await document("query a missing index", new QueryDocuments({ ...year, IndexName: "Missing" }));
  // A paginator writes into what it is given.
  const pagesOf = async (pages) => {
    const found = [];
    for await (const page of pages) found.push(page.Items.map((each) => each.sk));
    return found;
  };
  await call("query by pages", () => pagesOf(paginateQuery({ client: documents, pageSize: 6 }, { ...year })));
  await call("query by pages, filtered", () => pagesOf(paginateQuery({ client: documents, pageSize: 6 }, { ...year, ...best })));
  await call("scan by pages", () => pagesOf(paginateScan({ client: documents, pageSize: 20 }, { TableName: TABLE })));
  await call("scan from a page", () =>
    pagesOf(paginateScan({ client: documents, pageSize: 20, startingToken: first.LastEvaluatedKey }, { TableName: TABLE })),
  );
  const low = {
    FilterExpression: "#r < :n AND begins_with(pk, :m)",
    ExpressionAttributeNames: { "#r": "rank" },
    ExpressionAttributeValues: { ":n": 1, ":m": "MOVIES" },
  };
  await document("scan and filter", new ScanDocuments({ TableName: TABLE, ...low, ReturnConsumedCapacity: "TOTAL" }));
  const sporting = { TableName: BREEDS, IndexName: "ByGroup", KeyConditionExpression: "#g = :g", ExpressionAttributeNames: { "#g": "group" } };
  await document("query an index", new QueryDocuments({ ...sporting, ExpressionAttributeValues: { ":g": "Sporting" } }));
}

async function transactions() {
  const order = {
    Put: {
      TableName: TABLE,
      Item: { ...key("ORDERS", "1"), dog: "Poodle" },
      ConditionExpression: "attribute_not_exists(pk)",
      ReturnValuesOnConditionCheckFailure: "ALL_OLD",
    },
  };
  const sold = {
    Update: { TableName: TABLE, Key: key("STOCK", "Poodle"), UpdateExpression: "ADD sold :one", ExpressionAttributeValues: { ":one": 1 } },
  };
  const check = {
    ConditionCheck: { TableName: BREEDS, Key: { breed: "Poodle" }, ConditionExpression: "size > :n", ExpressionAttributeValues: { ":n": 3 } },
  };
  const named = { ConditionCheck: { ...check.ConditionCheck, ConditionExpression: "#s > :n", ExpressionAttributeNames: { "#s": "size" } } };
  const token = { ClientRequestToken: TOKEN };
  await document("a word that is reserved", new TransactWriteCommand({ TransactItems: [order, check] }));
  await document("buy", new TransactWriteCommand({ TransactItems: [order, sold, named], ...token, ReturnConsumedCapacity: "TOTAL" }));
  await document("buy once more by the token", new TransactWriteCommand({ TransactItems: [order, sold, named], ...token }));
  await document("buy another by the token", new TransactWriteCommand({ TransactItems: [order, sold], ...token }));
  await document("buy again", new TransactWriteCommand({ TransactItems: [order, sold, named] }));
  await document(
    "one item twice",
    new TransactWriteCommand({ TransactItems: [sold, { Delete: { TableName: TABLE, Key: key("STOCK", "Poodle") } }] }),
  );
  await document("nothing together", new TransactWriteCommand({ TransactItems: [] }));
  await document("delete together", new TransactWriteCommand({ TransactItems: [{ Delete: { TableName: TABLE, Key: key("ORDERS", "1") } }, sold] }));
  const gets = ["Poodle", "Beagle"].map((name) => ({ Get: { TableName: TABLE, Key: key("STOCK", name) } }));
  await document("get together", new TransactGetCommand({ TransactItems: [...gets, { Get: { TableName: BREEDS, Key: { breed: "Pointer" } } }] }));
}

async function otherTable() {
  const statement = { Statement: `SELECT * FROM "${BREEDS}" WHERE breed = ?`, Parameters: [{ S: "Pointer" }] };
  await send("PartiQL", new ExecuteStatementCommand(statement));
  await call("delete the table", async () => (await client.send(new DeleteTableCommand({ TableName: BREEDS }))).TableDescription.TableName);
  await call("wait until it is gone", async () => (await waitUntilTableNotExists(WAIT, { TableName: BREEDS })).state);
  await send("delete a missing table", new DeleteTableCommand({ TableName: "Missing" }));
}

for (const part of [tables, items, documentsOfAllTypes, batches, queries, transactions, otherTable]) await part();
