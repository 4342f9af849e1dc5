// One collection: its load over time, its counts, its decisions, its items.

import { bars, loadChart } from "./charts.js";
import { decisionItems, marksOf } from "./decisions.js";
import { choice, fill, fillIfChanged, h, table } from "./dom.js";
import { age, number, OVER, percent, short, STATES, time } from "./format.js";
import { changing, isThrottled, RANGES } from "./overview.js";
import { openScale } from "./scale.js";
import { post } from "./server.js";

export function collectionPage(pk, { state, setRange }) {
  const chart = loadChart("Demand vs capacity");
  const trouble = h("div"), figures = h("dl", { class: "figures" });
  const running = h("div"), decisions = h("div"), history = h("div"), metadata = h("div");
  let last = null;
  const scale = h("button", { type: "button", onclick: () => openScale(pk, { details: last, allows: state.hello?.allows_changes, isLost: () => state.lost !== null }) });
  const known = h("div", { class: "parts" });

  /** Nothing is asked for while nobody answers, and nothing of what is not there. */
  function connection() {
    const allows = state.hello?.allows_changes;
    scale.classList.toggle("main", Boolean(allows));
    fill(scale, allows ? "Change the shard count" : "What would another count do?");
    scale.disabled = state.lost !== null;
    scale.hidden = !last || last.is_nowhere;
  }

  function details(data) {
    last = data;
    connection();
    known.hidden = data.is_nowhere;
    fillIfChanged(trouble, [data.trouble, data.is_nowhere], () => data.is_nowhere
      ? h("section", { class: "card" }, h("p", {}, "There are no items under this partition key, and its shard count was never changed. Is it spelled as the items have it? It appears here with its first item."))
      : data.trouble ? h("p", { class: "notice" }, h("b", {}, "The collection cannot be read. "), data.trouble.detail) : null);
    const { row, collection, more } = data;
    chart.show(data.series, data.now, [...marksOf(data.decisions), ...changesOf(collection)].sort((one, other) => one.at - other.at));
    const old = row?.as_of ? age(data.now, row.as_of, OVER[row.by]) : null;
    fillIfChanged(figures, [row, more, old], () => (row ? [
      ["Shards", number(row.shards), STATES[row.state] ?? row.state],
      ["Writes wanted (estimate)", short(row.writes.demand), `of ${short(row.writes.capacity)}/s capacity`, old],
      ["Reads wanted (estimate)", short(row.reads.demand), `of ${short(row.reads.capacity)}/s capacity`, old],
      ["Heat", row.as_of ? percent(row.heat) : "–", row.as_of ? `${row.by === "second" ? "10 s" : "minute"} mean, ${old ?? `to ${time(row.as_of)}`}` : "nothing was reported", old],
      ["Unmet", old || !isThrottled(row) ? "–" : short(row.unmet), isThrottled(row) ? "units/s, 4 s mean" : row.unmet === null ? "while it is throttled" : "not throttled", old],
    ] : ["Shards", "Writes wanted (estimate)", "Reads wanted (estimate)", "Heat"].map((name) => [name, "–", "not read yet"])).map(([name, value, small, isOld]) => h("div", { class: isOld ? "old" : null }, h("dt", {}, name), h("dd", {}, value, " ", h("small", {}, small)))));
    const reshard = collection?.reshard;
    const counts = state.overview?.reshards.find((of) => of.pk === pk);
    fillIfChanged(running, [reshard, counts, counts ? data.now : 0], () => counts ? h("section", { class: "card" }, h("h2", {}, "Resharding now"), h("ul", { class: "decisions" }, changing(counts))) : null);
    fillIfChanged(decisions, data.decisions, () => data.decisions.length ? decisionItems(data.decisions, { isOfOne: true }) : h("p", { class: "quiet" }, "Nothing was decided about it."));
    fillIfChanged(history, collection?.shard_history, () => collection?.shard_history?.length
      ? table("Shard counts", ["Since", "Shards"], collection.shard_history.map(({ at, count }, i) => [i || collection.shard_history.length > 19 ? time(at, true) : "the first write", count]).toReversed())
      : h("p", { class: "quiet" }, collection ? "Its count was never changed: it has one shard, and no item in the metadata table." : "Not read yet."));
    fillIfChanged(metadata, [collection, more, data.may_grow, data.damaged_figures, data.read_at], () => facts(data));
  }

  /** No collection can have this key. */
  function refused({ detail }) {
    known.hidden = true;
    fill(trouble, h("section", { class: "card" }, h("p", {}, `No collection can have this partition key: ${detail}.`)));
  }

  known.append(
    h("section", { class: "card", "aria-label": "Now" }, figures),
    h("section", { class: "card" }, chart.figure),
    running,
    h("section", { class: "card" }, h("h2", {}, "Decisions"), decisions),
    h("div", { class: "cards" },
      h("section", { class: "card" }, h("h2", {}, "Metadata"), metadata),
      h("div", { class: "parts" }, h("section", { class: "card" }, h("h2", {}, "History"), history), balance(pk))),
    items(pk));
  connection();
  return {
    name: "collection", title: pk, pk, details, refused, connection, hello: connection,
    element: [
      h("div", {}, h("a", { class: "back", href: "#/" }, "← Overview"), h("div", { class: "head" }, h("h1", { tabindex: "-1" }, pk), h("div", { class: "row" }, choice("Time", RANGES, state.range, setRange), scale))),
      trouble, known],
  };
}

/** Counts that came into force and the last close, as marks: who changes a count by hand is in no decision. */
function changesOf(collection) {
  const { shard_history: history = [], state, last_updated: last } = collection ?? {};
  const changes = history.slice(1).map(({ at, count }) => ({ at, label: `${count} in force`, text: `${count} shards in force` }));
  const isClosed = changes.length > 0 && state === "stable" && last > changes.at(-1).at;
  return isClosed ? [...changes, { at: last, label: "closed", text: `the change to ${history.at(-1).count} shards has closed` }] : changes;
}

function facts({ collection, more, may_grow: mayGrow, max_shards: max, damaged_figures: damaged, read_at: at }) {
  if (!collection) return h("p", { class: "quiet" }, "Not read yet.");
  const yes = (value) => (value ? "yes" : "no");
  const rows = [
    ["Placement", collection.placement], ["State", STATES[collection.state] ?? collection.state], ["Generation", number(collection.generation)],
    ["Floor of shrinking", number(more.min_shards)], ["Most shards ever", number(more.largest_count)], ["Most that the stack allows", number(max)],
    ["Items that the last change moved", more.cleanup_pending || collection.state !== "stable" ? "counted when it is over" : number(more.items_moved)], ["Items at the last change, about", more.estimated_items ? number(more.estimated_items) : "not known"],
    ["May grow by itself (GrowKeys)", yes(mayGrow)], ["Markers are being removed", yes(more.cleanup_pending)],
    ["Last changed", collection.last_updated ? time(collection.last_updated, true) : "never"], ["Read by the console", at ? time(at) : "–"],
  ];
  if (collection.epochs?.length > 1) rows.push(["Epochs", collection.epochs.map(({ from, number_of_shards: n }) => `${n === 1 ? "1 shard" : `${n} shards`}${from === null ? "" : ` behind ${from}`}`).join(", ")]);
  if (damaged) rows.push(["Damaged figures in its ledgers", number(damaged)]);
  return table("Metadata", ["Name", "Value"], rows);
}

function balance(pk) {
  const shown = h("div", { "aria-live": "polite" }, h("p", { class: "small quiet" }, "The keys of the first 1,000 items tell how evenly items spread. Reading them takes read units."));
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true;
    try {
      const { items, sampled, is_all: isAll, consumed_rcu: rcu } = await post("/api/balance", { pk });
      const mean = sampled / items.length, chance = 2 * Math.sqrt(mean);
      const worst = mean ? Math.max(...items) / mean : 0;
      const isChance = Math.max(...items) <= mean + 1.5 * chance;
      fill(shown, bars("Items by shard", items),
        h("p", { class: "small quiet" }, `${isAll ? "All" : "The first"} ${number(sampled)} items for ${number(rcu, 1)} read units. The fullest of ${number(items.length)} shards has ${number(worst, 2)} times the mean, which is ${isChance ? "within" : "more than"} what chance gives in a sample of this size.`));
    } catch (error) { fill(shown, h("p", { class: "notice" }, error.message)); }
    button.disabled = false;
  } }, "Sample 1,000 items");
  return h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Balance"), button), shown);
}

function items(pk) {
  let asked = null, rcu = 0, count = 0;
  const list = h("ul", { class: "decisions" });
  const note = h("p", { class: "small quiet", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => page() }, "Next page");
  const input = (name, properties = {}) => h("input", { name, autocomplete: "off", spellcheck: "false", ...properties });
  const select = (name, options) => h("select", { name }, options.map((value) => h("option", { value }, value)));
  const form = h("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); begin(); } },
    h("label", {}, "Begins with", input("begins_with")), h("label", {}, "From", input("from")), h("label", {}, "To", input("to")),
    h("label", {}, "Order", select("order", ["asc", "desc"])), h("label", {}, "Limit", input("limit", { type: "number", min: 1, max: 1000, value: 20 })),
    h("label", {}, "Strategy", select("strategy", ["ordered", "parallel", "round-robin", "sequential"])),
    h("label", {}, "Fields", input("fields", { placeholder: "a, b" })), h("label", {}, "Cursor", input("cursor")),
    h("label", { class: "tick" }, h("input", { type: "checkbox", name: "consistent" }), "Consistent"),
    h("button", { class: "main" }, "Query"));

  function begin() {
    // Texts all of them: a number sort key has more digits than a number here keeps.
    asked = { pk, ...Object.fromEntries(new FormData(form)), consistent: form.elements.consistent.checked };
    rcu = 0; count = 0;
    fill(list);
    page();
  }

  async function page() {
    const mine = asked;
    more.disabled = true;
    try {
      const answer = await post("/api/query", mine);
      // Another query was begun meanwhile.
      if (mine !== asked) return;
      rcu += answer.consumed_rcu; count += answer.items.length;
      list.append(...answer.items.map((item) => itemOf(pk, item)));
      asked = { ...asked, cursor: answer.cursor ?? "" };
      more.hidden = answer.cursor === null;
      fill(note, `${number(count)} items from ${number(answer.shards)} ${answer.shards === 1 ? "shard" : "shards"}, ${number(answer.items_read)} read for the last page, ${number(rcu, 1)} read units.${answer.cursor === null ? " That is all." : ""}`);
    } catch (error) {
      if (mine !== asked) return;
      // A page that is refused for now may be asked for again; a cursor that is no longer taken leads nowhere.
      more.hidden = !asked.cursor || /cursor/.test(error.code ?? "");
      fill(note, h("span", { class: "notice" }, error.message));
    }
    more.disabled = false;
  }

  return h("section", { class: "card" }, h("h2", {}, "Items"), form, note, list, h("div", {}, more));
}

function itemOf(pk, { sk, text }) {
  const shown = h("div");
  const opened = h("details", {}, h("summary", {}, h("code", {}, sk), h("span", { class: "small quiet preview" }, text)), h("pre", {}, spaced(text)), shown);
  opened.addEventListener("toggle", async () => {
    if (!opened.open || shown.firstChild) return;
    try {
      const of = await post("/api/item", { pk, sk });
      const home = (at) => (at ? `shard ${at.shard}, ${at.partition}` : "any shard: each write draws it");
      const shards = (count) => `${number(count)} ${count === 1 ? "shard" : "shards"}`;
      const rows = [[`Now (${shards(of.count)})`, home(of.home)], ...(of.moving_to ? [["It moves to", home(of.moving_to)]] : []),
        ...of.before.map((before) => [`From ${time(before.at, true)} (${shards(before.count)})`, home(before.home)])];
      fill(shown, table(`Where ${sk} lies`, ["When", "Physical partition key"], rows), h("p", { class: "small quiet" }, `Generation ${number(of.generation)} · ETag ${of.etag} · ${number(of.consumed_rcu, 1)} read units for this`));
    } catch (error) { fill(shown, h("p", { class: "notice" }, error.message)); }
  });
  return h("li", {}, opened);
}

/** An item on lines of its own. It stays text: its numbers have more digits than a number here keeps. */
function spaced(text) {
  let depth = 0;
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g, (part) => {
    const line = () => `\n${"  ".repeat(depth)}`;
    if (part === "{" || part === "[") { depth += 1; return part + line(); }
    if (part === "}" || part === "]") { depth -= 1; return line() + part; }
    return part === "," ? part + line() : part === ":" ? ": " : part;
  });
}
