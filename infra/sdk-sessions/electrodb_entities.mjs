// A session of ElectroDB: tasks and employees of offices in one table, their collections, pages, filters and transactions.

import { CreateTableCommand, DeleteTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import electrodb from "electrodb";
import { TABLE, TOKEN, call } from "./transcript.mjs";

const { Entity, Service } = electrodb;
const dynamodb = new DynamoDBClient({});
const client = DynamoDBDocumentClient.from(dynamodb, { marshallOptions: { removeUndefinedValues: true } });
const STORES = "Stores";
const SPRING = Date.UTC(2026, 2, 20);

const Employee = new Entity(
  {
    model: { entity: "employee", version: "1", service: "office" },
    attributes: {
      team: { type: "string", required: true },
      employee: { type: "string", required: true },
      name: { type: "string" },
      salary: { type: "number", validate: (value) => value >= 0 },
      manager: { type: "boolean", default: false },
      created: { type: "number", readOnly: true, default: () => SPRING },
      skills: { type: "set", items: "string" },
      address: { type: "map", properties: { city: { type: "string" }, zip: { type: "string" } } },
    },
    indexes: { staff: { collection: "work", pk: { field: "pk", composite: ["team"] }, sk: { field: "sk", composite: ["employee"] } } },
  },
  { client, table: TABLE },
);

const Task = new Entity(
  {
    model: { entity: "task", version: "1", service: "office" },
    attributes: {
      team: { type: "string", required: true },
      project: { type: "string", required: true },
      task: { type: "string", required: true },
      title: { type: "string" },
      status: { type: ["open", "in-progress", "closed"], default: "open" },
      points: { type: "number" },
      tags: { type: "set", items: "string" },
      comments: { type: "list", items: { type: "map", properties: { user: { type: "string" }, body: { type: "string" } } } },
      updated: { type: "number", watch: "*", set: () => SPRING },
    },
    indexes: { backlog: { collection: "work", pk: { field: "pk", composite: ["team"] }, sk: { field: "sk", composite: ["project", "task"] } } },
  },
  { client, table: TABLE },
);

const Store = new Entity(
  {
    model: { entity: "store", version: "1", service: "mall" },
    attributes: { mall: { type: "string" }, store: { type: "string" }, category: { type: "string" }, rent: { type: "number" } },
    indexes: {
      stores: { pk: { field: "pk", composite: ["mall"] }, sk: { field: "sk", composite: ["store"] } },
      byCategory: { index: "gsi1", pk: { field: "gsi1pk", composite: ["category"] }, sk: { field: "gsi1sk", composite: ["rent"] } },
    },
  },
  { client, table: STORES },
);

const office = new Service({ employees: Employee, tasks: Task });
const name = (i) => `task-${String(i).padStart(2, "0")}`;

async function items() {
  const ann = { team: "blue", employee: "ann", name: "Ann", salary: 100, skills: ["rust", "sql"], address: { city: "Graz", zip: "8010" } };
  await call("create", () => Employee.create(ann).go());
  await call("create again", () => Employee.create(ann).go());
  await call("get", () => Employee.get({ team: "blue", employee: "ann" }).go());
  await call("get raw", () => Employee.get({ team: "blue", employee: "ann" }).go({ data: "raw", consistent: true }));
  await call("get parts", () => Employee.get({ team: "blue", employee: "ann" }).go({ attributes: ["name", "salary"] }));
  await call("get nothing", () => Employee.get({ team: "blue", employee: "nobody" }).go());
  await call("put", () => Employee.put({ ...ann, salary: 110 }).go());
  await call("put on condition", () =>
    Employee.put({ ...ann, salary: 120 })
      .where(({ salary }, { lt }) => lt(salary, 100))
      .go(),
  );
  await call("put, and see the old", () =>
    Employee.put({ ...ann, salary: 120 })
      .where(({ salary }, { gt }) => gt(salary, 100))
      .go({ response: "all_old" }),
  );
  await call("create a mistake", () => Employee.create({ team: "blue", employee: "bob", salary: -1 }).go());
  await call("create without a key", () => Employee.create({ team: "blue" }).go());
  await call("patch", () => Employee.patch({ team: "blue", employee: "ann" }).set({ manager: true }).add({ salary: 5 }).go({ response: "all_new" }));
  await call("patch nothing", () => Employee.patch({ team: "blue", employee: "bob" }).set({ name: "Bob" }).go());
  await call("update nothing", () => Employee.update({ team: "blue", employee: "bob" }).set({ name: "Bob" }).go({ response: "all_new" }));
  const parts = ({ address, salary, skills }, { set, add, del }) => {
    set(address.city, "Wien");
    add(salary, 10);
    del(skills, ["sql"]);
  };
  await call("update parts", () => Employee.update({ team: "blue", employee: "ann" }).data(parts).go({ response: "updated_new" }));
  const inWien = ({ address, salary }, { eq, between }) => `${eq(address.city, "Wien")} AND ${between(salary, 100, 200)}`;
  await call("update on condition", () =>
    Employee.update({ team: "blue", employee: "ann" }).remove(["name"]).where(inWien).go({ response: "updated_old" }),
  );
  const gone = ({ name }, { exists }) => exists(name);
  await call("update on a false condition", () => Employee.update({ team: "blue", employee: "ann" }).set({ name: "A" }).where(gone).go());
  await call("upsert", () => Employee.upsert({ team: "blue", employee: "cat", name: "Cat" }).add({ salary: 7 }).go({ response: "all_new" }));
  await call("upsert once more", () =>
    Employee.upsert({ team: "blue", employee: "cat" }).set({ name: "Kat" }).add({ salary: 7 }).go({ response: "all_new" }),
  );
  await call("update what is read only", () => Employee.update({ team: "blue", employee: "cat" }).set({ created: 1 }).go());
  await call("delete", () => Employee.delete({ team: "blue", employee: "cat" }).go({ response: "all_old" }));
  await call("remove what is gone", () => Employee.remove({ team: "blue", employee: "cat" }).go());
  await call("delete on a false condition", () =>
    Employee.delete({ team: "blue", employee: "ann" })
      .where(({ manager }, { eq }) => eq(manager, false))
      .go(),
  );
}

async function batches() {
  const tasks = Array.from({ length: 40 }, (_, i) => ({
    team: "blue",
    project: i % 4 ? "engine" : "wheels",
    task: name(i),
    title: `Do ${i}`,
    points: i % 9,
    status: ["open", "in-progress", "closed"][i % 3],
    tags: i % 2 ? ["odd"] : ["even"],
  }));
  await call("put many", () => Task.put(tasks).go());
  await call("get many", () =>
    Task.get([1, 2, 99].map((i) => ({ team: "blue", project: "engine", task: name(i) }))).go({ preserveBatchOrder: true }),
  );
  await call("delete many", () => Task.delete([37, 38, 39].map((i) => ({ team: "blue", project: "engine", task: name(i) }))).go());
  const said = ({ comments }, { append }) => append(comments, [{ user: "ann", body: "no" }]);
  await call("append to nothing", () =>
    Task.patch({ team: "blue", project: "engine", task: name(1) })
      .data(said)
      .go(),
  );
  await call("begin a list", () =>
    Task.patch({ team: "blue", project: "engine", task: name(1) })
      .set({ comments: [] })
      .go(),
  );
  await call("append", () =>
    Task.patch({ team: "blue", project: "engine", task: name(1) })
      .data(said)
      .go({ response: "all_new" }),
  );
}

async function queries() {
  await call("query a project", () => Task.query.backlog({ team: "blue", project: "wheels" }).go());
  await call("query begins", () =>
    Task.query
      .backlog({ team: "blue", project: "engine" })
      .begins({ task: "task-2" })
      .go({ attributes: ["task", "points"] }),
  );
  const range = [{ task: name(10) }, { task: name(14) }];
  await call("query between", () =>
    Task.query
      .backlog({ team: "blue", project: "engine" })
      .between(...range)
      .go({ order: "desc" }),
  );
  await call("query from", () =>
    Task.query
      .backlog({ team: "blue", project: "engine" })
      .gte({ task: name(34) })
      .go({ consistent: true }),
  );
  await call("query below", () =>
    Task.query
      .backlog({ team: "blue", project: "engine" })
      .lt({ task: name(3) })
      .go(),
  );
  const easy = ({ points, status, tags }, { lt, eq, contains }) => `${lt(points, 3)} AND (${eq(status, "open")} OR ${contains(tags, "odd")})`;
  await call("query and filter", () =>
    Task.query
      .backlog({ team: "blue" })
      .where(easy)
      .go({ attributes: ["project", "task"] }),
  );
  const noNotes = ({ comments, title }, { notExists, begins }) => `${notExists(comments)} AND ${begins(title, "Do 1")}`;
  await call("query what lacks", () =>
    Task.query
      .backlog({ team: "blue" })
      .where(noNotes)
      .go({ attributes: ["task"] }),
  );
  let cursor = null;
  do {
    const page = await call("query a page", () => Task.query.backlog({ team: "blue" }).go({ cursor, limit: 15, attributes: ["task"] }));
    cursor = page.cursor;
  } while (cursor);
  await call("query seven", () => Task.query.backlog({ team: "blue" }).go({ count: 7, attributes: ["task"] }));
  await call("query all", () => Task.query.backlog({ team: "blue" }).go({ pages: "all", limit: 10, attributes: ["task"] }));
  await call("query raw", () => Task.query.backlog({ team: "blue", project: "wheels" }).go({ data: "raw", limit: 2 }));
  await call("query nothing", () => Task.query.backlog({ team: "green" }).go());
  await call("query by a cursor that is none", () => Task.query.backlog({ team: "blue" }).go({ cursor: "bm9uZQ==" }));
  await call("match", () => Task.match({ team: "blue", status: "closed" }).go({ attributes: ["task"] }));
  await call("find", () => Task.find({ team: "blue", project: "wheels", points: 4 }).go());
  await call("scan", () => Task.scan.where(({ points }, { gte }) => gte(points, 7)).go({ attributes: ["project", "task", "points"] }));
  await call("scan for employees", () => Employee.scan.go());
  await call("a collection", () => office.collections.work({ team: "blue" }).go());
  await call("a collection, filtered", () =>
    office.collections
      .work({ team: "blue" })
      .where(({ title, name }, { eq }) => `${eq(title, "Do 5")} OR ${eq(name, "Bob")}`)
      .go(),
  );
}

async function transactions() {
  const key = { team: "blue", project: "engine", task: name(6) };
  const paid = ({ salary }, { lt }) => lt(salary, 1000);
  const close = (token) =>
    office.transaction
      .write(({ tasks, employees }) => [
        tasks
          .patch(key)
          .set({ status: "closed" })
          .where(({ status }, { ne }) => ne(status, "closed"))
          .commit({ response: "all_old" }),
        employees.update({ team: "blue", employee: "ann" }).add({ salary: 50 }).commit(),
        tasks.create({ team: "blue", project: "engine", task: name(50), title: "Next" }).commit(),
      ])
      .go({ token });
  await call("close", () => close(TOKEN));
  await call("close once more by the token", () => close(TOKEN));
  await call("close again", () => close());
  const check = ({ employees, tasks }) => [
    employees.check({ team: "blue", employee: "ann" }).where(paid).commit(),
    tasks.delete({ team: "blue", project: "engine", task: name(50) }).commit(),
    tasks.upsert({ team: "blue", project: "engine", task: name(51), title: "Last" }).commit(),
  ];
  await call("check", () => office.transaction.write(check).go());
  const wanted = ({ employees, tasks }) => [
    employees.get({ team: "blue", employee: "ann" }).commit(),
    tasks.get(key).commit({ attributes: ["status"] }),
    tasks.get({ ...key, task: "none" }).commit(),
  ];
  await call("get together", () => office.transaction.get(wanted).go());
}

async function otherTable() {
  await call("read a missing table", () => Store.get({ mall: "East", store: "Books" }).go());
  const attributes = ["pk", "sk", "gsi1pk", "gsi1sk"].map((AttributeName) => ({ AttributeName, AttributeType: "S" }));
  const keys = (hash, range) => [
    { AttributeName: hash, KeyType: "HASH" },
    { AttributeName: range, KeyType: "RANGE" },
  ];
  const index = { IndexName: "gsi1", KeySchema: keys("gsi1pk", "gsi1sk"), Projection: { ProjectionType: "ALL" } };
  const table = {
    TableName: STORES,
    AttributeDefinitions: attributes,
    KeySchema: keys("pk", "sk"),
    BillingMode: "PAY_PER_REQUEST",
    GlobalSecondaryIndexes: [index],
  };
  await dynamodb.send(new CreateTableCommand(table));
  await call("put stores", () =>
    Store.put(["Books", "Bread", "Shoes"].map((store, i) => ({ mall: "East", store, category: i ? "daily" : "rare", rent: 100 * i }))).go(),
  );
  await call("query an index", () => Store.query.byCategory({ category: "daily" }).go());
  await call("query an index from", () => Store.query.byCategory({ category: "daily" }).gt({ rent: 100 }).go());
  await dynamodb.send(new DeleteTableCommand({ TableName: STORES }));
}

for (const part of [items, batches, queries, transactions, otherTable]) await part();
