// All collections: what they are asked for, what is changing, what was decided, what it costs.

import { countsOf, heat, loadChart, small } from "./charts.js";
import { decisionItems, marksOf } from "./decisions.js";
import { choice, fill, fillIfChanged, h } from "./dom.js";
import { age, diagnosis, duration, href, number, OVER, percent, short, STAGES, STATES, time, usd } from "./format.js";

export const RANGES = [["live", "5 min"], ["minutes", "30 min"], ["hours", "24 h"], ["days", "3 days"]];
/** Rows of the list before somebody asks for all. */
const FIRST_ROWS = 25;

export function overviewPage({ state, setRange }) {
  const chart = loadChart("Demand vs capacity, all collections");
  const verdict = h("p", { class: "verdict" }), figures = h("dl", { class: "figures" }), hottest = h("div", { class: "hottest" });
  const reshards = h("div"), throttles = h("div"), decisions = h("div"), cost = h("div");
  const cells = collections(state);
  const parts = [
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Overview"), choice("Time", RANGES, state.range, setRange)),
    h("section", { class: "card", "aria-label": "Now" }, verdict, figures),
    h("section", { class: "card" }, h("h2", {}, "Hottest keys"), hottest),
    h("section", { class: "card" }, chart.figure),
    h("section", { class: "card" }, h("h2", {}, "Resharding now"), reshards),
    h("div", { class: "cards" },
      h("section", { class: "card" }, h("h2", {}, "Refused tries by reason"), throttles),
      h("section", { class: "card" }, h("h2", {}, "The last hour's units"), cost)),
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Last decisions"), h("a", { href: "#/decisions" }, "All decisions")), decisions),
    cells.element,
  ];

  function overview(data) {
    const { writes, reads } = data.at_once;
    const rows = [...state.rows.values()], throttled = rows.filter(isThrottled);
    const shown = chart.show(data.series, data.now, marksOf(data.decisions, true));
    fillIfChanged(verdict, [throttled.map(({ pk, unmet }) => [pk, unmet]), data.reshards.length, writes, data.now], () => {
      const lost = writes.demand > 0 && writes.absorbed !== null ? Math.max(0, 1 - writes.absorbed / writes.demand) : null;
      return [
        h("b", { class: throttled.length ? "bad" : "good" }, throttled.length ? `${number(throttled.length)} ${throttled.length === 1 ? "key is" : "keys are"} throttled` : "No key is throttled"),
        throttled.length ? `: ${throttled.slice(0, 3).map(({ pk, unmet }) => `${pk} ${short(unmet)}/s unmet`).join(", ")}` : "",
        ` · ${number(data.reshards.length)} resharding`,
        writes.absorbed === null ? "" : ` · absorbed ${short(writes.absorbed)} write units/s`,
        lost === null ? "" : ` · unmet ${percent(lost)}${writes.by === "second" ? " of the last 10 s" : ""}`,
        writes.as_of ? h("span", { class: "small quiet unbroken" }, ` · as of ${duration(data.now - writes.as_of)} ago`) : ""];
    });
    fillIfChanged(figures, [data.at_once, data.collections, data.reshards.length, cells.hot(), stale(data)], () => [
      figure("Writes absorbed", short(writes.absorbed), `of ${short(writes.capacity)}/s`),
      figure("Writes wanted (estimate)", short(writes.demand), asOf(writes, data.now)),
      figure("Refused write tries", short(writes.refused), writes.counted_as_of ? `/s, minute to ${time(writes.counted_as_of)}` : "/s, 10 s mean"),
      figure("Reads wanted (estimate)", short(reads.demand), `of ${short(reads.capacity)}/s`),
      figure("Keys above 70 %", number(cells.hot())),
      figure("Collections", number(data.collections)),
    ]);
    fillIfChanged(hottest, [data.hottest, data.series.from, data.reshards.map(({ pk }) => pk)], () => (data.hottest.length ? data.hottest.map((of) => h("a", { class: "small-chart", href: href(of.pk) },
      h("b", {}, of.pk), h("span", { class: "quiet small" }, [ofRow(state.rows.get(of.pk), of.access), shards(countsOf(of, shown).slice(data.reshards.some(({ pk }) => pk === of.pk) ? 0 : -1))].filter(Boolean).join(" · ")), small(of, shown))) : h("p", { class: "quiet" }, "Nothing was reported in the last minutes: a key with one shard is reported only while it is throttled.")));
    fillIfChanged(reshards, [data.reshards, data.reshards.length ? data.now : 0], () => data.reshards.length
      ? h("ul", { class: "decisions" }, data.reshards.map(changing))
      : h("p", { class: "quiet" }, "No count is changing."));
    fillIfChanged(throttles, [data.throttles, data.counts_throttles], () => refusals(data));
    fillIfChanged(decisions, data.decisions, () => data.decisions.length
      ? decisionItems(data.decisions, { most: 8 }) : h("p", { class: "quiet" }, "Nothing was decided yet."));
    fillIfChanged(cost, data.last_hour, () => hour(data.last_hour));
    cells.draw(data.now);
  }
  return { name: "overview", title: "Overview", element: parts, overview, rows: cells.rows, hello: cells.clear };
}

const figure = (name, value, more) => h("div", {}, h("dt", {}, name), h("dd", {}, value, more ? [" ", h("small", {}, more)] : null));
const stale = ({ at_once: { writes }, now }) => (writes.by ? age(now, writes.as_of, OVER[writes.by]) : null);
const asOf = ({ by, as_of: at }, now) => (by ? `/s, ${by === "second" ? "10 s" : "minute"} mean${age(now, at, OVER[by]) ? `, ${age(now, at, OVER[by])}` : ""}` : "not reported");
const ofRow = (row, access) => {
  if (!row) return "";
  const { demand, capacity } = row[access];
  return demand === null ? `${isThrottled(row) ? "" : "not throttled, "}capacity ${short(capacity)} ${access}/s` : `${short(demand)} of ${short(capacity)} ${access}/s`;
};
const shards = (counts) => `${counts.map(number).join("→")} ${counts.length === 1 && counts[0] === 1 ? "shard" : "shards"}`;
const isOld = (row, now) => row.as_of !== null && age(now, row.as_of, OVER[row.by]) !== null;
/** More than noise was not granted. Where the demand is not known, it is less than half of the capacity. */
export const isThrottled = (row) => row.unmet !== null && row.unmet >= Math.max(1, 0.05 * ((row.writes.demand ?? row.writes.capacity / 2) + (row.reads.demand ?? 0)));

/** A change that runs: its stages, and how far it is. */
export function changing(reshard) {
  const { pk, from, to, then, stage, percent: done, items_moved: items, items_per_sec: pace, left } = reshard;
  const stages = Object.entries(STAGES), at = stages.findIndex(([code]) => code === stage);
  return h("li", {},
    h("p", { class: "what" }, h("a", { href: href(pk) }, pk), `${from} → ${to} shards`, then ? h("span", { class: "tag warm" }, `then back to ${then}`) : null),
    h("ol", { class: "stages", "aria-label": `${pk} from ${from} to ${to} shards` }, stages.map(([code, name], i) => h("li", { class: i < at ? "over" : null, "aria-current": code === stage ? "step" : null }, name, code === "moving" && code === stage ? ` ${done} %` : null))),
    h("progress", { max: 100, value: done, "aria-label": `Items of ${pk} that were looked at` }),
    h("p", { class: "small quiet" }, [
      items === null ? null : `${number(items)} items moved`,
      pace === null || stage !== "moving" ? null : `${number(pace)} a second`,
      left === null ? null : `closes in ${left[0] === left[1] ? `${duration(left[0])} or a little more` : `${duration(left[0])} to ${duration(left[1])}`}`,
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

const COLUMNS = [
  ["Partition key", (one, other) => (one.pk < other.pk ? -1 : 1)],
  ["Heat", (one, other) => other.heat - one.heat || other.shards - one.shards || (one.pk < other.pk ? -1 : 1)],
  ["Shards", (one, other) => other.shards - one.shards],
  ["Writes/s", (one, other) => (other.writes.demand ?? 0) - (one.writes.demand ?? 0)],
  ["Reads/s", (one, other) => (other.reads.demand ?? 0) - (one.reads.demand ?? 0)],
  ["Unmet/s", (one, other) => (other.unmet ?? 0) - (one.unmet ?? 0)],
  ["Last decision", (one, other) => (other.decided ?? 0) - (one.decided ?? 0)],
];

/** The list of collections, hottest first. A row is made anew only if it has changed. */
function collections(state) {
  const list = h("div", { class: "list", role: "table", "aria-label": "Collections by heat" });
  const known = new Map();
  let wanted = "", order = [], isNew = true, by = 1, isAll = false, now = 0;
  const again = () => { isNew = true; draw(now); };
  const filter = h("input", { type: "search", "aria-label": "Filter by partition key", placeholder: "Filter by partition key", oninput: () => { wanted = filter.value; again(); } });
  const count = h("span", { class: "small quiet" });
  const all = h("button", { type: "button", hidden: true, onclick: () => { isAll = true; list.classList.add("all"); again(); } });
  const heads = COLUMNS.map(([name], i) => h("div", { role: "columnheader", "aria-sort": i === by ? "descending" : "none", class: i > 1 && i < 6 ? "num" : null }, h("button", { type: "button", onclick: () => {
    by = i;
    heads.forEach((head, j) => head.setAttribute("aria-sort", j === i ? (i ? "descending" : "ascending") : "none"));
    again();
  } }, name)));
  const titles = h("div", { class: "line-of titles", role: "row" }, heads);

  const hot = () => [...state.rows.values()].filter((row) => row.heat >= 0.7 && !isOld(row, now)).length;

  function draw(at) {
    now = at;
    if (!isNew && ![...known.values()].some(({ row, old }) => isOld(row, now) !== old)) return;
    isNew = false;
    const rows = [...state.rows.values()].filter((row) => row.pk.includes(wanted));
    // What is old says nothing of who is hot now.
    rows.sort((one, other) => (by === 1 ? isOld(one, now) - isOld(other, now) : 0) || COLUMNS[by][1](one, other));
    const shown = isAll ? rows : rows.slice(0, FIRST_ROWS);
    for (const row of shown) {
      const before = known.get(row.pk), old = isOld(row, now);
      if (before?.row !== row || before.old !== old) {
        const line = lineOf(row, now);
        if (before) before.line.replaceWith(line);
        known.set(row.pk, { row, line, old });
      }
    }
    const next = shown.map((row) => row.pk);
    if (next.length !== order.length || next.some((pk, i) => pk !== order[i]) || !list.firstChild) {
      // Moving the line that has the focus would lose it.
      const active = document.activeElement?.closest?.(".line-of"), isHead = active === titles && document.activeElement;
      fill(list, titles, shown.map((row) => known.get(row.pk).line));
      if (isHead) isHead.focus({ preventScroll: true });
      else if (known.has(active?.dataset.pk)) known.get(active.dataset.pk).line.querySelector("a")?.focus({ preventScroll: true });
      order = next;
    }
    all.hidden = shown.length === rows.length;
    fill(all, `Show all ${number(rows.length)}`);
    fill(count, rows.length === state.rows.size ? `${number(rows.length)} read so far` : `${number(rows.length)} of ${number(state.rows.size)}`);
  }

  const element = h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, "Collections by heat"), h("div", { class: "row" }, count, filter)),
    h("p", { class: "small quiet" }, "Collections that were decided about, that change, or that have more shards than their floor. Heat is the part of the capacity that clients want: the marks of a bar are at 70 and 100 %, and its end at 150 %."),
    list, h("div", {}, all));
  return { element, hot, draw, rows: () => { isNew = true; }, clear: () => { known.clear(); order = []; isNew = true; } };
}

function lineOf(row, now) {
  const cell = (name, more, ...children) => h("div", { role: "cell", "data-name": name, class: more }, children);
  const load = ({ demand, capacity }) => [short(demand), h("span", { class: "quiet" }, ` | ${short(capacity)}`)];
  const old = isOld(row, now), hot = !old && isThrottled(row);
  const state = old ? age(now, row.as_of, OVER[row.by]) : hot ? "▲ throttled" : row.heat >= 0.7 ? "△ near" : null;
  return h("div", { class: old ? "line-of old" : "line-of", role: "row", "data-pk": row.pk },
    h("div", { role: "cell", class: "key" }, h("a", { href: href(row.pk), title: row.pk }, row.pk)),
    h("div", { role: "cell", class: "heat" }, heat(row.heat, hot), h("b", {}, row.as_of ? percent(row.heat) : "–"), h("span", { class: hot ? "bad state" : "quiet state" }, state)),
    cell("Shards", "num", number(row.shards), row.state === "stable" ? null : [" ", h("span", { class: "tag" }, STATES[row.state] ?? row.state)]),
    cell("Writes", "num", load(row.writes)),
    cell("Reads", "num", load(row.reads)),
    cell("Unmet", "num", old ? "–" : short(row.unmet)),
    cell("Decision", null, row.diagnosis ? `${row.changed ? row.changed.join(" → ") : diagnosis(row.diagnosis)}, ${time(row.decided)}` : "–"));
}
