// Another shard count: first what it would do, then a confirmation that names the collection.

import { fill, h, table } from "./dom.js";
import { duration, number, percent, short, usd } from "./format.js";
import { post } from "./server.js";

const BY = { last_change: "as its last change tells", writes: "as many as were written in three days", count: "counted" };
const ACTIONS = {
  none: "It has this count already.", keep: "A change to this count runs already.", turn_round: "The change that runs turns round when it has closed.",
};

export function openScale(pk, details) {
  const shown = h("div", { "aria-live": "polite" });
  const count = h("input", { name: "count", type: "number", min: 1, max: details?.max_shards ?? 65536, value: (details?.row?.shards ?? 1) * 2, required: true });
  const confirm = h("input", { name: "confirm", autocomplete: "off", spellcheck: "false", oninput: () => ready() });
  const act = h("button", { type: "button", class: "main", disabled: true, onclick: () => scale() }, "Change");
  const sure = h("div", { class: "field", hidden: true }, h("label", { for: "confirm-key" }, "To confirm, type the partition key: ", h("code", {}, pk)), confirm);
  confirm.id = "confirm-key";
  let plan = null;
  const dialog = h("dialog", { "aria-labelledby": "scale-title" },
    h("form", { onsubmit: (event) => { event.preventDefault(); look(); } },
      h("h2", { id: "scale-title" }, `Shards of ${pk}`),
      h("div", { class: "row low" }, h("label", { class: "field" }, "New shard count", count), h("button", {}, "Show what it would do")),
      shown, sure,
      h("div", { class: "row" }, act, h("button", { type: "button", onclick: () => dialog.close() }, "Close"))));
  count.addEventListener("input", () => { plan = null; sure.hidden = true; ready(); fill(shown); });
  dialog.addEventListener("close", () => dialog.remove());

  const ready = () => { act.disabled = !plan || confirm.value !== pk; };

  async function look() {
    try {
      const answer = await post("/api/plan", { pk, number_of_shards: Number(count.value) });
      plan = answer.plan;
      const changes = !ACTIONS[plan.action] || plan.action === "turn_round";
      fill(shown, table("What it would do", ["What", "Figure"], rows(plan, answer.items_by)), ACTIONS[plan.action] ? h("p", {}, ACTIONS[plan.action]) : null,
        changes && !answer.allows_changes ? h("p", { class: "notice" }, "This console only looks. Start it with ", h("code", {}, "--allow-changes"), " to change counts.") : null);
      sure.hidden = !(changes && answer.allows_changes);
      if (!sure.hidden) confirm.focus(); else plan = null;
    } catch (error) { plan = null; sure.hidden = true; fill(shown, h("p", { class: "notice" }, error.message)); }
    ready();
  }

  async function scale() {
    act.disabled = true;
    try {
      await post("/api/scale", { pk, number_of_shards: plan.to, confirm: confirm.value });
      plan = null;
      sure.hidden = true;
      fill(shown, h("p", { role: "status" }, "The change has begun. This page shows how far it is; items stay readable and writable meanwhile."));
    } catch (error) { fill(shown, h("p", { class: "notice" }, error.message)); ready(); }
  }

  document.body.append(dialog);
  dialog.showModal();
  count.select();
}

function rows(plan, by) {
  const more = plan.query_rcu_more;
  return [
    ["Shards", `${plan.from} → ${plan.to}${plan.asked === plan.to ? "" : `, which ${plan.asked} rounds up to`}`],
    ["Takes then", `${short(plan.write_capacity)} write units and ${short(plan.read_capacity)} read units a second`],
    ["Items that move", plan.share_moved === 0 ? "none" : `${percent(plan.share_moved)} of them${plan.items_moved === null ? "; nobody knows how many there are" : `, about ${number(plan.items_moved)} of ${number(plan.items)} (${BY[by] ?? "estimated"})`}`],
    ["Cost of moving", plan.write_units === null ? "5 write units for each item of up to 1 KB" : `${short(plan.write_units)} write units, ${usd(plan.usd)} on demand`],
    ["Puts go to the new shards", plan.in_force_secs === null ? "when the change that runs has closed" : `after about ${duration(plan.in_force_secs)}`],
    ["Moving takes", plan.moving_secs === null ? "as long as the items need at the mover's pace" : `at least ${duration(plan.moving_secs)}`],
    ["It closes", plan.closes_secs === null ? "some time after the change that runs" : `after about ${duration(plan.closes_secs)}`],
    ["Each page of a query", more === 0 ? "reads as before" : `reads ${number(Math.abs(more), 1)} read units ${more > 0 ? "more" : "fewer"}, at least`],
  ];
}
