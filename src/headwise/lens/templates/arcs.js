// Short texts as arcs, from each query to the keys it attends to.
const ARC_TOKENS = 40; // longer texts have too many
const ARC = { row: 34, most: 150, least: 0.02 };

function paintArcs() {
  const text = textShown();
  const tokens = text && tokensShown();
  const layer = text && layerOf(state.head.row);
  const shown = Boolean(layer && tokens && isExact() && text.kv_len <= ARC_TOKENS && text.kv_len > 1);
  at("arcs").hidden = !shown;
  if (shown) at("arcs").replaceChildren(arcPicture(text, tokens));
}
function arcPicture(text, tokens) {
  const names = tokens.map((_, key) => label(key, 10));
  const places = [];
  let width = 8;
  for (const name of names) {
    const room = Math.max(7.4 * name.length + 12, 26);
    places.push(width + room / 2);
    width += room;
  }
  const height = Math.min(ARC.most, 30 + width / 6);
  const base = height + 8;
  const picture = draw("svg", {
    width,
    height: base + ARC.row,
    role: "img",
    "aria-label": `Arcs of head ${headName(state.head)}`,
  });
  picture.append(
    ...arcLines(text, places, base, height),
    ...names.map((name, key) => arcToken(name, key, places[key], base)),
  );
  return picture;
}
function arcLines(text, places, base, height) {
  const top = mapTop();
  const far = places.at(-1) - places[0];
  const found = [];
  for (let q = 0; q < text.query_len; q++)
    for (let k = state.hide ? 1 : 0; k < text.kv_len; k++) {
      const { weight, told } = blockAt(state.head, q, k);
      const from = places[positionOf(q)];
      const share = shade(weight, top);
      if (weight < ARC.least || from === undefined) continue;
      const rise = positionOf(q) === k ? 10 : Math.max(14, (height * Math.abs(from - places[k])) / far);
      const arc = draw(
        "path",
        {
          d: arcPath(from, places[k], base, rise),
          "stroke-width": 0.75 + 3 * share,
          opacity: 0.15 + 0.75 * share,
        },
        draw("title", {}, `query ${placeOfQuery(q)} → key ${place(k, k)}: ${told}`),
      );
      if (state.query !== null) arc.setAttribute("class", q === state.query ? "chosen" : "other");
      found.push(arc);
    }
  return found;
}
function arcPath(from, to, base, rise) {
  if (from === to)
    return `M${from - 5} ${base}C${from - 9} ${base - rise} ${from + 9} ${base - rise} ${from + 5} ${base}`;
  return `M${from} ${base}C${from} ${base - 1.33 * rise} ${to} ${base - 1.33 * rise} ${to} ${base}`;
}
function arcToken(name, key, x, base) {
  const chosen = state.query !== null && positionOf(state.query) === key;
  const token = draw(
    "text",
    { x, y: base + 18, "text-anchor": "middle", class: chosen ? "chosen" : "" },
    name,
  );
  token.dataset.key = key;
  return token;
}
