// Which page is shown, and what is said of the connection.

import { collectionPage } from "./collection.js";
import { decisionsPage } from "./decisions.js";
import { fill, fillIfChanged, h } from "./dom.js";
import { href, number, time } from "./format.js";
import { overviewPage } from "./overview.js";
import { follow } from "./server.js";

const main = document.getElementById("main");
const notices = document.getElementById("notices");
const place = document.getElementById("place");
const foot = document.getElementById("foot");

/** What every page knows: the last of each event, and all rows. */
const state = { hello: null, overview: null, rows: new Map(), range: "live", lost: null };
let page = null, end = null, waiting = null, session = null, first = true;

function route() {
  const [, kind, rest] = location.hash.match(/^#\/(c|decisions)?\/?(.*)$/) ?? [];
  let pk;
  try { pk = kind === "c" ? decodeURIComponent(rest) : undefined; } catch { pk = rest; }
  end?.();
  page?.leave?.();
  const show = { state, setRange };
  page = kind === "c" ? collectionPage(pk, show) : kind === "decisions" ? decisionsPage(new URLSearchParams(rest.replace(/^\?/, "")), show) : overviewPage(show);
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.dataset.page === page.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${page.title} · dynashard console`;
  fill(main, page.element);
  // Whoever listens hears where they are.
  if (!first) main.querySelector("h1")?.focus({ preventScroll: true });
  first = false;
  window.scrollTo(0, 0);
  listen(pk);
  if (state.overview) update();
}

function listen(pk) {
  end?.();
  end = follow({ pk, range: state.range }, {
    hello(hello) {
      // Another console answers at this address: the page is its own.
      if (session !== null && hello.session !== session) { location.reload(); return; }
      session = hello.session;
      state.hello = hello;
      state.rows.clear();
      waiting = null;
      connected(null);
      // Until now there may have been a word in its place.
      if (!main.contains(page.element.at(-1))) fill(main, page.element);
      head();
      say();
      page.hello?.();
    },
    waiting(told) { waiting = told.trouble; told.trouble || fill(main, h("p", { class: "quiet" }, "Looking for the tables…")); say(); },
    rows(rows) { for (const row of rows) state.rows.set(row.pk, row); page.rows?.(rows); },
    overview(overview) { state.overview = overview; update(); },
    collection(details) { page.details?.(details); },
    refused(why) { page.refused?.(why); },
    lost() { connected(state.lost ?? Date.now() / 1000); },
    back() { connected(null); },
  });
}

/** Since when nobody answers, or that somebody does. */
function connected(lost) {
  state.lost = lost;
  main.classList.toggle("lost", lost !== null);
  page.connection?.();
  say();
  head();
}

function setRange(range) {
  state.range = range;
  listen(page.pk);
}

function update() {
  page.overview?.(state.overview);
  say();
  const { reads } = state.overview;
  fillIfChanged(foot, [reads, state.overview.left_out], () => h("p", {},
    `The console has read ${number(reads.total)} read units so far, ${number(reads.per_sec, 2)} a second in the last minute. At rest it reads less than one a second, and up to ${number(reads.most_per_sec)} more while something happens. `,
    state.overview.left_out ? `${number(state.overview.left_out)} more collections are not shown.` : null));
}

function head() {
  fillIfChanged(place, [state.hello, state.lost], () => state.hello ? [
    h("span", { class: state.lost ? "ends off" : "ends", "aria-hidden": "true" }), h("span", {}, state.lost ? "Not connected" : "Live"), h("span", {}, state.hello.place),
    h("span", { class: "tag" }, `scaling ${state.hello.scaling}`),
    h("span", { class: state.hello.allows_changes ? "tag warm" : "tag" }, state.hello.allows_changes ? "changes allowed" : "read-only"),
  ] : []);
}

const ABOUT = {
  connection: "The tables cannot be reached.", lists: "The lists of collections cannot be read.",
  collections: "Collections cannot be read.",
  decisions: "Decisions cannot be read.", usage: "Throttles by reason and costs are missing.",
};

/** What does not work, and what to do. */
function say() {
  const told = [];
  if (state.lost) told.push([`The connection to the console is lost since ${time(state.lost)}.`, `${state.overview ? "What is shown is as of then. " : ""}The page connects again by itself. Is dynashard still running?`]);
  if (waiting) told.push([ABOUT.connection, waiting.detail]);
  for (const trouble of state.overview?.troubles ?? []) told.push([ABOUT[trouble.about] ?? trouble.about, trouble.detail]);
  for (const damaged of state.overview?.damaged ?? []) told.push(["An item is damaged.", damaged]);
  fillIfChanged(notices, told, () => told.map(([what, detail]) => h("p", { class: "notice" }, h("b", {}, what), " ", detail)));
}

document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const pk = event.target.pk.value;
  if (pk) location.hash = href(pk);
});
// A link to a part of the page would be taken for another page.
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); (main.querySelector("h1") ?? main).focus(); });
// Nobody looks at a page in a hidden tab, and the console reads for those who look.
document.addEventListener("visibilitychange", () => { if (document.hidden) end?.(); else listen(page.pk); });
window.addEventListener("hashchange", route);
route();
