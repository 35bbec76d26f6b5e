// The keys with most: of the chosen query's weight, or of all that is received.
const KEYS_LISTED = 8;

// Listed queries lie evenly in the text: the r-th of n is floor((r + 0.5) · length / n).
function listedRow(query) {
  const { top_queries: n, query_len: length } = textShown();
  return n ? Math.min(Math.floor((query * n) / length), n - 1) : null;
}
function listedQuery(query) {
  const { top_queries: n, query_len: length } = textShown();
  const row = listedRow(query);
  return row === null ? null : Math.floor(((2 * row + 1) * length) / (2 * n));
}

// The largest weights of a query as [key, weight, words], and where they come from.
function topKeysOf(which, query) {
  if (listedQuery(query) === query) return { source: "list", keys: fromList(which, query) };
  const w = windowsOf(which).find((w) => query >= w.query && query < w.query + w.queries);
  if (isExact())
    return { source: "map", keys: fromRow(0, textShown().kv_len, (k) => pairAt(which, query, k)) };
  if (w) return { source: "window", w, keys: fromRow(w.key, w.key + w.keys, (k) => pairAt(which, query, k)) };
  return { source: "none", keys: [] };
}
function fromList({ row, head }, query) {
  const { top_keys: keys, top_weights: weights } = layerOf(row);
  const count = textShown().top_keys;
  const first = listedRow(query) * count;
  const start = head * weights.length + first;
  const found = Array.from({ length: count }, (_, n) => [
    keys[start + n],
    weights.at(head, first + n),
    weights.tell(head, first + n),
  ]);
  return found.filter(([, weight]) => weight > 0);
}
function fromRow(from, to, pairFor) {
  const found = Array.from({ length: to - from }, (_, n) => [from + n, pairFor(from + n)]);
  return found
    .filter(([, pair]) => pair.weight > 0)
    .sort((a, b) => b[1].weight - a[1].weight)
    .slice(0, KEYS_LISTED)
    .map(([key, pair]) => [key, pair.weight, pair.told]);
}
function mostReceived(which) {
  const strip = receivedStrip(which);
  const numbers = layerOf(which.row).received;
  const order = strip.values
    .map((x, n) => [n, x])
    .filter(([, x]) => x > 0)
    .sort((a, b) => b[1] - a[1]);
  return order
    .slice(0, KEYS_LISTED)
    .map(([n, x]) => [n * strip.by, x, numbers.tell(which.head, n), strip.by]);
}

function paintKeys() {
  const text = textShown();
  const layer = text && layerOf(state.head.row);
  const chosen = state.query !== null;
  at("keys-card").hidden = !layer;
  if (!layer) return;
  const found = chosen
    ? topKeysOf(state.head, state.query)
    : { source: "received", keys: mostReceived(state.head) };
  at("keys-title").textContent = chosen
    ? `Largest weights of query ${placeOfQuery(state.query)}`
    : "Keys that receive most";
  const top = found.keys[0]?.[1] ?? 1;
  at("keys").replaceChildren(...found.keys.map((entry) => keyLine(entry, top)));
  at("keys-caption").textContent = keysCaption(found);
}
function keyLine([key, weight, told, by = 1], top) {
  const bar = make("i", { className: "bar" });
  bar.style.width = `${100 * shade(weight, top)}%`;
  const token = by === 1 && keyToken(key) !== undefined ? label(key, 18) : "";
  const number = make("button", {
    type: "button",
    textContent: by === 1 ? grouped(key) : range(key, Math.min(key + by, textShown().kv_len)),
    title: "Show in the text",
  });
  number.addEventListener("click", () => update({ key, tokensFrom: firstTokenFor(key) }));
  return make(
    "li",
    {},
    number,
    make("bdi", { className: "token", textContent: token }),
    make("span", {}, bar),
    make("b", { textContent: told }),
  );
}
function keysCaption({ source, w }) {
  const head = `Head ${headName(state.head)}.`;
  const { kv_len: all, bits } = textShown();
  return {
    received: `${head} Mean weight that a key receives from the queries that see it. Choose a query on the map or in the text for its own.`,
    list: `${head} Exact weights, largest first; all ${grouped(all)} keys were looked at.`,
    map: `${head} Exact weights${bits === 8 ? ", to two digits" : ""}, largest first.`,
    window:
      w && `${head} Exact weights, of keys ${range(w.key, w.key + w.keys)} only: a window was kept here.`,
    none: `${head} The exact weights of this query were not kept${listedQuery(state.query) === null ? "" : `; those of query ${grouped(listedQuery(state.query))} were`}.`,
  }[source];
}
