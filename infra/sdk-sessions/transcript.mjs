// What a session writes down: a line of JSON for each call, with its answer or its error.

import { DynamoDBServiceException } from "@aws-sdk/client-dynamodb";

/** The table that dynashard manages, with the keys `pk` and `sk`. */
export const TABLE = process.env.DYNASHARD_TABLE;

/** A token of transactions that no other run has: DynamoDB remembers it for ten minutes. */
export const TOKEN = process.env.DYNASHARD_TOKEN;

/** What two runs on one engine cannot have in common. */
const CHANCE = new Set(["TableId", "TableArn", "IndexArn", "LatestStreamArn", "LatestStreamLabel", "$fault", "$retryable", "date"]);

/** Lists in an order that DynamoDB does not promise. */
// DynamoDB repeats a batch or a transaction that has the wrong number of parts. The endpoint, which refuses it itself, does not.
const ECHO = /Value '.*' at '(requestItems|transactItems)'/gs;
const UNORDERED = new Set(["SS", "NS", "BS", "ConsumedCapacity"]);

/** Makes one call of the library and writes down what came of it. Resolves with the answer, or with nothing where there was an error. */
export async function call(what, does) {
  let answer;
  try {
    answer = await does();
  } catch (error) {
    // A mistake in a session is not an answer.
    if (!(error instanceof DynamoDBServiceException) && !error.isElectroError) throw error;
    write({ call: what, error: plain({ ...error, name: error.name, message: error.message, cause: error.cause }) });
    return undefined;
  }
  write({ call: what, answer: plain(answer) });
  return answer;
}

function write(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** A value as JSON that tells all types apart, without ids and dates, and in order where DynamoDB promises none. */
function plain(value) {
  if (typeof value === "string") return value.replace(ECHO, "Value at '$1'");
  if (typeof value === "bigint") return { "(bigint)": String(value) };
  if (typeof value !== "object" || value === null) return value ?? null;
  if (value instanceof Date) return "(date)";
  if (value instanceof Uint8Array) return { "(bytes)": Buffer.from(value).toString("base64") };
  if (value instanceof Set) return { "(set)": inOrder([...value].map(plain)) };
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Error && !Object.keys(value).length) return plain(value.message);
  const members = {};
  for (const name of Object.keys(value).sort()) {
    if (name === "$metadata") {
      // An answer whose checksum is wrong is asked for again.
      members["(status)"] = value[name].httpStatusCode ?? null;
      if (value[name].attempts > 1) members["(attempts)"] = value[name].attempts;
    } else if (name === "cursor" && typeof value[name] === "string") {
      // ElectroDB keeps the order of the members, which DynamoDB does not promise.
      members[name] = plain(JSON.parse(Buffer.from(value[name], "base64url").toString()));
    } else if (value[name] !== undefined && typeof value[name] !== "function" && !CHANCE.has(name)) {
      const member = plain(value[name]);
      members[name] = UNORDERED.has(name) && Array.isArray(member) ? inOrder(member) : member;
    }
  }
  return members;
}

function inOrder(values) {
  return values
    .map((each) => JSON.stringify(each))
    .sort()
    .map((each) => JSON.parse(each));
}
