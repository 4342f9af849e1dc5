// Charts of equal steps of time, as SVG, each with its figures as a table behind it.

import { choice, fill, fillIfChanged, h, table } from "./dom.js";
import { duration, number, short, time } from "./format.js";

const HEIGHT = 264, STRIP = 56;
const LEFT = 54, RIGHT = 14, TOP = 56, BOTTOM = 26;
/** What a chart of seconds shows is as long as one of these. */
const SPANS = [60, 120, 300];
/** The lines, from the last drawn to the first. */
const LINES = [
  ["absorbed", "Absorbed"],
  ["demand", "Wanted (estimate)"],
  ["moved", "Moving items"],
  ["mean", "Wanted, minute mean"],
];

/** Round numbers from zero to a little above `most`. */
export function ticks(most, wanted = 4) {
  const raw = Math.max(most, 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((times) => times * power >= raw) * power;
  const count = Math.max(1, Math.ceil(Math.max(most, 1) / step));
  return Array.from({ length: count + 1 }, (_, i) => i * step);
}

/** Round times of the clock between two seconds. */
function stamps(from, until, wanted) {
  const step = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].find((secs) => (until - from) / secs <= wanted) ?? 172800;
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - zone) / step) * step + zone;
  return Array.from({ length: Math.max(0, Math.floor((until - first) / step) + 1) }, (_, i) => first + i * step);
}

/** The parts of a line between what is not known, as a path. Means of a minute or more are flat. */
function path(values, { x, y, from, step }, flat = step > 1) {
  let text = "", before = false;
  values.forEach((value, i) => {
    if (value === null) { before = false; return; }
    const at = from + i * step;
    text += flat ? `${before ? "L" : "M"}${x(at)} ${y(value)}H${x(at + step)}` : `${before ? "L" : "M"}${x(at + step / 2)} ${y(value)}`;
    before = true;
  });
  return text;
}

/** What was wanted and not absorbed, as an area. */
function unmet({ demand, absorbed }, { x, y, from, step }) {
  let text = "", run = [];
  const close = () => {
    const back = run.toReversed();
    if (run.length) text += `M${run.map(([one, other, top]) => `${x(one)} ${y(top)}L${x(other)} ${y(top)}`).join("L")}L${back.map(([one, other, , low]) => `${x(other)} ${y(low)}L${x(one)} ${y(low)}`).join("L")}Z`;
    run = [];
  };
  demand.forEach((value, i) => {
    const at = from + i * step, middle = at + step / 2;
    if (value === null || absorbed[i] === null || value <= absorbed[i]) close();
    else run.push(step > 1 ? [at, at + step, value, absorbed[i]] : [middle, middle, value, absorbed[i]]);
  });
  close();
  return text;
}

/** Of seconds that nobody reported one by one, the known ones stand close: short gaps are bridged. */
function bridged(values, most = 5) {
  const out = values.slice();
  let last = -1;
  values.forEach((value, i) => {
    if (value === null) return;
    if (last >= 0 && i - last > 1 && i - last <= most) {
      for (let j = last + 1; j < i; j += 1) out[j] = values[last] + ((value - values[last]) * (j - last)) / (i - last);
    }
    last = i;
  });
  return out;
}

/** The lines that are drawn: the mean of a minute stands where no second is known. */
function drawn(lines, step) {
  const { absorbed, demand } = lines;
  const mean = lines.mean.map((value, i) => (demand[i] === null && absorbed[i] === null ? value : null));
  return step === 1 ? { ...lines, mean, absorbed: bridged(absorbed), demand: bridged(demand) } : { ...lines, mean: demand.map(() => null) };
}

/** How many shards there were at a second. */
const shardsAt = (shards, at) => shards.findLast(([since]) => since <= at)?.[1] ?? shards[0]?.[1] ?? 0;

function capacity(shards, perShard, { x, y }, from, until) {
  const steps = [[from, shardsAt(shards, from)], ...shards.filter(([at]) => at > from && at < until)];
  return steps.map(([at, count], i) => `${i ? "V" : `M${x(at)} `}${y(count * perShard)}H${x(steps[i + 1]?.[0] ?? until)}`).join("");
}

const isKnown = (value) => value !== null;
const largest = (...lines) => Math.max(1, ...lines.flat().filter(isKnown));

/** A chart of demand and capacity. `show(series, marks)` draws what it is given. */
export function loadChart(title) {
  let access = "writes", given = null, marks = [], at = null, width = 0;
  const picture = h("div"), flags = h("div", { class: "flags" }), readout = h("p", { class: "readout", hidden: true, role: "status" });
  const drawing = h("div", { class: "drawing", tabindex: "0", role: "group", "aria-label": `${title}. The arrow keys move from step to step.` }, picture, flags, readout);
  const legend = h("ul", { class: "legend" });
  const tableOf = h("details", {}, h("summary", {}, "The figures as a table"));
  tableOf.addEventListener("toggle", () => { if (tableOf.open) figures(); });
  const kinds = choice("Access", [["writes", "Writes"], ["reads", "Reads"]], access, (value) => { access = value; draw(); });
  const figure = h("figure", {}, h("figcaption", { class: "head" }, h("h2", {}, title), kinds), drawing, legend, tableOf);
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== width) { width = now; draw(); }
  }).observe(figure);

  const scale = () => {
    const { from, until } = given;
    return (secs) => +(LEFT + ((width - LEFT - RIGHT) * (secs - from)) / (until - from)).toFixed(1);
  };
  const point = (secs) => Math.floor((secs - given.from) / given.step);
  const points = () => given[access].demand.length;

  drawing.addEventListener("pointermove", (event) => {
    if (!given) return;
    const box = drawing.getBoundingClientRect();
    const secs = given.from + ((event.clientX - box.left - LEFT) / (width - LEFT - RIGHT)) * (given.until - given.from);
    point(secs) >= 0 && point(secs) < points() ? move(given.from + point(secs) * given.step) : move(null);
  });
  drawing.addEventListener("pointerleave", () => move(null));
  drawing.addEventListener("keydown", (event) => {
    if (!given || event.target !== drawing) return;
    const last = given.from + (points() - 1) * given.step, here = at ?? last + given.step;
    const to = { ArrowLeft: here - given.step, ArrowRight: here + given.step, Home: given.from, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to === null ? null : Math.min(last, Math.max(given.from, to)));
  });
  function move(to) { if (to !== at) { at = to; cursor(); } }

  function draw() {
    if (!given || width === 0) return;
    const { from, until, step, shards } = given;
    const lines = drawn(given[access], step), within = scale();
    // The last step may end in the future.
    const x = (secs) => within(Math.min(secs, until));
    const takes = [shardsAt(shards, from), ...shards.filter(([since]) => since < until).map(([, count]) => count)].map((count) => count * lines.per_shard);
    const levels = ticks(largest(takes, ...LINES.map(([name]) => lines[name])) * 1.05);
    const y = (value) => +(TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / levels.at(-1))).toFixed(1);
    const place = { x, y, from, step };
    const tries = lines.refused.some(isKnown) ? strip(lines.refused, place) : null;
    const steps = capacity(shards, lines.per_shard, place, from, Math.min(until, given.now));
    const svg = h("svg", { viewBox: `0 0 ${width} ${HEIGHT + (tries ? STRIP : 0)}`, role: "img", "aria-label": `${title}: ${summary(lines)}` },
      h("text", { x: 0, y: 14 }, access === "writes" ? "write units/s" : "read units/s"),
      levels.map((value) => [
        h("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        h("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, short(value))]),
      stamps(from, until, Math.max(2, Math.floor(width / 130))).map((secs) => h("text", { x: x(secs), y: HEIGHT - 6, "text-anchor": x(secs) > width - 40 ? "end" : "middle" }, stamp(secs, step))),
      h("path", { class: "area capacity", d: `${steps}V${y(0)}H${x(from)}Z` }), h("path", { class: "line capacity", d: steps }),
      h("path", { class: "area unmet", d: unmet(lines, place) }),
      LINES.toReversed().map(([name]) => h("path", { class: `line ${name}`, d: path(lines[name], place, step > 1 || name === "mean") })),
      tries);
    fill(picture, svg);
    flag(x);
    cursor();
    if (tableOf.open) figures();
  }

  /** Refused tries have a scale of their own: one request may be refused many times. */
  function strip(refused, { x, from, step }) {
    const most = largest(refused), bottom = HEIGHT + STRIP - 4, height = STRIP - 24;
    const bar = (value, i) => value ? h("rect", { class: "refused", x: x(from + i * step), width: Math.max(1, x(from + (i + 1) * step) - x(from + i * step) - 0.5).toFixed(1), y: (bottom - (height * value) / most).toFixed(1), height: ((height * value) / most).toFixed(1) }) : null;
    return h("g", {}, h("text", { x: LEFT, y: HEIGHT + 14 }, `Refused tries/s, peak ${short(Math.max(0, ...refused))}`), h("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom }), refused.map(bar));
  }

  /** Marks keep their focus while the chart goes on: they are moved, and made only when there are others. */
  function flag(x) {
    const inside = marks.filter((mark) => mark.at >= given.from && mark.at <= given.until).sort((one, other) => one.at - other.at);
    fillIfChanged(flags, inside, () => inside.map((mark) => h("span", { class: "flag", tabindex: "0", role: "note", "aria-label": `${time(mark.at)}: ${mark.text}`, title: `${time(mark.at)}: ${mark.text}` }, mark.label)));
    const rows = [[], [], []];
    const places = inside.map((mark, i) => [x(mark.at), mark, i]), isBehind = ([at_]) => at_ > width - 110;
    // The line of a mark begins beside its label: from the side that labels point away from, none goes through another.
    for (const [at_, mark, i] of [...places.filter((of) => !isBehind(of)), ...places.filter(isBehind).reverse()]) {
      const long = mark.label.length * 7 + 10, isBack = isBehind([at_]);
      const [first, last] = isBack ? [at_ - long, at_] : [at_, at_ + long];
      const row = rows.findIndex((of) => of.every(([one, other]) => last < one || first > other));
      rows[row]?.push([first, last]);
      const { style, classList } = flags.children[i];
      style.left = `${at_}px`;
      style.top = `${2 + Math.max(0, row) * 17}px`;
      style.height = `${HEIGHT - BOTTOM - 2 - Math.max(0, row) * 17}px`;
      classList.toggle("back", isBack);
      classList.toggle("bare", row < 0);
    }
  }

  function values(i) {
    const lines = drawn(given[access], given.step), now = i === null;
    const newest = Math.max(lines.demand.findLastIndex(isKnown), lines.absorbed.findLastIndex(isKnown));
    const of = (line) => (now && given.step === 1 ? recent(line) : line[now ? newest : i] ?? null);
    const unmetOf = lines.demand.map((value, j) => (value === null || lines.absorbed[j] === null ? null : value - lines.absorbed[j]));
    const until = now ? Math.min(given.until, given.now) : given.from + (i + 1) * given.step;
    return [...LINES.map(([name, text]) => [name, text, of(lines[name])]), ["unmet", "Unmet demand", of(unmetOf)], ["capacity", "Capacity", shardsAt(given.shards, until) * lines.per_shard], ...(lines.refused.some(isKnown) ? [["refused", "Refused tries", of(lines.refused)]] : [])];
  }
  const summary = () => values(null).filter(([, , value]) => value !== null).map(([, text, value]) => `${text.toLowerCase()} ${number(value)}`).join(", ");

  /** The values at the cursor, which stays where it is while the chart goes on. */
  function cursor() {
    if (at !== null && at < given.from) at = null;
    const old = picture.querySelector(".cursor");
    const sample = (name) => h("svg", { viewBox: "0 0 24 8", "aria-hidden": "true" }, name === "unmet" || name === "refused" ? h("rect", { class: name === "unmet" ? "area unmet" : "refused", width: 24, height: 8 }) : h("line", { class: `line ${name}`, x1: 0, x2: 24, y1: 4, y2: 4 }));
    const skips = (name) => (access === "reads" && name === "moved") || (given.step > 1 && name === "mean");
    fill(legend, values(null).filter(([name]) => !skips(name)).map(([name, text, value]) => h("li", {}, sample(name), text, h("b", {}, number(value)))), given.step === 1 ? h("li", {}, `means of 10 s${given.skip ? `; the last ${duration(given.until - given.from)}, before which nothing is known` : ""}`) : null);
    readout.hidden = at === null;
    if (at === null) { old?.remove(); return; }
    const x = scale()(at + given.step / 2);
    const line = old ?? picture.firstChild.appendChild(h("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM }));
    line.setAttribute("x1", x); line.setAttribute("x2", x);
    const near = marks.filter((mark) => mark.at >= at && mark.at < at + given.step).map((mark) => h("span", {}, mark.text));
    fill(readout, h("b", {}, stamp(at, given.step)), values(point(at)).filter(([name, , value]) => value !== null && !skips(name)).map(([, text, value]) => h("span", {}, `${text} `, h("b", {}, number(value)))), near);
    readout.style.left = `${Math.max(0, Math.min(x + 10, width - 210))}px`;
    if (x > width - 220) readout.style.left = `${Math.max(0, x - 210)}px`;
  }

  function figures() {
    const names = values(null).map(([, text]) => text);
    const all = Array.from({ length: points() }, (_, i) => [stamp(given.from + i * given.step, given.step), shardsAt(given.shards, given.from + (i + 1) * given.step), ...values(i).map(([, , value]) => (value === null ? "–" : Math.round(value)))]);
    const known = all.filter((row) => row[2] !== "–" || row[3] !== "–" || row[5] !== "–");
    const old = tableOf.querySelector(".scroll");
    const now = table(`${title}, ${access}`, ["Time", "Shards", ...names], (known.length ? known : all).toReversed().slice(0, 120));
    if (old) { const top = old.scrollTop; old.replaceWith(now); now.scrollTop = top; } else tableOf.append(now);
  }

  return { figure, show: (series, now, of = []) => { given = { ...begun(series), now }; marks = of; draw(); return given; } };
}

/** The newest seconds that are known: the mean of ten, as single ones leap. What has ended some seconds ago is not of now. */
function recent(line) {
  if (line.length - 1 - line.findLastIndex(isKnown) > 6) return null;
  const of = line.slice(-15).filter(isKnown).slice(-10);
  return of.length ? of.reduce((sum, value) => sum + value, 0) / of.length : null;
}

/** A chart that has just begun shows one minute or two, so that it is wide enough to read. */
function begun(series) {
  if (series.step !== 1) return { ...series, skip: 0 };
  const lines = ["writes", "reads"].flatMap((access) => ["demand", "absorbed", "mean"].map((name) => series[access][name]));
  const first = Math.min(...lines.map((line) => line.findIndex(isKnown)).filter((i) => i >= 0));
  const points = series.writes.demand.length;
  const span = SPANS.find((secs) => points - first <= secs) ?? points;
  const skip = Number.isFinite(first) ? Math.max(0, points - span) : 0;
  return { ...series, skip, from: series.from + skip, writes: since(series.writes, skip), reads: since(series.reads, skip) };
}

const since = (lines, skip) => Object.fromEntries(Object.entries(lines).map(([name, line]) => [name, Array.isArray(line) ? line.slice(skip) : line]));

/** A small chart of one collection over the time of a larger one: wanted, absorbed and capacity. */
export function small({ lines: all, shards }, { from, until, step, skip, now }) {
  const width = 260, height = 56, lines = drawn(since(all, skip), step);
  const top = largest([shardsAt(shards, from), ...shards.map(([, count]) => count)].map((count) => count * lines.per_shard), lines.absorbed, lines.demand, lines.mean) * 1.08;
  const place = { x: (secs) => +((width * (Math.min(secs, until) - from)) / (until - from)).toFixed(1), y: (value) => +(height * (1 - value / top)).toFixed(1), from, step };
  return h("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    h("path", { class: "line capacity", d: capacity(shards, lines.per_shard, place, from, Math.min(until, now)) }), h("path", { class: "area unmet", d: unmet(lines, place) }),
    ["mean", "demand", "absorbed"].map((name) => h("path", { class: `line ${name}`, d: path(lines[name], place, step > 1 || name === "mean") })),
    shards.filter(([at]) => at > from && at < until).map(([at]) => h("line", { class: "change", x1: place.x(at), x2: place.x(at), y1: 0, y2: height })));
}

/** How the counts of a small chart went: 1→16. */
export const countsOf = ({ shards }, { from, until }) => [shardsAt(shards, from), ...shards.filter(([at]) => at > from && at < until).map(([, count]) => count)].filter((count, i, all) => i === 0 || count !== all[i - 1]);


function stamp(secs, step) {
  const date = new Date(secs * 1000);
  if (step >= 3600) return date.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
  return date.toLocaleTimeString("en-GB", step >= 60 ? { hour: "2-digit", minute: "2-digit" } : {});
}

/** Bars of items by shard, with their mean and what chance makes of it, and a table behind them. */
export function bars(title, counts) {
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length, chance = 2 * Math.sqrt(mean);
  const most = Math.max(1, mean + chance, ...counts);
  const width = 640, height = 120, gap = counts.length > 60 ? 0.5 : 2, each = width / counts.length;
  const y = (value) => +(height * (1 - value / most)).toFixed(1), every = Math.ceil(counts.length / 16);
  return h("figure", {},
    h("svg", { viewBox: `0 0 ${width} ${height + 18}`, role: "img", "aria-label": `${title}: from ${number(Math.min(...counts))} to ${number(Math.max(...counts))}, ${number(mean)} in the mean` },
      counts.map((count, i) => h("rect", { class: "bar", x: (i * each + gap / 2).toFixed(1), width: Math.max(0.5, each - gap).toFixed(1), y: y(count), height: ((height * count) / most).toFixed(1), rx: 1 })),
      h("rect", { class: "chance", x: 0, width, y: y(mean + chance), height: (y(Math.max(0, mean - chance)) - y(mean + chance)).toFixed(1) }),
      h("line", { class: "cursor", x1: 0, x2: width, y1: y(mean), y2: y(mean) }),
      counts.map((_, i) => (i % every ? null : h("text", { x: (i + 0.5) * each, y: height + 14, "text-anchor": "middle" }, i)))),
    h("details", {}, h("summary", {}, "The figures as a table"), table(title, ["Shard", "Items"], counts.map((count, i) => [String(i), count]))));
}

/** How much of a capacity is asked for, as a bar up to 150 % with marks at 70 and 100. */
export function heat(value, isThrottled) {
  return h("svg", { viewBox: "0 0 150 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("rect", { class: isThrottled ? "part hot" : "part", x: 0, y: 0, height: 8, width: Math.min(150, value * 100).toFixed(1) }),
    [70, 100].map((at) => h("line", { class: "tick", x1: at, x2: at, y1: 0, y2: 8 })));
}
