// Charts of equal steps of time, as SVG, each with its figures as a table behind it.

import { choice, fill, h, table } from "./dom.js";
import { number, short, time } from "./format.js";

const HEIGHT = 250;
/** The fewest seconds that a chart of seconds shows. */
const SHORTEST = 60;
const LEFT = 54, RIGHT = 14, TOP = 14, BOTTOM = 26;
const LINES = [
  ["capacity", "Shards take"],
  ["throttled", "Throttled"],
  ["demand", "Asked for"],
  ["absorbed", "Absorbed"],
];

/** Round numbers from zero to a little above `most`. */
export function ticks(most, wanted = 4) {
  const raw = Math.max(most, 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((times) => times * power >= raw) * power;
  const count = Math.max(1, Math.ceil(Math.max(most, 1) / step));
  return Array.from({ length: count + 1 }, (_, i) => i * step);
}

/** The parts of a line between what is not known, as paths. `stepped` holds each value until the next. */
export function path(values, x, y, stepped) {
  let text = "", before = null;
  values.forEach((value, i) => {
    if (value === null) { before = null; return; }
    if (before === null) text += `M${x(i)} ${y(value)}`;
    else if (stepped && before !== value) text += `L${x(i)} ${y(before)}L${x(i)} ${y(value)}`;
    else text += `L${x(i)} ${y(value)}`;
    before = value;
  });
  return text;
}

/** Of seconds that nobody reported one by one, the known ones stand close: short gaps are bridged. */
function bridged(values, most) {
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

/** A chart of demand and capacity. `show(series, marks)` draws what it is given. */
export function loadChart(title) {
  let access = "writes", given = null, marks = [];
  const drawing = h("div");
  const legend = h("ul", { class: "legend" });
  const tableOf = h("details", {}, h("summary", {}, "The figures as a table"));
  tableOf.addEventListener("toggle", () => { if (tableOf.open) figures(); });
  const kinds = choice("Access", [["writes", "Writes"], ["reads", "Reads"]], access, (value) => { access = value; draw(); });
  const figure = h("figure", {},
    h("figcaption", { class: "head" }, h("h2", {}, title), kinds), drawing, legend, tableOf);
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== width) { width = now; draw(); }
  }).observe(figure);

  const values = () => {
    const lines = given[access];
    const bridge = given.step === 1 ? 5 : 0;
    return LINES.map(([name, text]) => [name, text, name === "capacity" ? lines.capacity : bridged(lines[name], bridge)])
      .filter(([, , line]) => line.some((value) => value !== null));
  };

  function draw(at = null) {
    if (!given || width === 0) return;
    const all = values();
    const points = given.shards.length;
    const most = Math.max(1, ...all.flatMap(([, , line]) => line.filter((value) => value !== null)));
    const marksOfY = ticks(most * 1.05);
    const top = marksOfY.at(-1);
    const x = (i) => +(LEFT + ((width - LEFT - RIGHT) * i) / Math.max(1, points - 1)).toFixed(1);
    const y = (value) => +(TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)).toFixed(1);
    const place = (secs) => (secs - given.from) / given.step;
    const inside = marks.filter((mark) => place(mark.at) >= 0 && place(mark.at) <= points - 1);
    const times = Math.max(2, Math.min(6, Math.floor(width / 130)));
    const stamps = Array.from({ length: times }, (_, i) => Math.round(((points - 1) * i) / (times - 1)));
    const label = `${title}: ${summary(all)}`;
    const svg = h("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label },
      marksOfY.map((value) => [
        h("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        h("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, short(value))]),
      stamps.map((i, n) => h("text", { x: x(i), y: HEIGHT - 6, "text-anchor": n === 0 ? "start" : n === times - 1 ? "end" : "middle" },
        stamp(given.from + i * given.step, given.step))),
      all.map(([name, , line]) => name === "capacity"
        ? [h("path", { class: "area capacity", d: `${path(line, x, y, true)}L${x(points - 1)} ${y(0)}L${x(0)} ${y(0)}Z` }),
          h("path", { class: "line capacity", d: path(line, x, y, true) })]
        : h("path", { class: `line ${name}`, d: path(line, x, y, false) })),
      inside.map((mark) => [
        h("line", { class: "mark", x1: x(place(mark.at)), x2: x(place(mark.at)), y1: TOP, y2: HEIGHT - BOTTOM }),
        h("circle", { class: "mark-dot", cx: x(place(mark.at)), cy: TOP, r: 5 }, h("title", {}, `${time(mark.at)} ${mark.text}`))]),
      at === null ? null : h("line", { class: "cursor", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }));
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const i = Math.round((((event.clientX - box.left) / box.width) * width - LEFT) / (width - LEFT - RIGHT) * (points - 1));
      if (i >= 0 && i < points) { words(i); const line = svg.querySelector(".cursor") ?? svg.appendChild(h("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM })); line.setAttribute("x1", x(i)); line.setAttribute("x2", x(i)); }
    });
    svg.addEventListener("pointerleave", () => { svg.querySelector(".cursor")?.remove(); words(null); });
    fill(drawing, svg);
    words(null);
    if (tableOf.open) figures();
  }

  const newest = (name, line) => (name === "capacity" ? line.at(-1) : recent(line, given.step));
  const summary = (all) => all.map(([name, text, line]) => `${text.toLowerCase()} ${number(newest(name, line))}`).join(", ");

  function words(at) {
    const sample = (name) => h("svg", { viewBox: "0 0 24 8", "aria-hidden": "true" }, h("line", { class: `line ${name}`, x1: 0, x2: 24, y1: 4, y2: 4 }));
    const of = (name, line) => (at === null ? newest(name, line) : line[at]);
    fill(legend, values().toReversed().map(([name, text, line]) => h("li", {}, sample(name), text, h("b", {}, number(of(name, line))))),
      h("li", {}, access === "writes" ? "write units a second" : "read units a second", at === null ? null : [", ", stamp(given.from + at * given.step, given.step)]));
  }

  function figures() {
    const all = values();
    const rows = given.shards.map((shards, i) => [stamp(given.from + i * given.step, given.step), shards, ...all.map(([, , line]) => (line[i] === null ? "–" : Math.round(line[i])))]);
    const known = rows.filter((row) => row.slice(2).some((value, i) => all[i][0] !== "capacity" && value !== "–"));
    const old = tableOf.querySelector(".scroll");
    const now = table(`${title}, ${access}`, ["Time", "Shards", ...all.map(([, text]) => text)], (known.length ? known : rows).toReversed().slice(0, 120));
    if (old) { const at = old.scrollTop; old.replaceWith(now); now.scrollTop = at; } else tableOf.append(now);
  }

  return { figure, show: (series, of = []) => { given = begun(series); marks = of; draw(); } };
}

/** The newest that is known: of seconds the mean of the last ten, as single ones leap and the last is not complete. */
export function recent(line, step) {
  const known = line.slice(-12).filter((value) => value !== null);
  const of = step === 1 ? known.slice(-10) : known.slice(-1);
  return of.length ? of.reduce((sum, value) => sum + value, 0) / of.length : null;
}

/** Without the seconds before the first that is known, so that a chart that has just begun is wide enough to read. */
function begun(series) {
  if (series.step !== 1) return series;
  const lines = [series.writes, series.reads].flatMap(({ demand, absorbed, throttled }) => [demand, absorbed, throttled]);
  const first = Math.min(...lines.map((line) => line.findIndex((value) => value !== null)).filter((i) => i >= 0));
  const points = series.shards.length;
  const from = Number.isFinite(first) ? Math.max(0, Math.min(first - 10, points - SHORTEST)) : 0;
  const since = (of) => Object.fromEntries(Object.entries(of).map(([name, line]) => [name, line.slice(from)]));
  return { ...series, from: series.from + from, shards: series.shards.slice(from), writes: since(series.writes), reads: since(series.reads) };
}

function stamp(secs, step) {
  const date = new Date(secs * 1000);
  if (step >= 3600) return date.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
  return date.toLocaleTimeString("en-GB", step >= 60 ? { hour: "2-digit", minute: "2-digit" } : {});
}

/** Bars of counts by name, with a table behind them. */
export function bars(title, counts) {
  const most = Math.max(1, ...counts.map(([, count]) => count));
  const width = 640, height = 120, gap = counts.length > 60 ? 0.5 : 2;
  const each = width / counts.length;
  return h("figure", {},
    h("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: from ${number(Math.min(...counts.map(([, count]) => count)))} to ${number(most)}` },
      counts.map(([name, count], i) => h("rect", { class: "bar", x: (i * each + gap / 2).toFixed(1), width: Math.max(0.5, each - gap).toFixed(1), y: (height * (1 - count / most)).toFixed(1), height: ((height * count) / most).toFixed(1), rx: 1 },
        h("title", {}, `Shard ${name}: ${number(count)}`)))),
    h("details", {}, h("summary", {}, "The figures as a table"), table(title, ["Shard", "Items"], counts.map(([name, count]) => [String(name), count]))));
}

/** How much of a capacity is asked for, as a bar. */
export function heat(value) {
  const part = h("rect", { class: value >= 0.7 ? "part hot" : "part", x: 0, y: 0, height: 8, width: Math.min(100, value * 100).toFixed(1) });
  return [h("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, part)];
}
