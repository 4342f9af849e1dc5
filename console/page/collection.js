// One collection: its load over time, its counts, its decisions, its items.

import { bars, loadChart } from "./charts.js";
import { decisionItems } from "./decisions.js";
import { choice, fill, fillIfChanged, h, table } from "./dom.js";
import { diagnosis, number, percent, short, time } from "./format.js";
import { changing, RANGES } from "./overview.js";
import { openScale } from "./scale.js";
import { post } from "./server.js";

export function collectionPage(pk, { state, setRange }) {
  const chart = loadChart("Asked for, absorbed and throttled");
  const trouble = h("div"), figures = h("dl", { class: "figures" });
  const running = h("div"), decisions = h("div"), history = h("div"), metadata = h("div");
  let last = null;
  const scale = h("button", { type: "button", class: "main", onclick: () => openScale(pk, last) }, "Change the shard count");

  function details(data) {
    last = data;
    fillIfChanged(trouble, data.trouble, () => data.trouble ? h("p", { class: "notice" }, h("b", {}, "The collection cannot be read. "), data.trouble.detail) : null);
    const { row, collection, more } = data;
    const marks = data.decisions.filter((of) => of.outcome !== "nothing_to_do").map((of) => ({ at: of.at, text: `${diagnosis(of.diagnosis)}: ${of.from} → ${of.to ?? of.from}` }));
    chart.show(data.series, marks);
    fillIfChanged(figures, [row, more], () => (row ? [
      ["Shards", number(row.shards), row.state === "stable" ? "stable" : row.state],
      ["Writes asked for", short(row.writes.demand), `of ${short(row.writes.capacity)} a second`],
      ["Reads asked for", short(row.reads.demand), `of ${short(row.reads.capacity)} a second`],
      ["Heat", row.as_of ? percent(row.heat) : "–", row.as_of ? `a ${row.by}'s mean, ${time(row.as_of)}` : "nothing was reported"],
    ] : ["Shards", "Writes asked for", "Reads asked for", "Heat"].map((name) => [name, "–", "not read yet"])).map(([name, value, small]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, " ", h("small", {}, small)))));
    const reshard = collection?.reshard;
    const counts = state.overview?.reshards.find((of) => of.pk === pk);
    fillIfChanged(running, [reshard, counts, counts ? data.now : 0], () => counts ? h("section", { class: "card" }, h("h2", {}, "The change that runs"), h("ul", { class: "decisions" }, changing(counts, data.now))) : null);
    fillIfChanged(decisions, data.decisions, () => data.decisions.length ? decisionItems(data.decisions, { isOfOne: true }) : h("p", { class: "quiet" }, "Nothing was decided about it."));
    fillIfChanged(history, collection?.shard_history, () => collection?.shard_history?.length
      ? table("Shard counts", ["Since", "Shards"], collection.shard_history.toReversed().map(({ at, count }) => [time(at, true), count]))
      : h("p", { class: "quiet" }, collection ? "Its count was never changed: it has one shard, and no item in the metadata table." : "Not read yet."));
    fillIfChanged(metadata, [collection, more, data.may_grow, data.damaged_figures, data.read_at], () => facts(data));
  }

  return {
    name: "collection", title: pk, pk, details,
    element: [
      h("div", {}, h("a", { class: "back", href: "#/" }, "← Overview"), h("div", { class: "head" }, h("h1", {}, pk), h("div", { class: "row" }, choice("Time", RANGES, state.range, setRange), scale))),
      trouble,
      h("section", { class: "card", "aria-label": "Now" }, figures),
      h("section", { class: "card" }, chart.figure),
      running,
      h("div", { class: "cards" },
        h("section", { class: "card" }, h("h2", {}, "Decisions"), h("div", { class: "cells", tabindex: "0", role: "region", "aria-label": "Decisions" }, decisions)),
        h("div", { class: "cards" },
          h("section", { class: "card" }, h("h2", {}, "History"), history),
          h("section", { class: "card" }, h("h2", {}, "Metadata"), metadata),
          balance(pk))),
      items(pk)],
  };
}

function facts({ collection, more, may_grow: mayGrow, max_shards: max, damaged_figures: damaged, read_at: at }) {
  if (!collection) return h("p", { class: "quiet" }, "Not read yet.");
  const yes = (value) => (value ? "yes" : "no");
  const rows = [
    ["Placement", collection.placement], ["State", collection.state], ["Generation", number(collection.generation)],
    ["Floor of shrinking", number(more.min_shards)], ["Most shards ever", number(more.largest_count)], ["Most that the stack allows", number(max)],
    ["Items that the last change moved", number(more.items_moved)], ["Items, about", more.estimated_items ? number(more.estimated_items) : "not known"],
    ["May grow by itself (GrowKeys)", yes(mayGrow)], ["Markers are being removed", yes(more.cleanup_pending)],
    ["Last changed", collection.last_updated ? time(collection.last_updated, true) : "never"], ["Read by the console", at ? time(at) : "–"],
  ];
  if (damaged) rows.push(["Damaged figures in its ledgers", number(damaged)]);
  return table("Metadata", ["Name", "Value"], rows);
}

function balance(pk) {
  const shown = h("div", { "aria-live": "polite" }, h("p", { class: "small quiet" }, "The keys of the first 1,000 items tell how evenly items spread. Reading them takes read units."));
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true;
    try {
      const { items, sampled, is_all: isAll, consumed_rcu: rcu } = await post("/api/balance", { pk });
      const mean = sampled / items.length;
      const worst = mean ? Math.max(...items) / mean : 0;
      fill(shown, bars("Items by shard", items.map((count, shard) => [shard, count])),
        h("p", { class: "small quiet" }, `${isAll ? "All" : "The first"} ${number(sampled)} items for ${number(rcu, 1)} read units. The fullest of ${number(items.length)} shards has ${number(worst, 2)} times the mean.`));
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
    more.disabled = true;
    try {
      const answer = await post("/api/query", asked);
      rcu += answer.consumed_rcu; count += answer.items.length;
      list.append(...answer.items.map((item) => itemOf(pk, item)));
      asked = { ...asked, cursor: answer.cursor ?? "" };
      more.hidden = answer.cursor === null;
      fill(note, `${number(count)} items from ${number(answer.shards)} shards, ${number(answer.items_read)} read for the last page, ${number(rcu, 1)} read units.${answer.cursor === null ? " That is all." : ""}`);
    } catch (error) {
      more.hidden = true;
      fill(note, h("span", { class: "notice" }, error.message));
    }
    more.disabled = false;
  }

  return h("section", { class: "card" }, h("h2", {}, "Items"), form, note, list, h("div", {}, more));
}

function itemOf(pk, { sk, text }) {
  const shown = h("div");
  const opened = h("details", {}, h("summary", {}, h("code", {}, sk)), h("pre", {}, text), shown);
  opened.addEventListener("toggle", async () => {
    if (!opened.open || shown.firstChild) return;
    try {
      const of = await post("/api/item", { pk, sk });
      const home = (at) => (at ? `shard ${at.shard}, ${at.partition}` : "any shard: each write draws it");
      const rows = [[`Now (${of.count} shards)`, home(of.home)], ...(of.moving_to ? [["It moves to", home(of.moving_to)]] : []),
        ...of.before.map((before) => [`From ${time(before.at, true)} (${before.count} shards)`, home(before.home)]),
        ["Generation", number(of.generation)], ["ETag", of.etag], ["Read units that this took", number(of.consumed_rcu, 1)]];
      fill(shown, table(`Where ${sk} lies`, ["When", "Physical partition key"], rows));
    } catch (error) { fill(shown, h("p", { class: "notice" }, error.message)); }
  });
  return h("li", {}, opened);
}
