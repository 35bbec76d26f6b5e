// Colours and scales: how a weight becomes a shade.
const LOG_DECADES = 4;
let ramp = []; // five colours from nothing to the most, from the style
let inks = {}; // named colours of the style, for canvases

function readColours() {
  const style = getComputedStyle(root);
  const named = (name) => style.getPropertyValue(`--${name}`).trim();
  ramp = [0, 1, 2, 3, 4].map((k) => named(`r${k}`).split(",").map(Number));
  inks = Object.fromEntries(["soft", "line", "card", "mark", "strip"].map((name) => [name, named(name)]));
}
function colour(share) {
  const x = Math.min(Math.max(share, 0), 1) * 4;
  const k = Math.min(Math.floor(x), 3);
  const f = x - k;
  return ramp[k].map((c, i) => Math.round(c + (ramp[k + 1][i] - c) * f));
}
const css = (rgb) => `rgb(${rgb.join(",")})`;
const inkOn = (rgb) => (0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140 ? "#12161d" : "#ffffff");

// Where a weight lies on the scale, 0 to 1, and the weight that lies there.
const SCALES = {
  linear: { shade: (share) => share, share: (shade) => shade },
  sqrt: { shade: Math.sqrt, share: (shade) => shade ** 2 },
  log: {
    shade: (share) => (share > 0 ? Math.max(0, 1 + Math.log10(share) / LOG_DECADES) : 0),
    share: (shade) => 10 ** (LOG_DECADES * (shade - 1)),
  },
};
const shade = (weight, top) => (top > 0 ? SCALES[state.scale].shade(weight / top) : 0);
// The weights at the ticks of the scale, as [place from 0 to 1, text].
function scaleTicks(top) {
  const { share } = SCALES[state.scale];
  return [0, 0.25, 0.5, 0.75, 1].map((t) => [
    t,
    `${state.scale === "log" && t === 0 ? "≤ " : ""}${digits(top * share(t), 2)}`,
  ]);
}
// Colours of the levels of packed numbers, 256 of them, as bytes for an image.
function levelColours(headTop, top) {
  const bytes = new Uint8ClampedArray(4 * 256);
  for (let level = 0; level < 256; level++)
    bytes.set([...colour(level ? shade(headTop * (level / 255) ** 2, top) : 0), 255], 4 * level);
  return bytes;
}

// ---- legends ---------------------------------------------------------------------------------------------------
function paintLegend(element, ticks, ...extra) {
  const bar = make("div", { className: "ramp" });
  for (const [share, text] of ticks) {
    const tick = make("span", { textContent: text });
    tick.style.left = `${100 * share}%`;
    bar.append(tick);
  }
  element.replaceChildren(bar, ...extra);
}
