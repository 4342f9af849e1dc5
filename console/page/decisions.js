// What was decided: diagnosis, evidence, action, reason, cost.

import { fill, h } from "./dom.js";
import { DIAGNOSES, diagnosis, href, number, outcome, percent, short, time, usd } from "./format.js";
import { get } from "./server.js";

/** The last second that a date can say. */
const LAST = 8.64e12;

/** Reports that came while a change ran, with the change that they found at work. */
function folded(decisions) {
  const out = [], waiting = new Map();
  for (const decision of decisions) {
    const { pk, outcome: what, hindrance } = decision;
    const later = waiting.get(pk) ?? waiting.set(pk, []).get(pk);
    if (what === "nothing_to_do" && (hindrance === "running" || hindrance === "cooldown")) later.push(decision);
    else out.push({ decision, later: what === "begun" ? later.splice(0) : [] });
  }
  // Their change is among the decisions that are not here.
  for (const [decision, ...later] of waiting.values()) if (decision) out.push({ decision, later });
  return out.sort((one, other) => (other.later[0] ?? other.decision).last - (one.later[0] ?? one.decision).last);
}

/** What was begun, as marks of a chart. */
export function marksOf(decisions, isOfAll = false) {
  return decisions.filter((of) => of.outcome === "begun").map((of) => {
    const counts = `${of.from}→${of.to ?? of.from}`;
    return { at: of.at, label: isOfAll ? `${of.pk.slice(0, 12)} ${counts}` : counts, text: `${diagnosis(of.diagnosis)}: ${isOfAll ? `${of.pk} ` : ""}announced ${counts}` };
  });
}

/** Decisions as a list. */
export function decisionItems(decisions, { isOfOne = false, most } = {}) {
  return h("ul", { class: "decisions" }, folded(decisions).slice(0, most).map(({ decision, later }) => {
    const [text, kind] = outcome(decision);
    const unit = decision.access === "write" ? "write units" : "read units";
    const evidence = decision.demand
      ? `Wanted ${number(decision.demand)}, granted ${number(decision.granted)} ${unit} a second before; capacity ${number(decision.capacity)}`
      : `Capacity ${number(decision.capacity)} ${unit} a second`;
    const reports = later.reduce((sum, of) => sum + of.times, 0);
    return h("li", {},
      h("p", { class: "what" },
        h("time", { class: "small quiet", datetime: new Date(Math.min(decision.last, LAST) * 1000).toISOString() }, time(decision.last)),
        // No collection has a reserved key, so there is no page of one.
        isOfOne ? null : decision.pk.startsWith("_ds_") ? h("span", {}, decision.pk) : h("a", { href: href(decision.pk) }, decision.pk),
        h("span", { class: `tag ${kind}` }, text),
        h("b", {}, diagnosis(decision.diagnosis)),
        decision.times > 1 ? h("span", { class: "small quiet" }, `noted ${number(decision.times)} times since ${time(decision.at)}`) : null,
        reports ? h("span", { class: "small quiet" }, `${number(reports)} later ${reports === 1 ? "report" : "reports"} while it ran`) : null),
      h("p", { class: "small quiet" }, [
        evidence,
        decision.hottest_percent ? `hottest item ${decision.hottest_percent} %` : null,
        `by the ${decision.by}`,
        decision.bound ? `bounded by ${{ max_shards: "MaxShards", step: "sixteen times at once" }[decision.bound] ?? decision.bound}` : null,
      ].filter(Boolean).join(" · ")),
      decision.cost ? h("p", { class: "small quiet" }, cost(decision)) : null,
      h("details", {}, h("summary", {}, "Why"), h("p", {}, sentence(decision.reason)), h("p", { class: "small quiet" }, DIAGNOSES[decision.diagnosis]?.[1] ?? "")));
  }));
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function cost({ cost: of, outcome: what }) {
  const verb = what === "begun" ? "Moves" : "Would move";
  const items = of.share_moved === 0 ? "nothing" : of.items_moved === null ? `${percent(of.share_moved)} of the items, at 5 write units each`
    : `${of.is_counted ? "" : "at least "}${number(of.items_moved)} items for ${of.is_counted ? "" : "at least "}${short(of.write_units)} write units (${usd(of.usd)})`;
  const queries = of.shards_more > 0 ? `; each query reads ${number(of.shards_more)} shards more` : `; each query reads ${number(-of.shards_more)} shards fewer`;
  return `Cost: ${verb.toLowerCase()} ${items}${queries}.`;
}

export function decisionsPage(query, { state }) {
  let asked = "", newest = null;
  const list = h("div"), heard = h("p", { class: "unseen", role: "status" });
  let seen = null;
  const count = h("p", { class: "small quiet" });
  const pk = h("input", { name: "pk", autocomplete: "off", spellcheck: "false", value: query.get("pk") ?? "" });
  const option = (value, text) => h("option", { value }, text);
  const kind = h("select", { name: "diagnosis" }, option("", "All"), Object.entries(DIAGNOSES).map(([code, [name]]) => option(code, name)));
  const became = h("select", { name: "outcome" }, option("", "All"), option("begun", "Begun"), option("dry_run", "Dry run: what would have been done"), option("nothing_to_do", "Nothing was done"), option("overtaken", "Overtaken"));
  const form = h("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); load(); }, onchange: () => load() },
    h("label", {}, "Partition key", pk), h("label", {}, "Diagnosis", kind), h("label", {}, "What became of it", became));

  async function load() {
    const of = { pk: pk.value, diagnosis: kind.value, outcome: became.value };
    asked = JSON.stringify(of);
    const mine = asked;
    try {
      const { decisions } = await get("/api/decisions", of);
      if (mine !== asked) return;
      fill(count, `${number(decisions.length)} ${decisions.length === 1 ? "decision" : "decisions"}${decisions.length === 500 ? ", the newest" : ""}. Of each collection the last 30 are kept.`);
      // The whole list would be read again for each of them.
      const keys = new Set(decisions.map(({ pk: of, at, diagnosis: kindOf, outcome: what }) => `${of} ${at} ${kindOf} ${what}`));
      const added = seen?.asked === mine ? [...keys].filter((key) => !seen.keys.has(key)).length : 0;
      if (added) fill(heard, `${number(added)} new ${added === 1 ? "decision" : "decisions"}`);
      seen = { asked: mine, keys };
      fill(list, decisions.length ? decisionItems(decisions) : h("p", { class: "quiet" }, "No decision matches."));
    } catch (error) {
      if (mine === asked) fill(list, h("p", { class: "notice" }, error.message));
    }
  }
  load();
  return {
    name: "decisions", title: "Decisions",
    element: [
      h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Decisions")),
      h("section", { class: "card", "aria-label": "Filter" }, form),
      h("section", { class: "card", "aria-label": "Decisions" }, count, heard, list)],
    overview(data) {
      const now = JSON.stringify(data.decisions);
      if (now !== newest) { newest = now; load(); }
    },
    state,
  };
}
