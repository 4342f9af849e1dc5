// Numbers, times and words as people read them.

export const number = (value, digits = 0) =>
  value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: digits });

export const short = (value) => {
  if (value === null || value === undefined) return "–";
  if (value >= 1e9) return `${number(value / 1e9, 1)} G`;
  if (value >= 1e6) return `${number(value / 1e6, 1)} M`;
  if (value >= 1e5) return `${number(value / 1e3, 1)} k`;
  return number(value, value < 10 ? 1 : 0);
};

/** Whole cents: what is reckoned from an estimate has no more digits. */
export const usd = (value) => {
  if (value === null || value === undefined) return "–";
  return value > 0 && value < 0.01 ? "less than $0.01" : `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
};

/** What lies between two bounds, of which the upper one may not be known. */
export function between({ least, most }, say) {
  if (most === null) return `at least ${say(least)}`;
  return say(least) === say(most) ? say(most) : `${say(least)} to ${say(most)}`;
}

export const percent = (value) => `${number(value * 100, value < 0.1 && value > 0 ? 1 : 0)} %`;

export function time(secs, withDate = false) {
  const date = new Date(secs * 1000);
  const of = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  const day = withDate || Date.now() - date > 20 * 3600e3;
  return date.toLocaleString("en-GB", day ? { ...of, day: "numeric", month: "short" } : of);
}

export function duration(secs) {
  if (secs === null || secs === undefined) return "–";
  const s = Math.max(0, Math.round(secs));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${number(s / 3600, 1)} h`;
  return `${number(s / 86400, 1)} days`;
}

/** How long ago something was, where that is long for a mean over so many seconds. */
export const age = (now, at, over) => (now - at > 2 * over ? `${duration(now - at)} ago` : null);
export const OVER = { second: 10, minute: 60 };

/** The stages of a change, in this order. */
export const STAGES = { announced: "announced", moving: "moving items", waiting: "waiting for old requests", closing: "closing" };
export const STATES = { stable: "stable", forward: "announced", move: "moving items" };

export const href = (pk) => `#/c/${encodeURIComponent(pk)}`;

/** What diagnoses, outcomes and hindrances mean (docs/SCALING.md). */
export const DIAGNOSES = {
  hot_key: ["Hot key", "It is asked for more writes than its shards take."],
  hot_reads: ["Hot reads", "It is asked for more reads than its shards take."],
  ramp: ["Ramp", "Its load rises steadily and will soon be more than its shards take."],
  hot_item: ["Hot item", "One item has most of the load, and an item lies in one shard. Make it a counter, split it, or keep it for reads (ItemCacheSecs)."],
  hot_queries: ["Hot queries", "Queries have most of the load, and each reads every shard. Query less, or cache."],
  neighbour: ["Neighbour", "Another key in the same partition is hot. DynamoDB separates the two."],
  table_capacity: ["Table capacity", "The provisioned capacity of the table is used up. More shards do not help."],
  account_limit: ["Account limit", "The account's quota is reached. Ask AWS for more."],
  max_on_demand: ["Maximum on demand", "The table's maximum on-demand throughput is reached. Raise it."],
  index: ["Index", "An index of the table throttles."],
  replica: ["Read replica", "A read replica of the table is at a limit of its own."],
  unknown_limit: ["Unknown limit", "DynamoDB does not say which limit is reached."],
  cooled_down: ["Cooled down", "It was asked for far less than its shards take."],
  many_epochs: ["Many epochs", "An older epoch is merged with its neighbour, so that there is room for more."],
};
export const diagnosis = (code) => DIAGNOSES[code]?.[0] ?? code;

const HINDRANCES = {
  running: "a change is running", cooldown: "it changed a moment ago", at_max_shards: "it has as many shards as allowed",
  not_allowed: "GrowKeys does not name it", clearing_up: "its last change is being cleared up", too_dear: "it would not pay", too_long: "moving its items would take too long",
};

/** What became of a decision. */
export function outcome(decision) {
  const verb = { grow: "Grows", shrink: "Shrinks", turn_round: "Turns round" }[decision.action];
  const counts = decision.to ? `${decision.from} → ${decision.to}` : `${decision.from}`;
  switch (decision.outcome) {
    case "begun": return [`${verb ?? decision.action} ${counts}`, "good"];
    case "dry_run": return [`Dry run: would have ${{ grow: "grown", shrink: "shrunk" }[decision.action] ?? "changed"} ${counts}`, ""];
    case "overtaken": return [`Overtaken ${counts}`, ""];
    default: return [decision.hindrance ? `Nothing: ${HINDRANCES[decision.hindrance] ?? decision.hindrance}` : "Nothing to do", ""];
  }
}
