// Another shard count: first what it would do, then a confirmation that names the collection.

import { fill, h, table } from "./dom.js";
import { between, duration, number, percent, short, usd } from "./format.js";
import { post } from "./server.js";

const ACTIONS = {
  none: "It has this count already.", keep: "A change to this count runs already.", turn_round: "The change that runs turns round when it has closed.",
};

export function openScale(pk, { details, allows, isLost }) {
  // A line break cannot be typed into a field.
  const typed = /\p{Cc}/u.test(pk) ? JSON.stringify(pk).slice(1, -1) : pk;
  const shown = h("div", { "aria-live": "polite" });
  const count = h("input", { name: "count", type: "number", min: 1, max: 65536, value: (details?.row?.shards ?? 1) * 2, required: true });
  const confirm = h("input", { name: "confirm", autocomplete: "off", spellcheck: "false", oninput: () => ready() });
  const act = h("button", { type: "button", class: "main", disabled: true, onclick: () => scale() }, "Change");
  const sure = h("div", { class: "field", hidden: true }, h("label", { for: "confirm-key" }, "To confirm, type the partition key: ", h("code", {}, typed)), confirm);
  confirm.id = "confirm-key";
  let plan = null;
  const dialog = h("dialog", { "aria-labelledby": "scale-title" },
    h("form", { onsubmit: (event) => { event.preventDefault(); look(); } },
      h("h2", { id: "scale-title" }, `Shards of ${pk}`),
      h("div", { class: "row low" }, h("label", { class: "field" }, "New shard count", count), h("button", {}, "Show what it would do")),
      shown, sure,
      h("div", { class: "row" }, allows ? act : null, h("button", { type: "button", onclick: () => dialog.close() }, "Close"))));
  count.addEventListener("input", () => { plan = null; sure.hidden = true; ready(); fill(shown); });
  dialog.addEventListener("close", () => dialog.remove());

  const ready = () => { act.disabled = !plan || confirm.value !== typed || isLost(); };

  async function look() {
    const asked = count.value;
    try {
      const answer = await post("/api/plan", { pk, number_of_shards: Number(asked) });
      // It is about another count than the field has now.
      if (count.value !== asked) return;
      plan = answer.plan;
      const changes = !ACTIONS[plan.action] || plan.action === "turn_round";
      fill(shown, table("What it would do", ["What", "Figure"], rows(plan, answer)), ACTIONS[plan.action] ? h("p", {}, ACTIONS[plan.action]) : null,
        changes && !answer.allows_changes ? h("p", { class: "notice" }, "This console only looks. Start it with ", h("code", {}, "--allow-changes"), " to change counts.") : null);
      sure.hidden = !(changes && answer.allows_changes);
      if (!sure.hidden) confirm.focus(); else plan = null;
    } catch (error) {
      if (count.value !== asked) return;
      plan = null;
      sure.hidden = true;
      fill(shown, h("p", { class: "notice" }, error.message));
    }
    ready();
  }

  async function scale() {
    act.disabled = true;
    try {
      await post("/api/scale", { pk, number_of_shards: plan.to, confirm: pk });
      plan = null;
      sure.hidden = true;
      confirm.value = "";
      const begun = h("p", { tabindex: "-1" }, "The change has begun. This page shows how far it is; items stay readable and writable meanwhile.");
      fill(shown, begun);
      begun.focus();
    } catch (error) { fill(shown, h("p", { class: "notice" }, error.message)); ready(); if (!sure.hidden) confirm.focus(); }
  }

  document.body.append(dialog);
  dialog.showModal();
  count.select();
}

function rows(plan, { written_since: written }) {
  const more = plan.query_rcu_more, moves = plan.share_moved > 0;
  const known = written === null ? "counted" : `at most all of the last change and ${number(written)} writes since`;
  return [
    ["Shards", `${plan.from} → ${plan.to}${plan.asked === plan.to ? "" : `, which ${plan.asked} rounds up to`}`],
    ["Capacity then", `${short(plan.write_capacity)} write units and ${short(plan.read_capacity)} read units a second`],
    ["Items that move", moves ? `${between(plan.items_moved, number)}: ${percent(plan.share_moved)} of ${between(plan.items, number)} (${known})` : "none"],
    ["Cost of moving", `${between(plan.write_units, short)} write units${plan.usd ? `, ${between(plan.usd, usd)} on demand` : ""}, with items of up to 1 KB`],
    ["Puts go to the new shards", plan.in_force_secs === null ? "when the change that runs has closed" : `after about ${duration(plan.in_force_secs)}`],
    ["Moving takes", moves ? `${between(plan.moving_secs, duration)} at the mover's full pace, and longer while the shards are busy` : "no time"],
    ["It closes", plan.closes_secs === null ? "some time after the change that runs" : moves ? `after ${between(plan.closes_secs, duration)} or more, of which ${duration(plan.old_requests_secs)} wait for old requests` : `after about ${between(plan.closes_secs, duration)}`],
    ["Each page of a query", more === 0 ? "reads as before" : `reads ${number(Math.abs(more), 1)} read units ${more > 0 ? "more" : "fewer"}, at least`],
  ];
}
