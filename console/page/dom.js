// Elements from plain values. Text becomes text nodes, so a key with markup in it shows as it is.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "title", "polyline"]);

/** An element: `h("a", { href }, "text", child)`. Properties that begin with `on` listen. */
export function h(tag, properties = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Puts these children in place of those that an element has. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Fills an element only if what it is made of has changed, so that focus and selection stay. */
export function fillIfChanged(element, value, make) {
  const text = JSON.stringify(value);
  if (element.made === text) return;
  element.made = text;
  fill(element, make());
}

/** A row of buttons of which one is pressed. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === value));
      choose(value);
    }, value }, text));
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** A table with its caption. Cells that are numbers stand to the right. */
export function table(caption, heads, rows) {
  const cell = (value) => h("td", { class: typeof value === "number" ? "num" : null }, typeof value === "number" ? value.toLocaleString("en") : value);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", { scope: "col", class: typeof rows[0]?.[i] === "number" ? "num" : null }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}
