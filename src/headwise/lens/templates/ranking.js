// The strongest heads: a few of each kind, and the list of all by the chosen measure.
const OF_EACH_KIND = 3;

function ranked(m, ascending = false) {
  const found = m.values.flatMap((line, row) => line.map((x, head) => ({ row, head, x })));
  const sign = ascending ? 1 : -1;
  return found.filter(({ x }) => x !== null).sort((a, b) => sign * (a.x - b.x));
}

function buildKinds() {
  const kinds = data.measures.filter((m) => m.kind && m.values.flat().some((x) => x !== null));
  at("kinds-part").hidden = !kinds.length;
  for (const m of kinds) {
    const buttons = ranked(m)
      .slice(0, OF_EACH_KIND)
      .map((which) => kindButton(m, which));
    at("kinds").append(
      make("dt", { textContent: m.kind, title: sentence(m.meaning) }),
      make("dd", {}, ...buttons),
    );
  }
}
function kindButton(m, which) {
  const weak = which.x < m.least;
  const button = make(
    "button",
    { type: "button", className: weak ? "weak" : "" },
    make("b", { textContent: headName(which) }),
    ` ${short(which.x)}`,
  );
  if (weak) button.title = `below ${m.least}: not clearly of this kind`;
  button.addEventListener("click", () => {
    chooseMeasure(m.name);
    select(which.row, which.head);
  });
  return button;
}

// ---- the list --------------------------------------------------------------------------------------------------
function listed() {
  const m = measureNamed(state.measure);
  if (!m) return [];
  const wanted = state.only.trim();
  const layer = wanted.replace(/\.$/, "");
  return ranked(m, state.ascending).filter(
    (which) =>
      which.x >= state.least &&
      (!wanted || headName(which) === wanted || String(data.layers[which.row]) === layer),
  );
}
function buildList() {
  at("list-part").hidden = !data.measures.length;
  at("list-only").addEventListener("input", (event) => update({ only: event.target.value }));
  at("list-least").addEventListener("input", (event) => update({ least: event.target.valueAsNumber || 0 }));
  at("list-order").addEventListener("click", () => update({ ascending: !state.ascending }));
  at("list-more").addEventListener("click", () => update({ listed: state.listed > 10 ? 10 : Infinity }));
}
function paintList() {
  const m = measureNamed(state.measure);
  if (!m) return;
  const found = listed();
  const all = m.values.flat().length;
  at("list-measure").textContent = words(m.name);
  if (at("list-least") !== document.activeElement) at("list-least").value = state.least;
  at("list-order").textContent = state.ascending ? "↑ least" : "↓ most";
  at("list-count").textContent = found.length
    ? `${grouped(found.length)} of ${plural(all, "head")}`
    : "No head is like this.";
  at("list").replaceChildren(...found.slice(0, state.listed).map((which) => listLine(m, which)));
  at("list-more").hidden = found.length <= 10;
  at("list-more").textContent = state.listed > 10 ? "Show ten" : `Show all ${grouped(found.length)}`;
}
function listLine(m, which) {
  const bar = make("i", { className: "bar" });
  bar.style.width = `${(100 * (which.x - m.low)) / (m.top - m.low)}%`;
  const button = make(
    "button",
    { type: "button" },
    make("b", { textContent: headName(which) }),
    make("span", {}, bar),
    make("span", { textContent: short(which.x) }),
  );
  button.setAttribute("aria-current", same(which, state.head));
  button.addEventListener("click", () => select(which.row, which.head));
  return make("li", {}, button);
}
function step(by) {
  const found = listed();
  if (!found.length) return;
  const now = found.findIndex((which) => same(which, wantedState().head));
  const next = found[now < 0 ? 0 : (now + by + found.length) % found.length];
  select(next.row, next.head);
}
