// Hands on a map: pointer, wheel and keyboard.
const LEAST_VIEW = 4; // tokens

const clampTo = (x, least, most) => Math.min(Math.max(x, least), most);
// A view moved and cut so that it lies within the text; null where it is all of it.
function within(view) {
  const all = whole();
  const fitted = {};
  for (const [a, b] of [
    ["q0", "q1"],
    ["k0", "k1"],
  ]) {
    const size = clampTo(Math.round(view[b] - view[a]), Math.min(LEAST_VIEW, all[b]), all[b]);
    fitted[a] = clampTo(Math.round(view[a]), 0, all[b] - size);
    fitted[b] = fitted[a] + size;
  }
  return Object.keys(all).every((name) => all[name] === fitted[name]) ? null : fitted;
}
const zoomTo = (view) => update({ view: view && within(view), cell: null });
function zoomBy(factor, centre) {
  const view = viewShown();
  const { q, k } = centre ?? state.cell ?? { q: (view.q0 + view.q1) / 2, k: (view.k0 + view.k1) / 2 };
  zoomTo({
    q0: q - (q - view.q0) * factor,
    q1: q + (view.q1 - q) * factor,
    k0: k - (k - view.k0) * factor,
    k1: k + (view.k1 - k) * factor,
  });
}
function pan(down, across) {
  const view = viewShown();
  const q = down * (view.q1 - view.q0);
  const k = across * (view.k1 - view.k0);
  zoomTo({ q0: view.q0 + q, q1: view.q1 + q, k0: view.k0 + k, k1: view.k1 + k });
}
function showWindow(w) {
  zoomTo({ q0: w.query, q1: w.query + w.queries, k0: w.key, k1: w.key + w.keys });
  canvases()[0].scrollIntoView({ block: "nearest" });
}

// ---- the pointer -----------------------------------------------------------------------------------------------
function pixelOf(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}
function pairUnder(frame, { x, y }) {
  const k = Math.floor(frame.view.k0 + (x - frame.left) / frame.perKey);
  const q = Math.floor(frame.view.q0 + (y - frame.top) / frame.perQuery);
  return x >= frame.left && y >= frame.top && k < frame.view.k1 && q < frame.view.q1 ? { q, k } : null;
}
function bandTo(frame, from, to) {
  const x = (px) => clampTo(px, frame.left, frame.left + frame.width);
  const y = (px) => clampTo(px, frame.top, frame.top + frame.height);
  return {
    x0: Math.min(x(from.x), x(to.x)),
    x1: Math.max(x(from.x), x(to.x)),
    y0: Math.min(y(from.y), y(to.y)),
    y1: Math.max(y(from.y), y(to.y)),
  };
}
function zoomToBand({ view, left, top, perKey, perQuery }, { x0, x1, y0, y1 }) {
  zoomTo({
    k0: view.k0 + (x0 - left) / perKey,
    k1: view.k0 + (x1 - left) / perKey,
    q0: view.q0 + (y0 - top) / perQuery,
    q1: view.q0 + (y1 - top) / perQuery,
  });
}
function listenToMap(canvas) {
  let start = null; // where the button went down
  let dragged = false; // whether it went up somewhere else
  const listen = (name, act) => canvas.addEventListener(name, act);
  listen("pointerdown", (event) => {
    dragged = false;
    if (event.button !== 0 || event.pointerType === "touch") return;
    start = pixelOf(event);
    canvas.setPointerCapture(event.pointerId);
  });
  listen("pointermove", (event) => {
    const here = pixelOf(event);
    dragged ||= Boolean(start && Math.hypot(here.x - start.x, here.y - start.y) > 5);
    if (start && dragged) update({ band: bandTo(canvas.frame, start, here), cell: null });
    else update({ cell: pairUnder(canvas.frame, here) });
  });
  listen("pointerup", () => {
    if (state.band) zoomToBand(canvas.frame, state.band);
    start = null;
    update({ band: null });
  });
  listen("click", (event) => {
    const pair = !dragged && pairUnder(canvas.frame, pixelOf(event));
    if (pair) chooseFromMap(pair);
  });
  listen("pointerleave", () => start || update({ cell: null }));
  listen("pointercancel", () => {
    start = null;
    update({ band: null, cell: null });
  });
  listen("keydown", keyOnMap);
  canvas.addEventListener("wheel", (event) => wheelOn(canvas, event), { passive: false });
}
function wheelOn(canvas, event) {
  if (!event.ctrlKey && !event.metaKey) return; // the plain wheel scrolls the page
  event.preventDefault();
  zoomBy(event.deltaY < 0 ? 0.8 : 1.25, pairUnder(canvas.frame, pixelOf(event)));
}
// In a pooled map a click means the query of that block whose largest weights are listed, if one is.
function chooseFromMap({ q, k }) {
  const pair = pairShown(headsShown().at(-1), { q, k });
  const listed = listedQuery(q);
  choose(!pair.exact && listed !== null && listed >= pair.q0 && listed < pair.q1 ? listed : q);
}

// ---- the keyboard ----------------------------------------------------------------------------------------------
function keyOnMap(event) {
  const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || !textShown()) return;
  if (move && event.shiftKey) pan(move[0] / 4, move[1] / 4);
  else if (move) moveCell(...move);
  else if (event.key === "Enter" && state.cell) chooseFromMap(state.cell);
  else return;
  event.preventDefault();
}
function moveCell(down, across) {
  const view = viewShown();
  const from = state.cell ?? { q: state.query ?? view.q0, k: view.k0 };
  const pair = pairShown(headsShown().at(-1), from);
  const q = !state.cell || !down ? from.q : down > 0 ? pair.q1 : pair.q0 - 1;
  const k = !state.cell || !across ? from.k : across > 0 ? pair.k1 : pair.k0 - 1;
  update({ cell: { q: clampTo(q, view.q0, view.q1 - 1), k: clampTo(k, view.k0, view.k1 - 1) } });
  at("announce").textContent = readout();
}
