// Theme, switches, help and the keys that work everywhere.
const SHORTCUTS = [
  ["Arrow keys", "in the grid: another head; on the map: another pair"],
  ["Enter", "on the map: choose the query"],
  ["[ and ]", "previous and next head of the list"],
  ["g, m", "go to the grid, to the map"],
  ["+, −, 0", "zoom in, zoom out, show all"],
  ["Shift + arrows", "on the map: move the zoomed part"],
  ["p, x", "pin the head to compare, swap the two"],
  ["c", "cells: mean or largest"],
  ["s", "scale: linear, root, log"],
  ["h", "hide or show the first key"],
  ["t", "light or dark"],
  ["Esc", "let the query go, then show all, then unpin"],
  ["Click, drag", "on the map: choose a query, zoom into a part"],
  ["Ctrl + wheel, pinch", "on the map: zoom"],
];
const COMMANDS = {
  "?": () => at("help").showModal(),
  "[": () => step(-1),
  "]": () => step(1),
  g: () => cells[state.head.row][state.head.head].focus(),
  m: () => canvases()[0].focus(),
  "+": () => zoomBy(0.5),
  "=": () => zoomBy(0.5),
  "-": () => zoomBy(2),
  0: () => zoomTo(null),
  p: togglePin,
  x: swap,
  c: () => update({ pool: state.pool === "mean" ? "max" : "mean" }),
  s: () => update({ scale: { linear: "sqrt", sqrt: "log", log: "linear" }[state.scale] }),
  h: () => update({ hide: !state.hide }),
  t: () => setTheme(state.theme === "dark" ? "light" : "dark"),
  Escape: letGo,
};

function letGo() {
  if (state.query !== null) choose(null);
  else if (state.view) zoomTo(null);
  else if (state.pinned) togglePin();
  update({ cell: null, band: null });
}
function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || at("help").open) return;
    if (event.target.closest("input:not([type=radio], [type=checkbox]), select, textarea")) return;
    const command = Object.hasOwn(COMMANDS, event.key) && COMMANDS[event.key];
    if (!command || (!textShown() && "mcsh+-=0".includes(event.key))) return;
    event.preventDefault();
    command();
  });
}

// ---- theme -----------------------------------------------------------------------------------------------------
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const printing = matchMedia("print");
let wanted = null; // the theme that was switched to; null follows the system

function setTheme(theme) {
  wanted = theme;
  followTheme();
}
function followTheme() {
  applyTheme();
  update({ theme: state.theme });
}
function applyTheme() {
  const theme = printing.matches ? "light" : (wanted ?? (darkSystem.matches ? "dark" : "light"));
  root.classList.toggle("dark", theme === "dark");
  at("theme").textContent = theme === "dark" ? "Light" : "Dark";
  at("theme").title = `Switch to ${theme === "dark" ? "light" : "dark"} (t)`;
  readColours();
  state.theme = theme;
}
function listenToTheme() {
  at("theme").addEventListener("click", COMMANDS.t);
  darkSystem.addEventListener("change", followTheme);
  printing.addEventListener("change", () => {
    followTheme();
    repaint(); // at once: the printer does not wait for the next frame
  });
}

// ---- switches --------------------------------------------------------------------------------------------------
function listenToSwitches() {
  for (const name of ["pool", "scale"])
    for (const option of document.getElementsByName(name))
      option.addEventListener("change", () => update({ [name]: option.value }));
  at("hide").addEventListener("change", (event) => update({ hide: event.target.checked }));
  const clicks = {
    "zoom-in": COMMANDS["+"],
    "zoom-out": COMMANDS["-"],
    "zoom-all": COMMANDS[0],
    "help-open": COMMANDS["?"],
    "previous-head": COMMANDS["["],
    "next-head": COMMANDS["]"],
    pin: togglePin,
    swap,
  };
  for (const [id, act] of Object.entries(clicks)) at(id).addEventListener("click", () => act());
  at("help").addEventListener("click", (event) => event.target === at("help") && at("help").close());
  at("text-choice").addEventListener("change", (event) => chooseText(event.target.selectedIndex));
}
function buildHelp() {
  for (const [keys, what] of SHORTCUTS)
    at("shortcuts").append(
      make("dt", {}, make("kbd", { textContent: keys })),
      make("dd", { textContent: what }),
    );
}
