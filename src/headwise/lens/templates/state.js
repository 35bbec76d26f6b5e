// What is chosen on the page, and who repaints when it changes.
const state = {
  text: 0,
  measure: data.start.measure,
  head: { row: data.start.row, head: data.start.head },
  pinned: null,
  pool: "mean",
  scale: "sqrt",
  hide: false,
  view: null, // the zoomed part of the map, {q0, q1, k0, k1} in tokens; null is all
  query: null, // the chosen query
  key: null, // the key that was asked for in the text
  cell: null, // the pair under the pointer or the keyboard's cursor, {q, k}
  band: null, // the rectangle being drawn to zoom into, in pixels
  tokensFrom: 0,
  ascending: false,
  only: "",
  least: 0,
  listed: 10,
  theme: null,
};
const painters = []; // [names in the state, what repaints when one of them changes]
const changed = new Set();

const paintsOn = (names, paint) => painters.push([names, paint]);
function update(changes) {
  const scheduled = changed.size > 0;
  for (const [name, value] of Object.entries(changes)) {
    state[name] = value;
    changed.add(name);
  }
  if (!scheduled && changed.size) requestAnimationFrame(repaint);
}
function repaint() {
  const names = new Set(changed);
  changed.clear();
  for (const [shown, paint] of painters) if (shown.some((name) => names.has(name))) paint();
}

// Changes that wait until what they show is unpacked; later ones join those that still wait.
let waiting = null;
const wantedState = () => ({ ...state, ...waiting });
async function show(changes) {
  const mine = (waiting = { ...waiting, ...changes });
  const wanted = wantedState();
  const heads = [wanted.head, wanted.pinned].filter(Boolean);
  await Promise.all(heads.map(({ row, head }) => load(wanted.text, row, head)));
  if (mine !== waiting) return;
  waiting = null;
  update(mine);
}
const select = (row, head) => show({ head: { row, head }, cell: null });
function choose(query) {
  const text = textShown();
  const first = query === null || !text ? state.tokensFrom : firstTokenFor(positionOf(query));
  update({ query, key: null, tokensFrom: first });
}
function chooseText(number) {
  show({ text: number, view: null, query: null, key: null, cell: null, tokensFrom: 0 });
}
