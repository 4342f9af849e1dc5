// Uses the types that were generated from docs/openapi.yaml, with the URL of a stack as the argument.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./dynashard.js";

type Conflict = components["schemas"]["ConflictProblem"];

const baseUrl = process.argv[2];
assert.ok(baseUrl, "the URL of the API is missing");
const client = createClient<paths>({ baseUrl });
const pk = "typescript/EWR";

async function oneItem() {
  const key = { pk, sk: "UA1545" };
  const flight = { dest: "IAH", distance: 1400, delay: { departure: 2 } };
  const stored = await client.PUT("/item", { params: { query: key, header: { "If-None-Match": "*" } }, body: flight });
  assert.equal(stored.data?.sk, "UA1545");
  const etag = stored.response.headers.get("etag");
  assert.ok(etag);

  const refused = await client.PUT("/item", { params: { query: key, header: { "If-None-Match": "*" } }, body: flight });
  assert.ok(refused.error && "code" in refused.error);
  // The status tells the problems apart, for the compiler as well: another code would not compile.
  assert.ok(refused.error.status === 412);
  const code: "precondition_failed" = refused.error.code;
  assert.equal(code, "precondition_failed");

  const changed = await client.PATCH("/item", {
    params: { query: key, header: { "If-Match": etag } },
    body: { tailnum: "N14228", delay: null },
  });
  assert.equal(changed.response.status, 200);
  const read = await client.GET("/item", { params: { query: { ...key, consistent: true } } });
  assert.deepEqual(read.data, { ...key, dest: "IAH", distance: 1400, tailnum: "N14228" });

  const typed = await client.GET("/item", {
    params: { query: { ...key, fields: "distance", consistent: true } },
    headers: { Accept: "application/x-amz-json-1.0" },
  });
  assert.deepEqual(typed.data, { pk: { S: pk }, sk: { S: "UA1545" }, distance: { N: "1400" } });

  const deleted = await client.DELETE("/item", { params: { query: key } });
  assert.equal(deleted.response.status, 204);
  const absent = await client.GET("/item", { params: { query: { ...key, consistent: true } } });
  assert.ok(absent.error && "code" in absent.error && absent.error.code === "item_not_found");
}

async function anItemWithALongKey() {
  const key = { pk: "é".repeat(1000), sk: "é".repeat(512) };
  const stored = await client.POST("/item/put", {
    params: { header: { "If-None-Match": "*" } },
    body: { ...key, item: { dest: "IAH" } },
  });
  const etag = stored.response.headers.get("etag");
  assert.ok(etag);
  const header = { "If-Match": etag };
  const changed = await client.POST("/item/patch", { params: { header }, body: { ...key, patch: { distance: 1400 } } });
  assert.equal(changed.response.status, 200);
  const read = await client.POST("/item/get", { body: { ...key, consistent: true } });
  assert.deepEqual(read.data, { ...key, dest: "IAH", distance: 1400 });
  const deleted = await client.POST("/item/delete", { body: key });
  assert.equal(deleted.response.status, 204);
}

async function manyItems() {
  const puts = Array.from({ length: 30 }, (_, n) => ({ pk, sk: `row/${String(n).padStart(2, "0")}`, item: { n } }));
  const written = await client.POST("/batch-write", { body: { puts, deletes: [{ pk, sk: "no such item" }] } });
  assert.deepEqual(written.data, { written: 31, unprocessed: [] });

  const keys = [{ pk, sk: "row/07" }, { pk, sk: "no such item" }];
  const got = await client.POST("/batch-get", { body: { keys, consistent: true } });
  assert.deepEqual(got.data?.items, [{ pk, sk: "row/07", n: 7 }]);

  const asked = { pk, begins_with: "row/", limit: 20, consistent: true };
  const first = await client.GET("/query", { params: { query: asked } });
  assert.ok(first.data?.cursor);
  const last = await client.GET("/query", { params: { query: { ...asked, cursor: first.data.cursor } } });
  assert.ok(last.data);
  assert.equal(last.data.cursor, null);
  const rows = [...first.data.items, ...last.data.items].map((item) => item["n"]);
  assert.deepEqual(rows, puts.map((put) => put.item.n));

  const page = await client.POST("/query", { body: { pk, from: "row/10", to: "row/12", order: "desc", consistent: true } });
  assert.deepEqual(page.data?.items.map((item) => item["n"]), [12, 11, 10]);
  const other = await client.GET("/query", { params: { query: { pk: "another", cursor: first.data.cursor } } });
  assert.ok(other.error && "code" in other.error && other.error.code === "cursor_mismatch");
}

async function collection() {
  const query = { pk: "typescript/spread" };
  const spread = { placement: "xxh64", number_of_shards: 4 } as const;
  const created = await client.PUT("/collection", { params: { query }, body: spread });
  assert.equal(created.data?.number_of_shards, 4);
  const again = await client.PUT("/collection", { params: { query }, body: spread });
  assert.ok(again.error && "code" in again.error && again.error.status === 409);
  const problem: Conflict = again.error;
  assert.equal(problem.code, "collection_exists");
  const details = await client.GET("/collection", { params: { query } });
  assert.equal(details.data?.capacity.write_units, 4000);
  const tooMany = await client.POST("/collection/scale", { params: { query }, body: { number_of_shards: 64 } });
  assert.ok(tooMany.error && "code" in tooMany.error && tooMany.error.code === "bad_shard_count");
}

await oneItem();
await anItemWithALongKey();
await manyItems();
await collection();
console.log("the TypeScript client stored, changed, read and queried items, and got typed problems");
