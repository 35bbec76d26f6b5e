// The grid of layers and heads, coloured by a measure.
const ROOMY = 30; // pixels of a cell from which on its number is written
let cells = []; // buttons, row by row

function buildMeasures() {
  const groups = new Map();
  for (const m of data.measures) {
    if (!groups.has(m.group)) groups.set(m.group, make("optgroup", { label: m.group }));
    groups.get(m.group).append(new Option(words(m.name), m.name));
  }
  at("measure").append(...groups.values());
  at("measure").addEventListener("change", (event) => chooseMeasure(event.target.value));
}
function chooseMeasure(name) {
  update({ measure: name, least: measureNamed(name).least, listed: 10 });
}

function buildGrid() {
  const grid = at("grid");
  const heads = data.num_heads;
  const step = heads > 24 ? 4 : heads > 16 ? 2 : 1;
  const numbers = Array.from({ length: heads }, (_, h) =>
    make("th", { scope: "col", textContent: h % step ? "" : data.heads[h] }),
  );
  grid
    .createTHead()
    .insertRow()
    .append(make("th"), ...numbers);
  const body = grid.createTBody();
  cells = data.layers.map((layer, row) => {
    const buttons = Array.from({ length: heads }, (_, head) => cellButton(row, head));
    body
      .insertRow()
      .append(
        make("th", { scope: "row", textContent: layer }),
        ...buttons.map((button) => make("td", { role: "gridcell" }, button)),
      );
    return buttons;
  });
  grid.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) select(+button.dataset.row, +button.dataset.head);
  });
  grid.addEventListener("keydown", moveInGrid);
}
function cellButton(row, head) {
  const button = make("button", { type: "button", tabIndex: -1 });
  Object.assign(button.dataset, { row, head });
  return button;
}
function moveInGrid(event) {
  const { row, head } = wantedState().head;
  const rows = cells.length - 1;
  const heads = data.num_heads - 1;
  const goal = {
    ArrowLeft: [row, head - 1],
    ArrowRight: [row, head + 1],
    ArrowUp: [row - 1, head],
    ArrowDown: [row + 1, head],
    Home: [row, 0],
    End: [row, heads],
    PageUp: [0, head],
    PageDown: [rows, head],
  }[event.key];
  if (!goal || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const [r, h] = [Math.min(Math.max(goal[0], 0), rows), Math.min(Math.max(goal[1], 0), heads)];
  select(r, h);
  cells[r][h].focus();
}

function paintGrid() {
  const m = measureNamed(state.measure);
  const grid = at("grid");
  const room = (at("grid").parentElement.clientWidth - 40) / data.num_heads;
  grid.classList.toggle("dense", room < ROOMY);
  cells.forEach((buttons, row) => buttons.forEach((button, head) => paintCell(button, m, { row, head })));
}
function paintCell(button, m, which) {
  const x = m ? numberOf(m, which) : null;
  const none = x === null;
  const rgb = none ? ramp[0] : colour((x - m.low) / (m.top - m.low));
  const current = same(which, state.head);
  button.style.background = none ? "" : css(rgb);
  button.style.color = none ? "" : inkOn(rgb);
  button.className = none ? "none" : "";
  button.textContent = none ? "–" : brief(x);
  button.title = `head ${headName(which)}: ${m ? `${words(m.name)} ${short(x)}` : "no number"}`;
  button.setAttribute("aria-label", button.title);
  button.parentElement.setAttribute("aria-selected", current);
  button.toggleAttribute("data-pinned", same(which, state.pinned));
  button.tabIndex = current ? 0 : -1;
}
function paintMeasure() {
  const m = measureNamed(state.measure);
  at("explain").hidden = at("grid-legend").hidden = !m;
  at("grid-caption").textContent = "Rows are layers, columns are heads, both counted from 0.";
  if (!m) return;
  at("measure").value = m.name;
  at("meaning").textContent = `${sentence(m.meaning)} (${m.unit}).`;
  at("formula").textContent = m.formula;
  at("source").textContent = m.source;
  const none = m.values.flat().filter((x) => x === null).length;
  const ticks = [0, 0.5, 1].map((t) => [t, short(m.low + t * (m.top - m.low))]);
  const swatch = make("span", { className: "swatch" }, make("i", { className: "none" }), "none");
  paintLegend(at("grid-legend"), ticks, ...(none ? [swatch] : []));
  if (none)
    at("grid-caption").textContent +=
      ` ${plural(none, "head")} of ${grouped(data.layers.length * data.num_heads)} have no number here.`;
}
