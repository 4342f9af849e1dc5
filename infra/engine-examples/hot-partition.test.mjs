// What a program meets when one partition key is hot, and that it meets nothing once the key is spread.
import {
  BatchWriteItemCommand,
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  ProvisionedThroughputExceededException,
  PutItemCommand,
  ScanCommand,
} from "@aws-sdk/client-dynamodb";
import { afterEach, beforeEach, expect, inject, test } from "vitest";

const TableName = "Flights";

// A client that sends again by itself hides what the tests ask for.
const client = new DynamoDBClient({
  endpoint: inject("dynamodb"),
  region: "us-east-1",
  credentials: { accessKeyId: "local", secretAccessKey: "local" },
  maxAttempts: 1,
});

beforeEach(async () => {
  const names = ["pk", "sk"];
  await client.send(
    new CreateTableCommand({
      TableName,
      KeySchema: names.map((AttributeName, at) => ({ AttributeName, KeyType: ["HASH", "RANGE"][at] })),
      AttributeDefinitions: names.map((AttributeName) => ({ AttributeName, AttributeType: "S" })),
      BillingMode: "PAY_PER_REQUEST",
    }),
  );
});

afterEach(() => client.send(new DeleteTableCommand({ TableName })));

const flight = (pk, sk) => ({ pk: { S: pk }, sk: { S: String(sk).padStart(2, "0") } });
const put = (Item) => client.send(new PutItemCommand({ TableName, Item }));
const stored = async () => (await client.send(new ScanCommand({ TableName, Select: "COUNT" }))).Count;

/** Writes 25 items in one batch, and returns how many were refused. */
async function unprocessed(pk) {
  const requests = Array.from({ length: 25 }, (_, n) => ({ PutRequest: { Item: flight(pk(n), n) } }));
  const answer = await client.send(new BatchWriteItemCommand({ RequestItems: { [TableName]: requests } }));
  return answer.UnprocessedItems[TableName]?.length ?? 0;
}

test("a hot key gets what one partition takes", async () => {
  expect(await unprocessed(() => "EWR")).toBe(15);
  expect(await stored()).toBe(10);
});

test("a spread key gets all that it asks for", async () => {
  expect(await unprocessed((n) => `EWR#${n % 16}`)).toBe(0);
  expect(await stored()).toBe(25);
});

test("the error says which limit was met", async () => {
  // A full partition takes an item that is larger than itself, and then nothing until time has paid for it: here 30 seconds.
  await put({ ...flight("EWR", 0), note: { S: "x".repeat(300 * 1024) } });
  const refused = await put(flight("EWR", 1)).catch((error) => error);
  expect(refused).toBeInstanceOf(ProvisionedThroughputExceededException);
  expect(refused.ThrottlingReasons.map(({ reason }) => reason)).toEqual(["TableWriteKeyRangeThroughputExceeded"]);
  await put(flight("JFK", 1));
});
