// All collections: what they are asked for, what is changing, what was decided, what it costs.

import { heat, loadChart, recent } from "./charts.js";
import { decisionItems } from "./decisions.js";
import { choice, fill, fillIfChanged, h } from "./dom.js";
import { diagnosis, duration, href, number, percent, short, time, usd } from "./format.js";

export const RANGES = [["live", "5 min"], ["minutes", "30 min"], ["hours", "24 h"], ["days", "3 days"]];

export function overviewPage({ state, setRange }) {
  const chart = loadChart("Asked for, and what the shards take");
  const figures = h("dl", { class: "figures" });
  const reshards = h("div"), throttles = h("div"), decisions = h("div"), cost = h("div");
  const cells = collections(state);
  const parts = [
    h("div", { class: "head" }, h("h1", {}, "Overview"), choice("Time", RANGES, state.range, setRange)),
    h("section", { class: "card", "aria-label": "Now" }, figures),
    h("section", { class: "card" }, chart.figure),
    cells.element,
    h("div", { class: "cards" },
      h("section", { class: "card" }, h("h2", {}, "Changes that run"), reshards),
      h("section", { class: "card" }, h("h2", {}, "Throttles by reason"), throttles),
      h("section", { class: "card" }, h("h2", {}, "The last hour's units"), cost)),
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Last decisions"), h("a", { href: "#/decisions" }, "All decisions")), decisions),
  ];

  function overview(data) {
    chart.show(data.series);
    fillIfChanged(figures, [data.collections, data.reshards.length, cells.hot(), now(data)], () => {
      const { asked, takes, refused } = now(data);
      return [
        figure("Collections", number(data.collections)),
        figure("Above 70 % of their shards", number(cells.hot())),
        figure("Changes that run", number(data.reshards.length)),
        figure("Writes asked for", short(asked), `of ${short(takes)} a second`),
        figure("Throttled", short(refused), "a second"),
      ];
    });
    fillIfChanged(reshards, [data.reshards, data.reshards.length ? data.now : 0], () => data.reshards.length
      ? h("ul", { class: "decisions" }, data.reshards.map((reshard) => changing(reshard, data.now)))
      : h("p", { class: "quiet" }, "No count is changing."));
    fillIfChanged(throttles, [data.throttles, data.counts_throttles], () => refusals(data));
    fillIfChanged(decisions, data.decisions, () => data.decisions.length
      ? decisionItems(data.decisions) : h("p", { class: "quiet" }, "Nothing was decided yet."));
    fillIfChanged(cost, data.last_hour, () => hour(data.last_hour));
    cells.draw();
  }
  return { name: "overview", title: "Overview", element: parts, overview, rows: cells.rows, hello: cells.clear };
}

const figure = (name, value, more) => h("div", {}, h("dt", {}, name), h("dd", {}, value, more ? [" ", h("small", {}, more)] : null));

/** The newest of each line that is known. */
function now({ series: { writes, step } }) {
  return { asked: recent(writes.demand, step), takes: writes.capacity.at(-1), refused: recent(writes.throttled, step) };
}

export function changing(reshard, now) {
  const phases = { forward: "announced: every function learns both counts", move: reshard.closing ? "closing: a last look for late items" : "items move" };
  const left = reshard.eta_secs ?? (reshard.closes_not_before ? Math.max(0, reshard.closes_not_before - now) : null);
  const name = `${reshard.pk} from ${reshard.from} to ${reshard.to} shards`;
  return h("li", {},
    h("p", { class: "what" }, h("a", { href: href(reshard.pk) }, reshard.pk), `${reshard.from} → ${reshard.to} shards`, h("span", { class: "tag" }, reshard.state),
      reshard.then ? h("span", { class: "tag warm" }, `then back to ${reshard.then}`) : null),
    h("progress", { max: 100, value: reshard.percent_done ?? 0, "aria-label": name }),
    h("p", { class: "small quiet" }, [
      phases[reshard.state] ?? reshard.state,
      reshard.percent_done === null ? null : `${reshard.percent_done} % scanned`,
      reshard.items_moved === null ? null : `${number(reshard.items_moved)} items moved`,
      left === null ? null : `closes in about ${duration(left)}`,
    ].filter(Boolean).join(" · ")));
}

const REASONS = {
  partition: "a partition's limit: more shards help", provisioned: "the table's provisioned capacity",
  account: "the account's limit", on_demand: "the table's maximum on demand",
};

function refusals(data) {
  if (!data.counts_throttles) return h("p", { class: "quiet" }, "CloudWatch was not asked yet.");
  const [minutes, hour] = data.throttles;
  if (!hour.length) return h("p", { class: "quiet" }, "Nothing was refused in the last hour.");
  return h("table", {}, h("thead", {}, h("tr", {}, ["Limit", "5 min", "1 h"].map((head, i) => h("th", { scope: "col", class: i ? "num" : null }, head)))),
    h("tbody", {}, hour.map((row) => h("tr", {},
      h("td", {}, h("b", {}, row.access === "write" ? "Writes" : "Reads"), ` ${REASONS[row.reason]}`),
      h("td", { class: "num" }, number(minutes.find((of) => of.access === row.access && of.reason === row.reason)?.count ?? 0)),
      h("td", { class: "num" }, number(row.count))))));
}

function hour(cost) {
  if (!cost) return h("p", { class: "quiet" }, "CloudWatch was not asked yet.");
  const row = (name, of) => h("tr", {}, h("td", {}, name), h("td", { class: "num" }, short(of.write_units)), h("td", { class: "num" }, short(of.read_units)), h("td", { class: "num" }, usd(of.usd)));
  return [
    h("table", {}, h("thead", {}, h("tr", {}, ["", "Writes", "Reads", "On demand"].map((head, i) => h(i ? "th" : "td", { scope: i ? "col" : null, class: i ? "num" : null }, head)))),
      h("tbody", {}, row("Clients", cost.clients), row("The system's own", cost.system))),
    h("p", { class: "small quiet" }, `Over ${duration(cost.over_secs)}. The system's own units are the metadata table's, and five write units for each item that was moved. `, cost.moves_are_known ? null : "The moves of this stack are not told apart, and count as the clients'."),
  ];
}

/** The list of collections, hottest first. A row is made anew only if it has changed. */
function collections(state) {
  const list = h("div", { class: "cells", tabindex: "0", role: "region", "aria-label": "Collections" });
  const table = h("div", { class: "list", role: "table", "aria-label": "Collections by heat" });
  const titles = h("div", { class: "line-of titles", role: "row" }, ["Partition key", "Heat", "Shards", "Writes a second", "Reads a second", "Last decision"].map((name) => h("div", { role: "columnheader" }, name)));
  const known = new Map();
  let wanted = "", order = [], isNew = true;
  const filter = h("input", { type: "search", "aria-label": "Filter by partition key", placeholder: "Filter by partition key", oninput: () => { wanted = filter.value; isNew = true; draw(); } });
  const count = h("span", { class: "small quiet" });
  list.append(table);

  const hot = () => [...state.rows.values()].filter((row) => row.heat >= 0.7).length;

  function draw() {
    if (!isNew) return;
    isNew = false;
    const rows = [...state.rows.values()].filter((row) => row.pk.includes(wanted));
    rows.sort((one, other) => other.heat - one.heat || other.shards - one.shards || (one.pk < other.pk ? -1 : 1));
    for (const row of rows) {
      const before = known.get(row.pk);
      if (before?.row !== row) {
        const line = lineOf(row);
        if (before) before.line.replaceWith(line);
        known.set(row.pk, { row, line });
      }
    }
    const next = rows.map((row) => row.pk);
    if (next.length !== order.length || next.some((pk, i) => pk !== order[i]) || !table.firstChild) {
      // Moving the line that has the focus would lose it.
      const active = document.activeElement?.closest?.(".line-of")?.dataset.pk;
      fill(table, titles, rows.map((row) => known.get(row.pk).line));
      if (active !== undefined && known.has(active)) known.get(active).line.querySelector("a")?.focus({ preventScroll: true });
      order = next;
    }
    fill(count, rows.length === state.rows.size ? `${number(rows.length)} read so far` : `${number(rows.length)} of ${number(state.rows.size)}`);
  }

  const element = h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, "Collections by heat"), h("div", { class: "row" }, count, filter)),
    h("p", { class: "small quiet" }, "Collections that were decided about, that change, or that have more shards than their floor. Heat is the part of what the shards take that clients ask for."),
    list);
  return { element, hot, draw, rows: () => { isNew = true; }, clear: () => { known.clear(); order = []; isNew = true; } };
}

function lineOf(row) {
  const load = (of) => `${short(of.demand)} of ${short(of.capacity)}`;
  const cell = (name, ...children) => h("div", { role: "cell", "data-name": name }, children);
  const as = row.as_of ? `mean of a ${row.by}, as of ${time(row.as_of)}` : "nothing was reported";
  return h("div", { class: "line-of", role: "row", "data-pk": row.pk },
    h("div", { role: "cell", class: "key" }, h("a", { href: href(row.pk), title: row.pk }, row.pk)),
    h("div", { role: "cell", class: "heat", title: as }, heat(row.heat), h("b", {}, row.as_of ? percent(row.heat) : "–")),
    cell("Shards", number(row.shards), row.state === "stable" ? null : [" ", h("span", { class: "tag warm" }, row.state)]),
    cell("Writes", load(row.writes)),
    cell("Reads", load(row.reads)),
    cell("Decision", row.diagnosis ? `${diagnosis(row.diagnosis)}, ${time(row.decided)}` : "–"));
}
