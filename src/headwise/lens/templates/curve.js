// Mean weight by distance: one curve for each head that is shown.
const CURVE = { width: 320, height: 190, left: 48, right: 12, top: 10, bottom: 36 };

// The place of a distance on the axis: logarithmic in both directions, 0 in the middle.
const spread = (distance) => Math.sign(distance) * Math.log2(1 + Math.abs(distance));

function curveOf(which) {
  const text = textShown();
  const layer = layerOf(which.row);
  if (!layer || !text.distances.length) return null;
  const weights = layer.offsets.of(which.head);
  return {
    which,
    weights,
    told: (n) => layer.offsets.tell(which.head, n),
    top: layer.offsets.tops[which.head],
  };
}
// The first and the last class of distances in which any head of the shown layers has weight.
function classesShown(curves) {
  const used = new Set();
  for (const { which, weights } of curves)
    layerOf(which.row).offsets.levels.forEach((level, place) => level && used.add(place % weights.length));
  return used.size ? [Math.min(...used), Math.max(...used) + 1] : [0, 1];
}
function paintCurve() {
  at("curve-card").hidden = !textShown() || !layerOf(state.head.row);
  if (at("curve-card").hidden) return;
  const curves = headsShown().map(curveOf).filter(Boolean);
  at("curve").replaceChildren();
  CURVE.width = clampTo(at("curve").clientWidth, 220, 480);
  at("curve-caption").textContent = curves.length
    ? curveCaption()
    : "No weights by distance were kept for this head.";
  if (curves.length) at("curve").append(curvePicture(curves));
}
function curvePicture(curves) {
  const [from, to] = classesShown(curves);
  const classes = textShown().distances.slice(from, to);
  const low = spread(classes[0][0] - 0.5);
  const high = spread(classes.at(-1)[1] + 0.5);
  const top = Math.max(...curves.map((c) => c.top));
  const { width, height, left, right, bottom } = CURVE;
  const axes = {
    x: (distance) => left + ((spread(distance) - low) / (high - low || 1)) * (width - left - right),
    y: (weight) => height - bottom - shade(weight, top) * (height - bottom - CURVE.top),
  };
  const picture = draw("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Mean weight by distance",
  });
  picture.append(...weightTicks(axes, top), ...distanceTicks(axes, classes));
  for (const c of curves) picture.append(curveLine(axes, classes, c.weights.slice(from, to), c.which));
  picture.append(...hoverBars(axes, classes, curves, from));
  return picture;
}
const svgText = (x, y, words, anchor) => draw("text", { x, y, "text-anchor": anchor }, words);
function weightTicks(axes, top) {
  return scaleTicks(top)
    .filter((_, n) => n % 2 === 0 || state.scale === "log")
    .flatMap(([share, words]) => {
      const y = CURVE.height - CURVE.bottom - share * (CURVE.height - CURVE.bottom - CURVE.top);
      return [
        draw("line", { x1: CURVE.left, x2: CURVE.width - CURVE.right, y1: y, y2: y }),
        svgText(CURVE.left - 5, y + 3.5, words, "end"),
      ];
    });
}
function distanceTicks(axes, classes) {
  const first = classes[0][0];
  const last = classes.at(-1)[1];
  const y = CURVE.height - CURVE.bottom + 14;
  const found = [];
  let free = -Infinity; // where the last label ends
  for (const size of [
    -1e6, -1e5, -1e4, -1000, -100, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300, 1000, 3000, 1e4, 3e4, 1e5, 1e6,
  ]) {
    if (size < first || size > last || axes.x(size) - 12 < free) continue;
    found.push(svgText(axes.x(size), y, grouped(size), "middle"));
    free = axes.x(size) + 4 * grouped(size).length;
  }
  const words =
    first < 0 ? "← keys after · tokens apart · keys before →" : "tokens from the query back to the key";
  found.push(svgText((CURVE.left + CURVE.width - CURVE.right) / 2, CURVE.height - 5, words, "middle"));
  return found;
}
function curveLine(axes, classes, weights, which) {
  const path = classes.map(([first, last], n) => {
    const y = axes.y(weights[n]).toFixed(1);
    return `${n ? "L" : "M"}${axes.x(first - 0.5).toFixed(1)} ${y}L${axes.x(last + 0.5).toFixed(1)} ${y}`;
  });
  return draw("path", { d: path.join(""), class: same(which, state.head) ? "one" : "two" });
}
function hoverBars(axes, classes, curves, from) {
  return classes.map(([first, last], n) => {
    const x = axes.x(first - 0.5);
    const words = curves.map((c) => `${headName(c.which)}: ${c.told(from + n)}`).join(", ");
    const away = first === last ? grouped(first) : `${grouped(first)} to ${grouped(last)}`;
    return draw(
      "rect",
      { x, y: CURVE.top, width: axes.x(last + 0.5) - x, height: CURVE.height - CURVE.bottom - CURVE.top },
      draw("title", {}, `distance ${away}: ${words}`),
    );
  });
}
function curveCaption() {
  return `${headsNamed()}: mean weight of all pairs so many tokens apart. Distances on a log axis, height on the ${SCALE_NAMES[state.scale]} scale.`;
}
