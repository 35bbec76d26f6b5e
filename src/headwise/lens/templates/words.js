// Numbers, tokens, heads and ranges as words.
function digits(x, count) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-4) return x.toExponential(count - 1).replace("e-", "e−");
  return size >= 10 ** count ? grouped(Math.round(x)) : x.toPrecision(count);
}
const grouped = (x) => x.toLocaleString("en");
// A head's number, as tables and grids show it.
function short(x) {
  if (x === null) return "none";
  const size = Math.abs(x);
  if (size >= 1000) return grouped(Math.round(x));
  if (size !== 0 && size < 5e-4) return x.toExponential(0).replace("e-", "e−");
  return x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.095 || size === 0 ? 2 : 3);
}
// The same in a narrow cell.
const brief = (x) =>
  Math.abs(x) >= 1000
    ? `${Math.round(x / 1000)}k`
    : x.toFixed(Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2);
const plural = (count, word) => `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;
const words = (name) => name.replaceAll("_", " ");
const sentence = (text) => text[0].toUpperCase() + text.slice(1);

const headName = ({ row, head }) => `${data.layers[row]}.${data.heads[head]}`;
const measureNamed = (name) => data.measures.find((m) => m.name === name);
const numberOf = (m, { row, head }) => m.values[row][head];
const same = (a, b) => Boolean(a && b) && a.row === b.row && a.head === b.head;

// ---- tokens ----------------------------------------------------------------------------------------------------
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const keyToken = (key) => tokensShown()?.[key];
const positionOf = (query) => query + textShown().first_position;
// A token as a label: spaces are dots, so that none is lost.
function label(key, most = 12) {
  const token = keyToken(key);
  return token === undefined ? grouped(key) : cut(token.replaceAll(" ", "·"), most) || "(empty)";
}
function place(number, key) {
  const token = keyToken(key);
  return token === undefined ? grouped(number) : `${grouped(number)} “${label(key, 24)}”`;
}
const placeOfQuery = (query) => place(query, positionOf(query));
const range = (first, end) => (end - first === 1 ? grouped(first) : `${grouped(first)}–${grouped(end - 1)}`);
