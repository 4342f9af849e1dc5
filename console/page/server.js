// The console's own server: a stream of what it sees, and requests with the token of this page.

const TOKEN = document.querySelector('meta[name="token"]').content;
const SILENCE = 15e3;

/** Follows the stream, and says when the connection breaks and when it is back. Returns what ends it. */
export function follow({ pk, range }, on) {
  let source, watch, ended = false, isLost = false;
  const lost = () => { if (!isLost && !ended) { isLost = true; on.lost(); } };
  const heard = () => {
    if (isLost) { isLost = false; on.back(); }
    clearTimeout(watch);
    watch = setTimeout(() => { lost(); again(0); }, SILENCE);
  };
  const again = (wait) => {
    source?.close();
    clearTimeout(watch);
    if (!ended) watch = setTimeout(begin, wait);
  };
  function begin() {
    const query = new URLSearchParams({ range, ...(pk === undefined ? {} : { pk }) });
    source = new EventSource(`/api/stream?${query}`);
    for (const name of ["hello", "waiting", "overview", "rows", "collection", "refused"]) {
      source.addEventListener(name, (event) => { heard(); on[name]?.(JSON.parse(event.data)); });
    }
    // The browser gives up where the server is gone for a while.
    source.onerror = () => { lost(); again(1500); };
    watch = setTimeout(() => { lost(); again(0); }, SILENCE);
  }
  begin();
  return () => { ended = true; source?.close(); clearTimeout(watch); };
}

/** An error with the sentence of the server. */
export class Refused extends Error {
  constructor(code, detail) { super(detail); this.code = code; }
}

async function answer(request) {
  let response;
  try { response = await request; } catch { throw new Refused("unreachable", "The console does not answer. Is it still running?"); }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(body.code ?? String(response.status), body.detail ?? response.statusText);
  return body;
}

export const get = (path, query = {}) => answer(fetch(`${path}?${new URLSearchParams(query)}`));

export const post = (path, body) => answer(fetch(path, {
  method: "POST",
  headers: { "content-type": "application/json", "x-dynashard-token": TOKEN },
  body: JSON.stringify(body),
}));
