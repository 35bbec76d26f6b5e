// The head that is shown: its title, its maps, and the words around them.
const SCALE_NAMES = { linear: "linear", sqrt: "square-root", log: "logarithmic" };

function paintTitle() {
  const two = headsShown().length > 1;
  const waiting = state.pinned && !two;
  at("one-title").textContent = `Head ${headName(state.head)}`;
  const kinds = data.measures.filter(
    (m) => m.kind && numberOf(m, state.head) !== null && numberOf(m, state.head) >= m.least,
  );
  at("badges").replaceChildren(
    ...kinds.map((m) =>
      make("span", {
        textContent: `${m.kind} ${short(numberOf(m, state.head))}`,
        title: sentence(m.meaning),
      }),
    ),
  );
  if (two)
    at("badges").append(
      make("span", { className: "pinned", textContent: `beside ${headName(state.pinned)}` }),
    );
  if (waiting)
    at("badges").append(
      make("span", { className: "pinned", textContent: "pinned: now choose another head" }),
    );
  at("pin").textContent = state.pinned ? `Unpin ${headName(state.pinned)}` : "Pin to compare";
  at("pin").title = state.pinned
    ? "Show one head again (p)"
    : "Keep this head and choose another beside it (p)";
  at("swap").hidden = !two;
}
const headsNamed = () =>
  headsShown().length > 1
    ? `Heads ${headsShown().map(headName).join(" and ")}`
    : `Head ${headName(state.head)}`;
function togglePin() {
  const { pinned, head } = wantedState();
  show({ pinned: pinned ? null : head });
}
function swap() {
  if (headsShown().length > 1) show({ pinned: state.head, head: state.pinned });
}

// ---- maps ------------------------------------------------------------------------------------------------------
function paintMaps() {
  const heads = headsShown();
  const shown = Boolean(textShown()) && heads.every((which) => layerOf(which.row));
  for (const id of ["maps", "map-legend", "map-caption", "windows", "readout", "map-tools"])
    at(id).hidden = !shown;
  at("no-map").hidden = shown;
  document.querySelector("main").classList.toggle("two", shown && heads.length > 1);
  if (!shown) return (at("no-map").textContent = whyNoMap(heads));
  canvases().forEach((canvas, n) => (canvas.parentElement.hidden = !heads[n]));
  heads.forEach((which, n) => {
    const canvas = canvases()[n];
    const title = canvas.previousElementSibling;
    title.hidden = heads.length < 2;
    title.textContent = `Head ${headName(which)}${same(which, state.pinned) ? ", pinned" : ""}`;
    canvas.setAttribute(
      "aria-label",
      `Map of head ${headName(which)}: queries down, keys across. Arrow keys move, Enter chooses a query, plus and minus zoom.`,
    );
    paintMap(canvas, which);
  });
}
function whyNoMap(heads) {
  if (!textShown()) return "No text was kept: this page shows the numbers of heads only.";
  const missing = heads.find((which) => !layerOf(which.row));
  return `No map of layer ${data.layers[missing.row]} was kept for this text.`;
}
function paintTools() {
  const text = textShown();
  if (!text) return;
  at("pool-field").hidden = isExact() || !text.layers.some((layer) => layer?.max);
  for (const name of ["pool", "scale"])
    for (const option of document.getElementsByName(name)) option.checked = option.value === state[name];
  at("hide").checked = state.hide;
  at("zoom-all").disabled = at("zoom-out").disabled = !state.view;
}

const poolNamed = () => (state.pool === "max" ? "largest" : "mean");

// ---- words -----------------------------------------------------------------------------------------------------
function readout() {
  if (!textShown() || !layerOf(state.head.row)) return "";
  if (state.cell) return headsShown().map(describePair).join("; ");
  if (state.query !== null) return `Query ${placeOfQuery(state.query)} is chosen.`;
  return "Point at the map for a weight, click for a query, drag to zoom in.";
}
function describePair(which, n) {
  const pair = pairShown(which, state.cell);
  const name = headsShown().length > 1 ? `${headName(which)}: ` : "";
  const kind = pair.exact ? "" : `${poolNamed()} `;
  if (n) return name + kind + pair.told;
  const query =
    pair.q1 - pair.q0 > 1 ? `queries ${range(pair.q0, pair.q1)}` : `query ${placeOfQuery(pair.q0)}`;
  const key = pair.k1 - pair.k0 > 1 ? `keys ${range(pair.k0, pair.k1)}` : `key ${place(pair.k0, pair.k0)}`;
  const block =
    pair.exact || state.pool === "max"
      ? ""
      : ` (${digits(pair.weight * (pair.k1 - pair.k0), 2)} on all these keys)`;
  return `${name}${query} → ${key}: ${kind}${pair.told}${block}`;
}
function paintReadout() {
  at("readout").textContent = readout();
}
function mapCaption() {
  const text = textShown();
  const [down, across] = text.block;
  const view = state.view;
  const cells = isExact()
    ? `Each cell is one weight${text.bits === 8 ? ", kept to two digits" : ""}.`
    : `Each cell is the ${poolNamed()} weight of ${grouped(down)} × ${grouped(across)} pairs of query and key.`;
  return [
    `${headsNamed()}, ${plural(text.query_len, "query").replace("querys", "queries")} down, ${plural(text.kv_len, "key")} across, from the top left.`,
    view ? `Shown: queries ${range(view.q0, view.q1)}, keys ${range(view.k0, view.k1)}.` : "",
    cells,
    `The weights of a query add to 1${state.hide ? ", the hidden first key's included" : ""}. Colours on the ${SCALE_NAMES[state.scale]} scale.`,
    state.hide
      ? isExact()
        ? "The first key is hidden."
        : `The first column, keys ${range(0, across)}, is hidden.`
      : "",
    "Above: mean weight a key receives from the queries that see it. At the side: entropy of a query's weights, in nats.",
  ]
    .filter(Boolean)
    .join(" ");
}
function paintWords() {
  if (!textShown() || !layerOf(state.head.row)) return;
  const inside = headsShown().flatMap(windowsDrawn);
  const top = inside.length ? exactTop() : mapTop();
  const kind = inside.length ? "exact" : isExact() ? "" : poolNamed();
  const unit = make("span", { className: "unit", textContent: `${kind} weight`.trim() });
  paintLegend(at("map-legend"), scaleTicks(top), unit);
  at("map-caption").textContent =
    mapCaption() +
    (inside.length
      ? " Within the outlined windows cells are exact weights; around them blocks are paler, on a scale of their own."
      : "");
  paintWindowButtons();
}
function paintWindowButtons() {
  const found = windowsOf(state.head);
  const buttons = found.map((w) => {
    const button = make("button", {
      type: "button",
      textContent: `${range(w.query, w.query + w.queries)} × ${range(w.key, w.key + w.keys)}`,
      title: "Zoom into this window of exact weights",
    });
    button.addEventListener("click", () => showWindow(w));
    return button;
  });
  at("windows").replaceChildren(
    ...(found.length ? [make("span", { textContent: "Exact windows (queries × keys)" }), ...buttons] : []),
  );
}
