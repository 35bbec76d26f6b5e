// All numbers of the head, or of two heads and their difference.
function paintNumbers() {
  at("numbers-card").hidden = !data.measures.length;
  const heads = headsShown();
  const two = heads.length > 1;
  const table = at("numbers");
  at("numbers-title").textContent = `Numbers of ${headsNamed().toLowerCase()}`;
  table.replaceChildren();
  const titles = two
    ? ["Measure", ...heads.map(headName), "Difference", "Meaning"]
    : ["Measure", "Number", "Place", "Meaning"];
  table
    .createTHead()
    .insertRow()
    .append(...titles.map((title) => make("th", { scope: "col", textContent: title })));
  let group = null;
  for (const m of data.measures) {
    const body = m.group === group ? table.tBodies[table.tBodies.length - 1] : table.createTBody();
    group = m.group;
    body.append(two ? comparedLine(m, heads) : numberLine(m));
  }
  at("numbers-caption").textContent = two
    ? `The difference is ${headName(heads[1])} less ${headName(heads[0])}.`
    : `Place: where this head stands among all, the most first. Means over all that was looked at; heads are never averaged.`;
}
function nameCell(m) {
  const button = make("button", {
    type: "button",
    textContent: words(m.name),
    title: `${sentence(m.meaning)}. Click to colour the grid by it.`,
  });
  button.setAttribute("aria-pressed", m.name === state.measure);
  button.addEventListener("click", () => chooseMeasure(m.name));
  return make("th", { scope: "row" }, button);
}
const cellOf = (textContent) => make("td", { textContent });
function numberLine(m) {
  const x = numberOf(m, state.head);
  const order = ranked(m);
  const place = order.filter((other) => other.x > x).length + 1;
  return make(
    "tr",
    {},
    nameCell(m),
    cellOf(short(x)),
    cellOf(x === null ? "" : `${grouped(place)} of ${grouped(order.length)}`),
    cellOf(`${sentence(m.meaning)} (${m.unit})`),
  );
}
function comparedLine(m, heads) {
  const [a, b] = heads.map((which) => numberOf(m, which));
  const difference = a === null || b === null ? null : b - a;
  const sign = difference > 0 ? "+" : difference < 0 ? "−" : "";
  return make(
    "tr",
    {},
    nameCell(m),
    cellOf(short(a)),
    cellOf(short(b)),
    cellOf(difference === null ? "none" : sign + short(Math.abs(difference))),
    cellOf(`${sentence(m.meaning)} (${m.unit})`),
  );
}
