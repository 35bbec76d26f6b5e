// The map of one head's weights: queries down, keys across, from the top left.
const STRIP = 36; // pixels of the strips at the sides
const GAP = 5; // pixels beside them
const NAMED = 12; // pixels of a token from which on its text is written at the side
const WRITTEN = { across: 34, down: 15 }; // pixels of a cell from which on its weight is written in it
const FINE = 1.5; // pixels of a token from which on windows show their exact weights
const MOST_CELL = 56; // pixels of a token, at most
const LEAST_OUTLINE = 9; // pixels of a window's outline, at least

const canvases = () => [...document.querySelectorAll("#maps canvas")];
const headsShown = () =>
  state.pinned && !same(state.pinned, state.head) ? [state.pinned, state.head] : [state.head];
const whole = () => ({ q0: 0, q1: textShown().query_len, k0: 0, k1: textShown().kv_len });
const viewShown = () => state.view ?? whole();

// Where things lie on a canvas.
function frameOf(canvas) {
  const text = textShown();
  const view = viewShown();
  const room = canvas.parentElement.clientWidth;
  const keys = view.k1 - view.k0;
  const queries = view.q1 - view.q0;
  const tokens = Boolean(tokensShown());
  const side = STRIP + GAP + 1;
  const inner = (left) => Math.min(room - left - side, MOST_CELL * text.kv_len);
  const tall = (width) => width * Math.min(Math.max(text.query_len / text.kv_len, 0.15), 1.2);
  const namesQueries = tokens && tall(inner(92)) / queries >= NAMED;
  const left = namesQueries ? 92 : 52;
  const width = inner(left);
  const height = tall(width);
  const namesKeys = tokens && width / keys >= NAMED;
  const top = (namesKeys ? 68 : 20) + STRIP + GAP;
  const perKey = width / keys;
  const perQuery = height / queries;
  return {
    view,
    left,
    top,
    width,
    height,
    perKey,
    perQuery,
    namesQueries,
    namesKeys,
    across: left + width + side,
    down: top + height + 4,
    x: (key) => left + (key - view.k0) * perKey,
    y: (query) => top + (query - view.q0) * perQuery,
  };
}

// ---- what is drawn ---------------------------------------------------------------------------------------------
function tableOf(which) {
  const layer = layerOf(which.row);
  return layer && (layer[state.pool] ?? layer.mean);
}
// The largest weight of a head's map that is shown: without the first cells of all rows where they are hidden.
function topOf(numbers, head, columns) {
  if (!state.hide || columns < 2) return numbers.tops[head];
  numbers.later ??= [];
  numbers.later[head] ??= numbers
    .levelsOf(head)
    .reduce((top, level, place) => (place % columns && level > top ? level : top), 0);
  return numbers.tops[head] * (numbers.later[head] / numbers.most) ** 2;
}
// The top of the colours, one for all heads that are shown.
function mapTop() {
  const columns = textShown().columns;
  const known = headsShown().filter(tableOf);
  return Math.max(...known.map((which) => topOf(tableOf(which), which.head, columns)));
}
// The windows whose exact weights are drawn: those in the zoomed part, where there is room for them.
function windowsDrawn(which) {
  const { view, perKey, perQuery } = canvases()[0].frame ?? {};
  if (!state.view || isExact() || !(Math.min(perKey, perQuery) >= FINE)) return [];
  return windowsOf(which).filter(
    (w) => w.key < view.k1 && w.key + w.keys > view.k0 && w.query < view.q1 && w.query + w.queries > view.q0,
  );
}

// The top of the colours of exact weights, one for all windows that are drawn.
const exactTop = () =>
  Math.max(
    ...headsShown()
      .flatMap(windowsDrawn)
      .map((w) => w.numbers.tops[0]),
  );

const images = new Map();
function imageOf(name, numbers, head, columns, top, hides) {
  const key = [state.text, name, state.pool, state.scale, hides, state.theme, top].join();
  if (images.size > 12) images.clear();
  if (!images.has(key)) images.set(key, makeImage(numbers, head, columns, top, hides));
  return images.get(key);
}
function makeImage(numbers, head, columns, top, hides) {
  const levels = numbers.levelsOf(head);
  const rows = levels.length / columns;
  const image = new ImageData(columns, rows);
  const colours = new Uint32Array(levelColours(numbers.tops[head], top).buffer);
  const pixels = new Uint32Array(image.data.buffer);
  const shift = numbers.most > 255 ? 8 : 0;
  const nothing = colours[0];
  for (let place = 0; place < pixels.length; place++) pixels[place] = colours[levels[place] >> shift];
  if (hides && columns > 1)
    for (let place = 0; place < pixels.length; place += columns) pixels[place] = nothing;
  const sheet = make("canvas", { width: columns, height: rows });
  sheet.getContext("2d").putImageData(image, 0, 0);
  return sheet;
}

function paintMap(canvas, which) {
  const frame = (canvas.frame = frameOf(canvas));
  const pen = canvasPen(canvas, frame);
  const windows = windowsDrawn(which);
  pen.save();
  pen.beginPath();
  pen.rect(frame.left, frame.top, frame.width, frame.height);
  pen.clip();
  pen.globalAlpha = windows.length ? 0.4 : 1;
  paintBlocks(pen, frame, which);
  pen.globalAlpha = 1;
  for (const w of windows) paintWindow(pen, frame, w, exactTop());
  if (isExact()) writeWeights(pen, frame, which, frame.view);
  paintOutlines(pen, frame, which);
  pen.restore();
  pen.strokeStyle = inks.line;
  pen.strokeRect(frame.left - 0.5, frame.top - 0.5, frame.width + 1, frame.height + 1);
  paintStrips(pen, frame, which);
  paintLabels(pen, frame);
  paintMarks(pen, frame);
}
function canvasPen(canvas, frame) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(frame.across * scale);
  canvas.height = Math.round(frame.down * scale);
  canvas.style.width = `${frame.across}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return pen;
}
function paintBlocks(pen, frame, { row, head }) {
  const { view } = frame;
  const text = textShown();
  const [down, across] = text.block;
  const image = imageOf(`${row}.${head}`, tableOf({ row }), head, text.columns, mapTop(), state.hide);
  pen.imageSmoothingEnabled = (view.k1 - view.k0) / across > frame.width * (devicePixelRatio || 1);
  pen.drawImage(
    image,
    view.k0 / across,
    view.q0 / down,
    (view.k1 - view.k0) / across,
    (view.q1 - view.q0) / down,
    frame.left,
    frame.top,
    frame.width,
    frame.height,
  );
}
function paintWindow(pen, frame, w, top) {
  const box = [frame.x(w.key), frame.y(w.query), w.keys * frame.perKey, w.queries * frame.perQuery];
  pen.fillStyle = inks.card;
  pen.fillRect(...box);
  pen.imageSmoothingEnabled = false;
  const name = `window ${w.row} ${w.head} ${w.query} ${w.key}`;
  pen.drawImage(imageOf(name, w.numbers, 0, w.keys, top, state.hide && w.key === 0), ...box);
  writeWeights(pen, frame, w, { q0: w.query, q1: w.query + w.queries, k0: w.key, k1: w.key + w.keys });
}
function paintOutlines(pen, frame, which) {
  for (const w of windowsOf(which)) {
    const width = Math.max(w.keys * frame.perKey, LEAST_OUTLINE);
    const height = Math.max(w.queries * frame.perQuery, LEAST_OUTLINE);
    const x = frame.x(w.key + w.keys / 2) - width / 2;
    const y = frame.y(w.query + w.queries / 2) - height / 2;
    Object.assign(pen, { strokeStyle: inks.card, lineWidth: 4 }).strokeRect(x, y, width, height);
    Object.assign(pen, { strokeStyle: inks.mark, lineWidth: 1.5 }).strokeRect(x, y, width, height);
  }
}
// Exact weights as numbers, where cells have room for them.
function writeWeights(pen, frame, which, { q0, q1, k0, k1 }) {
  if (frame.perKey < WRITTEN.across || frame.perQuery < WRITTEN.down) return;
  pen.font = "11px " + FONT;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const { view } = frame;
  for (let q = Math.max(q0, Math.floor(view.q0)); q < Math.min(q1, view.q1); q++)
    for (let k = Math.max(k0, Math.floor(view.k0)); k < Math.min(k1, view.k1); k++) {
      const pair = pairShown(which, { q, k });
      if (!pair.weight || (state.hide && k === 0)) continue;
      pen.fillStyle = inkOn(colour(shade(pair.weight, pair.top)));
      pen.fillText(pair.weight < 0.005 ? "0.00" : pair.weight.toFixed(2), frame.x(k + 0.5), frame.y(q + 0.5));
    }
}

// ---- one pair --------------------------------------------------------------------------------------------------
// The weight that a query gives a key: exact where a window has it, else that of their block.
function pairAt(which, query, key, windows = windowsOf(which)) {
  const w = windows.find(
    (w) => query >= w.query && query < w.query + w.queries && key >= w.key && key < w.key + w.keys,
  );
  if (!w) return blockAt(which, query, key);
  const index = (query - w.query) * w.keys + key - w.key;
  return {
    exact: true,
    q0: query,
    q1: query + 1,
    k0: key,
    k1: key + 1,
    weight: w.numbers.at(0, index),
    told: w.numbers.tell(0, index),
    top: exactTop(),
  };
}
// The same as it is drawn.
const pairShown = (which, { q, k }) => pairAt(which, q, k, windowsDrawn(which));
function blockAt(which, query, key) {
  const text = textShown();
  const [down, across] = text.block;
  const i = Math.floor(query / down);
  const j = Math.floor(key / across);
  const numbers = tableOf(which);
  const index = i * text.columns + j;
  return {
    exact: isExact(),
    q0: i * down,
    q1: Math.min((i + 1) * down, text.query_len),
    k0: j * across,
    k1: Math.min((j + 1) * across, text.kv_len),
    weight: numbers.at(which.head, index),
    told: numbers.tell(which.head, index),
    top: mapTop(),
  };
}
