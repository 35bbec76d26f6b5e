"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const root = document.documentElement;
const state = { measure: data.measures[0].name, row: 0, head: 0, query: null, pointer: null };
const layers = new Map(); // decoded maps, one array of bytes for each layer
const MARGIN = { left: 96, top: 92, strip: 12, gap: 3 };

// ---- colours ---------------------------------------------------------------------------------------------------
let ramp = [];
function readRamp() {
  const style = getComputedStyle(root);
  ramp = [0, 1, 2, 3, 4].map((k) => style.getPropertyValue(`--r${k}`).split(",").map(Number));
}
function colour(share) {
  const x = Math.min(Math.max(share, 0), 1) * 4, k = Math.min(Math.floor(x), 3), f = x - k;
  return ramp[k].map((c, i) => Math.round(c + (ramp[k + 1][i] - c) * f));
}
const css = (rgb) => `rgb(${rgb.join(",")})`;
const inkOn = (rgb) => (0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140 ? "#10141b" : "#ffffff");
function setTheme(dark) {
  root.classList.toggle("dark", dark);
  readRamp();
}

// ---- numbers ---------------------------------------------------------------------------------------------------
const measure = (name) => data.measures.find((m) => m.name === name);
function short(x) {
  if (x === null) return "–";
  const size = Math.abs(x);
  return size >= 100 ? x.toFixed(0) : size >= 10 ? x.toFixed(1) : x.toFixed(size < 0.095 && size > 0 ? 3 : 2);
}
const headName = (row, head) => `${data.layers[row]}.${head}`;
const token = (j) => (data.tokens ? data.tokens[j] : `#${j}`);
const visibleToken = (j) => token(j).replace(/\n/g, "⏎").replace(/\t/g, "⇥").trim() || "␣";

// ---- the grid --------------------------------------------------------------------------------------------------
function buildGrid() {
  const grid = at("grid"), heads = data.num_heads;
  grid.classList.toggle("dense", heads > 16);
  const top = grid.createTHead().insertRow();
  top.append(document.createElement("th"));
  for (let h = 0; h < heads; h++) {
    const th = document.createElement("th");
    th.textContent = heads > 16 && h % 4 ? "" : h;
    top.append(th);
  }
  const body = grid.createTBody();
  data.layers.forEach((layer, row) => {
    const line = body.insertRow(), th = document.createElement("th");
    th.textContent = layer;
    line.append(th);
    for (let h = 0; h < heads; h++) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.row = row;
      button.dataset.head = h;
      button.addEventListener("click", () => select(row, h));
      line.insertCell().append(button);
    }
  });
  grid.addEventListener("keydown", moveFocus);
}
function moveFocus(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step || !event.target.dataset.row) return;
  const row = +event.target.dataset.row + step[0], head = +event.target.dataset.head + step[1];
  const next = document.querySelector(`#grid button[data-row="${row}"][data-head="${head}"]`);
  if (!next) return;
  event.preventDefault();
  next.focus();
  select(row, head);
}
function paintGrid() {
  const m = measure(state.measure);
  at("meaning").textContent = `${m.meaning[0].toUpperCase()}${m.meaning.slice(1)} (${m.unit_text}).`;
  at("formula").textContent = m.formula;
  at("low").textContent = "0";
  at("high").textContent = m.top === 1 ? "1" : `${short(m.top)} (largest here)`;
  for (const button of document.querySelectorAll("#grid button")) {
    const row = +button.dataset.row, head = +button.dataset.head, x = m.values[row][head];
    const rgb = colour(x / m.top);
    button.style.background = css(rgb);
    button.style.color = inkOn(rgb);
    button.textContent = short(x);
    button.title = `head ${headName(row, head)}: ${m.name} ${short(x)}`;
    button.setAttribute("aria-label", button.title);
    button.setAttribute("aria-pressed", row === state.row && head === state.head);
  }
}
function buildKinds() {
  for (const kind of data.kinds) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = kind.label;
    for (const [row, head, x] of kind.heads) {
      const button = document.createElement("button"), name = document.createElement("b");
      button.type = "button";
      name.textContent = headName(row, head);
      button.append(name, ` ${short(x)}`);
      button.classList.toggle("weak", x < kind.least);
      button.title = x < kind.least ? `below ${kind.least}: not clearly of this kind` : "";
      button.addEventListener("click", () => {
        at("measure").value = state.measure = kind.measure;
        select(row, head);
      });
      dd.append(button);
    }
    at("kinds").append(dt, dd);
  }
}

// ---- one head --------------------------------------------------------------------------------------------------
async function decode(row) {
  if (!layers.has(row)) {
    const packed = Uint8Array.from(atob(data.maps[row].weights), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    layers.set(row, new Uint8Array(await new Response(stream).arrayBuffer()));
  }
  return layers.get(row);
}
function weightsOf(row, head) {
  const cells = data.rows * data.columns;
  return layers.get(row).subarray(head * cells, (head + 1) * cells);
}
const weightAt = (bytes, i, j) => (bytes[i * data.columns + j] / 255) ** 2;
function shade(w, top) {
  const kind = at("scale").value, x = top > 0 ? w / top : 0;
  return kind === "linear" ? x : kind === "sqrt" ? Math.sqrt(x) : x > 0 ? Math.max(0, 1 + Math.log10(x) / 4) : 0;
}
function geometry() {
  const canvas = at("map"), width = Math.min(canvas.parentElement.clientWidth - 40, 820);
  const left = data.tokens ? MARGIN.left : 44, top = (data.tokens ? MARGIN.top : 30) + MARGIN.strip;
  const inner = width - left - MARGIN.strip - 2 * MARGIN.gap;
  return { width, left, top, inner, cell: inner / data.columns, tall: (inner * data.rows) / data.columns };
}
function firstShown() {
  return at("hide").checked && data.columns > 1 ? 1 : 0;
}
function drawMap() {
  const bytes = weightsOf(state.row, state.head), g = geometry(), canvas = at("map"), scale = devicePixelRatio || 1;
  canvas.width = g.width * scale;
  canvas.height = (g.top + g.tall + 4) * scale;
  canvas.style.aspectRatio = `${canvas.width} / ${canvas.height}`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(mapImage(bytes), g.left, g.top, g.inner, g.tall);
  pen.strokeStyle = getComputedStyle(root).getPropertyValue("--line");
  pen.strokeRect(g.left - 0.5, g.top - 0.5, g.inner + 1, g.tall + 1);
  drawStrips(pen, g);
  drawLabels(pen, g);
}
function mapImage(bytes) {
  const image = new ImageData(data.columns, data.rows), from = firstShown();
  let top = 0;
  for (let i = 0; i < data.rows; i++) for (let j = from; j < data.columns; j++) top = Math.max(top, weightAt(bytes, i, j));
  for (let i = 0; i < data.rows; i++)
    for (let j = 0; j < data.columns; j++) {
      const rgb = colour(j < from ? 0 : shade(weightAt(bytes, i, j), top));
      image.data.set([...rgb, 255], 4 * (i * data.columns + j));
    }
  const sheet = document.createElement("canvas");
  sheet.width = data.columns;
  sheet.height = data.rows;
  sheet.getContext("2d").putImageData(image, 0, 0);
  return sheet;
}
function drawStrips(pen, g) {
  const map = data.maps[state.row], received = map.received[state.head], entropy = map.entropy[state.head];
  const from = firstShown(), most = Math.max(...received.slice(from)), spread = Math.max(...entropy);
  received.forEach((x, j) => {
    pen.fillStyle = css(colour(j < from || !most ? 0 : x / most));
    pen.fillRect(g.left + j * g.cell, g.top - MARGIN.strip - MARGIN.gap, g.cell + 0.5, MARGIN.strip);
  });
  entropy.forEach((x, i) => {
    pen.fillStyle = css(colour(spread ? x / spread : 0));
    pen.fillRect(g.left + g.inner + MARGIN.gap, g.top + i * g.cell, MARGIN.strip, g.cell + 0.5);
  });
}
function label(index) {
  const text = data.block > 1 ? `${index * data.block}` : visibleToken(index);
  return text.length > 12 ? `${text.slice(0, 11)}…` : text;
}
function drawLabels(pen, g) {
  const style = getComputedStyle(root), step = Math.max(1, Math.ceil(11 / g.cell));
  const marked = state.pointer || (state.query === null ? null : { i: state.query, j: -1 });
  const write = (text, x, y, turned, strong) => {
    pen.save();
    pen.translate(x, y);
    if (turned) pen.rotate(-Math.PI / 3);
    pen.font = `${strong ? "600 12px" : "10px"} system-ui, sans-serif`;
    pen.fillStyle = style.getPropertyValue(strong ? "--accent" : "--soft");
    pen.textAlign = turned ? "left" : "right";
    pen.textBaseline = "middle";
    pen.fillText(text, 0, 0);
    pen.restore();
  };
  const above = g.top - MARGIN.strip - 2 * MARGIN.gap - 4;
  for (let i = 0; i < data.rows; i += step)
    if (!marked || Math.abs(i - marked.i) * g.cell > 12) write(label(i), g.left - 6, g.top + (i + 0.5) * g.cell, false, false);
  for (let j = 0; j < data.columns; j += step)
    if (!marked || Math.abs(j - marked.j) * g.cell > 12) write(label(j), g.left + (j + 0.5) * g.cell, above, true, false);
  if (!marked) return;
  write(label(marked.i), g.left - 6, g.top + (marked.i + 0.5) * g.cell, false, true);
  if (marked.j >= 0) write(label(marked.j), g.left + (marked.j + 0.5) * g.cell, above, true, true);
  pen.strokeStyle = style.getPropertyValue("--accent");
  pen.strokeRect(g.left, g.top + marked.i * g.cell, g.inner, Math.max(g.cell, 2));
  if (marked.j >= 0) pen.strokeRect(g.left + marked.j * g.cell, g.top, Math.max(g.cell, 2), g.tall);
}
function span(index, length) {
  const first = index * data.block, last = Math.min(first + data.block, length) - 1;
  return first === last ? `${first} “${visibleToken(first)}”` : `${first}–${last}`;
}
function say() {
  const p = state.pointer, bytes = weightsOf(state.row, state.head);
  if (p) {
    const w = weightAt(bytes, p.i, p.j);
    at("readout").textContent = `query ${span(p.i, data.query_len)} → key ${span(p.j, data.kv_len)}: ${w < 0.0005 ? "< 0.001" : w.toPrecision(2)}`;
  } else if (state.query !== null) {
    at("readout").textContent = `query ${span(state.query, data.query_len)} is chosen; Esc lets it go`;
  } else {
    at("readout").textContent = "Point at the map for a weight; click a row or a token to choose a query.";
  }
}
function paintText() {
  const text = at("text"), map = data.maps[state.row];
  text.replaceChildren();
  if (!data.tokens) {
    at("text-title").hidden = true;
    return;
  }
  const chosen = state.query !== null, limit = 800;
  const centre = chosen ? state.query * data.block : 0, from = Math.max(0, Math.min(centre - limit / 2, data.kv_len - limit));
  const to = Math.min(data.kv_len, from + limit);
  const numbers = chosen
    ? Array.from({ length: data.columns }, (_, j) => weightAt(weightsOf(state.row, state.head), state.query, j))
    : map.received[state.head];
  const first = firstShown(), most = Math.max(...numbers.slice(first));
  at("text-title").textContent = (chosen ? "Tokens by the weight that the chosen query gives them" : "Tokens by what they receive") +
    (to - from < data.kv_len ? `: ${from} to ${to - 1} of ${data.kv_len}` : "");
  for (let j = from; j < to; j++) {
    const cell = Math.floor(j / data.block), piece = document.createElement("span");
    const rgb = colour(cell < first || !most ? 0 : shade(numbers[cell], most));
    piece.textContent = token(j);
    piece.style.background = css(rgb);
    piece.style.color = inkOn(rgb);
    piece.title = `${j}: ${short(numbers[cell])}`;
    piece.classList.toggle("query", chosen && data.rows === data.columns && cell === state.query);
    if (cell < data.rows) piece.addEventListener("click", () => choose(cell));
    text.append(piece);
  }
}
function paintNumbers() {
  const table = at("numbers");
  table.replaceChildren();
  for (const m of data.measures) {
    const line = table.insertRow();
    for (const cell of [m.name, short(m.values[state.row][state.head]), `${m.meaning} (${m.unit_text})`])
      line.insertCell().textContent = cell;
  }
}
function paintHead() {
  at("one-title").textContent = `Head ${headName(state.row, state.head)}`;
  at("map-caption").textContent =
    `Head ${headName(state.row, state.head)}, ${data.query_len} queries down, ${data.kv_len} keys across. ` +
    (data.block > 1 ? `Each cell is the mean weight over ${data.block} × ${data.block} pairs. ` : "Each cell is one weight, to two digits. ") +
    "Each row of weights adds to 1. Above: mean weight a key receives from the queries that see it; at the side: entropy of each query's weights" +
    (data.block > 1 ? ", both as means of a block" : "") + `. Nothing is averaged over heads.${firstShown() ? " The first key is hidden." : ""}`;
  drawMap();
  say();
  paintText();
  paintNumbers();
}
async function select(row, head) {
  state.row = row;
  state.head = head;
  paintGrid();
  await decode(row);
  paintHead();
}
function choose(query) {
  state.query = query;
  drawMap();
  say();
  paintText();
}

// ---- events ----------------------------------------------------------------------------------------------------
function cellUnder(event) {
  const box = at("map").getBoundingClientRect(), g = geometry(), zoom = g.width / box.width;
  const j = Math.floor(((event.clientX - box.left) * zoom - g.left) / g.cell);
  const i = Math.floor(((event.clientY - box.top) * zoom - g.top) / g.cell);
  return i >= 0 && j >= 0 && i < data.rows && j < data.columns ? { i, j } : null;
}
function listen() {
  at("measure").addEventListener("change", (event) => {
    state.measure = event.target.value;
    paintGrid();
  });
  for (const id of ["scale", "hide"]) at(id).addEventListener("change", paintHead);
  at("map").addEventListener("pointermove", (event) => {
    state.pointer = cellUnder(event);
    drawMap();
    say();
  });
  at("map").addEventListener("pointerleave", () => {
    state.pointer = null;
    drawMap();
    say();
  });
  at("map").addEventListener("click", (event) => {
    const cell = cellUnder(event);
    if (cell) choose(cell.i);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") choose(null);
  });
  at("theme").addEventListener("click", () => {
    setTheme(!root.classList.contains("dark"));
    paintGrid();
    paintHead();
  });
  addEventListener("resize", drawMap);
}
function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
  for (const m of data.measures) at("measure").append(new Option(m.name, m.name));
  buildGrid();
  buildKinds();
  listen();
  const best = data.kinds.flatMap((k) => k.heads.slice(0, 1).map(([row, head, x]) => ({ k, row, head, x })))
    .find((entry) => entry.k.measure === "induction") || { row: 0, head: 0, k: { measure: state.measure } };
  at("measure").value = state.measure = best.k.measure;
  select(best.row, best.head);
}
start();
