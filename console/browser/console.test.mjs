// The console in Chromium, over the real command: what people see, that everybody can read it, and that it stays
// small and quick. CONTRIBUTING.md says how to run it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const ROOT = new URL("../..", import.meta.url).pathname;
const COMMAND = process.env.DYNASHARD ?? join(ROOT, "target/debug/dynashard");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PICTURES = process.env.PICTURES ?? join(ROOT, "target/console");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** As long as a busy machine may take. */
const PATIENCE = 180e3;
const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 390, height: 844 };

let browser;
const running = new Set();

before(async () => {
  mkdirSync(PICTURES, { recursive: true });
  // The sandbox of Chromium needs an account other than root.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  browser = await chromium.launch({ executablePath: CHROMIUM, args });
});

after(async () => {
  await browser?.close();
  await Promise.all([...running].map((child) => end(child)));
});

/** Starts the command, and returns what it prints until `ready` finds something in it. */
function start(args, ready) {
  const child = spawn(COMMAND, args, { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  let text = "";
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${args.join(" ")} is not ready: ${text}`)), PATIENCE);
    const more = (chunk) => {
      text += chunk;
      const found = ready(text);
      if (found) { clearTimeout(late); resolve({ child, found, printed: () => text }); }
    };
    child.stdout.on("data", more);
    child.stderr.on("data", more);
    child.on("exit", (code) => reject(new Error(`${args.join(" ")} ended with ${code}: ${text}`)));
  });
}

function end(child, signal = "SIGTERM") {
  running.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => { child.on("exit", resolve); child.kill(signal); });
}

const readyLine = (text) => { const line = text.split("\n").find((part) => part.startsWith('{"ready":true')); return line && JSON.parse(line); };
const LOCAL = ["local", "--port", "0", "--dynamodb-port", "0", "--lambda-port", "0", "--cloudwatch-port", "0", "--console-port", "0", "--set", "LeaseSecs=1", "--set", "RequestLifetimeSecs=2", "--set", "CooldownSecs=1"];

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => { const { port } = server.address(); server.close(() => resolve(port)); });
});

/** A page that fails the test if anything in it goes wrong. */
async function open(url, { viewport = WIDE, colorScheme = "light", context: given } = {}) {
  const context = given ?? await browser.newContext({ viewport, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.stack ?? String(error)));
  page.on("console", (message) => { if (/Content Security Policy|Uncaught/.test(message.text())) faults.push(message.text()); });
  page.faults = faults;
  await page.goto(url);
  return page;
}

/** Whatever makes the page hard to use for somebody. */
async function accessible(page, what) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ").slice(0, 400)}`), [], what);
}

/** Looks at a page in both colour schemes and both widths, and takes a picture of each. */
async function everywhere(page, name) {
  for (const scheme of ["light", "dark"]) {
    for (const [width, viewport] of [["wide", WIDE], ["narrow", NARROW]]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize(viewport);
      // Charts take the new width with the next frame.
      await page.waitForFunction(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true)))));
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(beyond <= 0, `${name} ${scheme} ${width}: wider than the window by ${beyond} pixels`);
      await page.screenshot({ path: join(PICTURES, `${name}-${scheme}-${width}.png`) });
      await accessible(page, `${name} ${scheme} ${width}`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(WIDE);
}

const figure = (page, name) => page.locator(".figures > div", { hasText: name }).first().locator("dd");

test("the demo is seen as it happens", { timeout: 600e3 }, async () => {
  const charts = mkdtempSync(join(tmpdir(), "dynashard-"));
  const demo = await start(["demo", "--partition-wcu", "25", "--load", "4", "--steady-secs", "3", "--time-limit-secs", "120", "--keep", "--json", "--logs", "--chart-dir", charts],
    (text) => text.match(/Watch it in a browser: (\S+)/)?.[1]);
  const page = await open(demo.found);

  // Before anything has grown.
  const collection = await open(`${demo.found}/#/c/EWR`);
  await collection.getByRole("heading", { name: "EWR", level: 1 }).waitFor();
  const shards = figure(collection, "Shards");
  await shards.filter({ hasText: /^1 / }).waitFor();
  await collection.screenshot({ path: join(PICTURES, "collection-before.png") });

  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  const weight = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter(({ name }) => !name.includes("/api/")).reduce((sum, entry) => sum + entry.transferSize, 0));
  console.log(`first paint after ${Math.round(paint)} ms, ${weight} bytes`);
  assert.ok(paint < 1000, `first paint after ${paint} ms`);
  assert.ok(weight > 20e3 && weight <= 200e3, `${weight} bytes`);

  await page.getByRole("link", { name: "EWR" }).first().waitFor();
  await page.locator(".decisions").getByText("Hot key").first().waitFor();
  await page.locator(".line.absorbed").first().waitFor();
  await everywhere(page, "overview");

  await shards.filter({ hasText: /^(2|4|8|16) / }).waitFor();
  await collection.locator(".mark-dot").first().waitFor();
  await collection.getByText("The figures as a table").first().click();
  await collection.getByRole("region", { name: /Asked for, absorbed/ }).waitFor();
  await collection.getByText("The figures as a table").first().click();
  await everywhere(collection, "collection");

  await page.getByRole("link", { name: "Decisions", exact: true }).click();
  await page.getByRole("heading", { name: "Decisions", level: 1 }).waitFor();
  await page.getByLabel("Diagnosis").selectOption("hot_key");
  await page.getByLabel("Partition key", { exact: true }).last().fill("EWR");
  await page.keyboard.press("Enter");
  // Others may have followed, which found the change at work.
  const decision = page.locator(".decisions > li", { hasText: "Grows 1 → " }).last();
  await decision.waitFor();
  await decision.getByText(/Asked for [\d,]+ of 25 write units/).waitFor();
  await decision.getByText(/Cost: moves/).waitFor();
  await everywhere(page, "decisions");
  await page.getByLabel("What became of it").selectOption("dry_run");
  await page.getByText("No decision matches.").waitFor();

  // The summary is printed, and the stack stays.
  await Promise.race([
    new Promise((resolve) => { const look = () => (/"ok":true/.test(demo.printed()) ? resolve() : setTimeout(look, 200)); look(); }),
    new Promise((_, reject) => setTimeout(() => reject(new Error(demo.printed().slice(-2000))), 400e3).unref()),
  ]);

  // What it consumes is shown, and what it sampled.
  await collection.getByRole("button", { name: "Sample 1,000 items" }).click();
  await collection.getByText(/The fullest of \d+ shards/).waitFor();
  await collection.getByLabel("Begins with").fill("2013-01-01");
  await collection.getByRole("button", { name: "Query" }).click();
  await collection.getByText(/20 items from \d+ shards/).waitFor();
  await collection.getByRole("button", { name: "Next page" }).click();
  await collection.getByText(/40 items from \d+ shards/).waitFor();
  await collection.locator("details summary code").first().click();
  await collection.getByRole("region", { name: /^Where 2013/ }).getByText(/shard \d+, EWR/).first().waitFor();
  await accessible(collection, "items");

  // This console only looks.
  await collection.getByRole("button", { name: "Change the shard count" }).click();
  await collection.getByRole("button", { name: "Show what it would do" }).click();
  await collection.getByText("This console only looks.").waitFor();
  assert.ok(await collection.getByRole("button", { name: "Change", exact: true }).isDisabled());
  await accessible(collection, "the dialog");
  assert.deepEqual([...page.faults, ...collection.faults], []);
  await end(demo.child);
});

test("a count is changed after a confirmation, and a lost connection comes back", { timeout: 600e3 }, async () => {
  const local = await start([...LOCAL, "--allow-changes"], readyLine);
  const { api, console: address, dynamodb, cloudwatch } = local.found;
  const markup = `<img src=x onerror="document.title='broken'">&amp;`;
  for (const pk of ["orders", markup]) {
    for (const sk of ["1", "<b>2</b>"]) {
      const url = `${api}/item?${new URLSearchParams({ pk, sk })}`;
      const put = await fetch(url, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ note: markup }) });
      assert.equal(put.status, 200);
    }
  }

  const page = await open(`${address}/`);
  await page.getByLabel("Partition key", { exact: true }).fill("orders");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "orders", level: 1 }).waitFor();
  await page.getByRole("button", { name: "Change the shard count" }).click();
  await page.getByLabel("New shard count").fill("3");
  await page.keyboard.press("Enter");
  await page.getByText("1 → 4, which 3 rounds up to").waitFor();
  const change = page.getByRole("button", { name: "Change", exact: true });
  assert.ok(await change.isDisabled(), "nothing was confirmed");
  const confirm = page.getByLabel(/To confirm, type the partition key/);
  await confirm.fill("order");
  assert.ok(await change.isDisabled(), "another collection was named");
  await confirm.fill("orders");
  await everywhere(page, "scale");
  await change.click();
  await page.getByText("The change has begun.").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await figure(page, "Shards").filter({ hasText: /^4 stable/ }).waitFor();
  const state = await (await fetch(`${api}/collection?pk=orders`)).json();
  assert.equal(state.number_of_shards, 4);

  // Keys and items are text, whatever they look like.
  await page.getByRole("searchbox").or(page.getByLabel("Partition key", { exact: true })).first().fill(markup);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: markup, level: 1 }).waitFor();
  await page.getByRole("button", { name: "Query" }).click();
  await page.getByText("2 items from 1 shards").waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  assert.ok(!(await page.title()).startsWith("broken"));

  // A console of its own, which ends and comes back.
  const port = String(await freePort());
  const args = ["console", "--port", port, "--endpoint-url", dynamodb, "--cloudwatch-url", cloudwatch, "--main-table", "MainTable", "--metadata-table", "MetadataTable"];
  const first = await start(args, readyLine);
  const other = await open(`${first.found.console}/#/c/orders`);
  await figure(other, "Shards").filter({ hasText: /^4/ }).waitFor();
  await end(first.child);
  await other.getByText("The connection to the console is lost.").waitFor();
  await everywhere(other, "lost");
  await start(args, readyLine);
  await other.getByText("The connection to the console is lost.").waitFor({ state: "detached" });
  await other.getByText("Live", { exact: true }).waitFor();
  await figure(other, "Shards").filter({ hasText: /^4/ }).waitFor();

  // Tables that are not there: the page says so.
  const wrong = await start(["console", "--port", "0", "--endpoint-url", dynamodb, "--main-table", "Nowhere", "--metadata-table", "MetadataTable"], readyLine);
  const lost = await open(wrong.found.console);
  await lost.getByText("The tables cannot be reached.").waitFor();
  await lost.getByText(/Nowhere/).waitFor();
  await accessible(lost, "no tables");
  assert.deepEqual([...page.faults, ...other.faults, ...lost.faults], []);
  await Promise.all([...running].map((child) => end(child)));
});

test("regression: a page that was opened before the tables were found stayed empty", { timeout: 300e3 }, async () => {
  const local = await start(LOCAL, readyLine);
  const context = await browser.newContext({ viewport: WIDE });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const overview = { now: 1795374531, collections: 0, left_out: 0, series: { from: 1795374000, step: 60, shards: [1], writes: LINES, reads: LINES }, throttles: [[], []], counts_throttles: true, reshards: [], decisions: [], last_hour: null, reads: { per_sec: 0, most_per_sec: 10, total: 0 }, troubles: [], damaged: [] };
  const hello = { session: "1", place: "memory", scaling: "on", allows_changes: false };
  const told = [["waiting", { trouble: null }], ["hello", hello], ["overview", overview]];
  await page.route("**/api/stream*", (route) => route.fulfill({ contentType: "text/event-stream", body: told.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("") }));
  await page.goto(local.found.console);
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  // The link over the page leads into it, and not to another. A page that was just loaded has no focus yet.
  await page.goto("about:blank");
  await page.goto(`${local.found.console}/#/c/orders`);
  const heading = page.getByRole("heading", { name: "orders", level: 1 });
  await heading.waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.id === "main");
  assert.equal(new URL(page.url()).hash, "#/c/orders");
  await heading.waitFor();
  await end(local.child);
});

const LINES = { demand: [1], absorbed: [1], throttled: [0], capacity: [3] };

test("a thousand collections scroll smoothly", { timeout: 300e3 }, async () => {
  const local = await start(LOCAL, readyLine);
  const context = await browser.newContext({ viewport: WIDE, reducedMotion: "reduce" });
  const rows = Array.from({ length: 1000 }, (_, n) => ({
    pk: `tenant-${n}`, shards: 1 + (n % 16), state: "stable", placement: "xxh64", heat: (n % 97) / 97, by: "minute", as_of: 1795374531, read_at: 1795374531,
    writes: { demand: n, capacity: 16000 }, reads: { demand: n, capacity: 48000 }, diagnosis: null, outcome: null, decided: null,
  }));
  const lines = { demand: [1, 2], absorbed: [1, 2], throttled: [0, 0], capacity: [3, 3] };
  const overview = { now: 1795374531, collections: 1000, left_out: 0, series: { from: 1795374000, step: 60, shards: [1, 1], writes: lines, reads: lines }, throttles: [[], []], counts_throttles: true, reshards: [], decisions: [], last_hour: null, reads: { per_sec: 0.4, most_per_sec: 10, total: 12 }, troubles: [], damaged: [] };
  const events = [["hello", { session: "1", place: "test", allows_changes: false, scaling: "on", partition: {}, sort_key_type: "S" }], ["rows", rows], ["overview", overview]];
  await context.route("**/api/stream*", (route) => route.fulfill({ contentType: "text/event-stream", body: events.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("") }));
  const page = await open(local.found.console, { context });
  await page.getByRole("link", { name: "tenant-96", exact: true }).waitFor();
  assert.equal(await page.locator(".line-of").count(), 1001);
  const frames = await page.evaluate(async () => {
    const list = document.querySelector(".cells[aria-label='Collections']");
    list.scrollIntoView();
    const times = [];
    let last = performance.now();
    for (let at = 0; at < list.scrollHeight; at += 400) {
      list.scrollTop = at;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times.sort((one, other) => one - other);
  });
  const at = (part) => frames[Math.min(frames.length - 1, Math.floor(frames.length * part))];
  console.log(`${frames.length} frames: median ${at(0.5).toFixed(1)} ms, 95 % within ${at(0.95).toFixed(1)} ms`);
  assert.ok(at(0.5) <= 34, `the median frame takes ${at(0.5)} ms`);
  await page.getByLabel("Filter by partition key").fill("tenant-99");
  assert.equal(await page.locator(".line-of").count(), 12);
  await end(local.child);
});
