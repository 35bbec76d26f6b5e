// What stands around and upon a map: strips, labels, the chosen query, the pair under the pointer.
const FONT = '-apple-system, "Segoe UI", "Helvetica Neue", Arial, "Noto Sans", sans-serif';

// ---- strips ----------------------------------------------------------------------------------------------------
// One number after another, each standing for `by` tokens.
function stripOf(numbers, head, length, hides) {
  const values = numbers.of(head);
  const by = Math.ceil(length / values.length);
  if (hides) values[0] = 0;
  return { values, by, top: Math.max(...values, 0) };
}
const receivedStrip = ({ row, head }) => stripOf(layerOf(row).received, head, textShown().kv_len, state.hide);
const entropyStrip = ({ row, head }) => stripOf(layerOf(row).entropy, head, textShown().query_len, false);

function paintStrips(pen, frame, which) {
  const base = frame.top - GAP;
  const side = frame.left + frame.width + GAP;
  pen.fillStyle = inks.strip;
  const received = eachBar(receivedStrip(which), frame.view.k0, frame.view.k1, (first, end, share) =>
    pen.fillRect(frame.x(first), base, barWidth(frame.x(end) - frame.x(first)), -share * STRIP),
  );
  const entropy = eachBar(entropyStrip(which), frame.view.q0, frame.view.q1, (first, end, share) =>
    pen.fillRect(side, frame.y(first), share * STRIP, barWidth(frame.y(end) - frame.y(first))),
  );
  pen.font = "10px " + FONT;
  pen.fillStyle = inks.soft;
  pen.textBaseline = "alphabetic";
  pen.textAlign = "right";
  pen.fillText("received", frame.left - 6, base - 14);
  pen.fillText(`to ${digits(received, 2)}`, frame.left - 6, base - 2);
  pen.textAlign = "left";
  pen.fillText("entropy", side, base - 14);
  pen.fillText(`to ${digits(entropy, 2)}`, side, base - 2);
}
const barWidth = (room) => Math.max(room - (room > 4 ? 1 : 0), 0.5);
// Draws a bar for each number in the view, and returns the largest one: the full height.
function eachBar({ values, by }, from, to, bar) {
  const first = Math.floor(from / by);
  const shown = values.slice(first, Math.ceil(to / by));
  const top = Math.max(...shown, 0);
  shown.forEach((x, n) => {
    if (x) bar(Math.max((first + n) * by, from), Math.min((first + n + 1) * by, to), x / top);
  });
  return top;
}

// ---- labels ----------------------------------------------------------------------------------------------------
function writeAt(pen, text, [x, y], { strong, turned = false, align = turned ? "left" : "right", room = 0 }) {
  pen.save();
  pen.translate(x, y);
  if (turned) pen.rotate(-Math.PI / 3);
  pen.font = `${strong ? "600 12px" : "11px"} ${FONT}`;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  if (strong) {
    const width = Math.max(pen.measureText(text).width, room);
    pen.fillStyle = inks.card;
    pen.fillRect((align === "right" ? -width : align === "center" ? -width / 2 : 0) - 3, -10, width + 6, 20);
  }
  pen.fillStyle = strong ? inks.mark : inks.soft;
  pen.fillText(text, 0, 0);
  pen.restore();
}
// Round steps, 1, 2 or 5 times a power of ten, that leave `room` pixels between two labels.
function stepFor(room, perToken) {
  const least = room / perToken;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least);
}
function places(from, to, step) {
  const found = [];
  for (let n = Math.ceil(from / step) * step; n < to; n += step) found.push(n);
  return found;
}
function paintLabels(pen, frame) {
  const { view } = frame;
  const steps = [
    frame.namesQueries ? 1 : stepFor(26, frame.perQuery),
    frame.namesKeys ? 1 : stepFor(58, frame.perKey),
  ];
  for (const q of places(view.q0, view.q1, steps[0])) labelQuery(pen, frame, q, false);
  for (const k of places(view.k0, view.k1, steps[1])) labelKey(pen, frame, k, false);
}
// Strong labels are those of the pair under the pointer and of the chosen query; `named` ones are tokens.
function labelQuery(pen, frame, query, strong, named = frame.namesQueries) {
  const y = clampTo(frame.y(query + 0.5), frame.top, frame.top + frame.height);
  const words = named ? label(positionOf(query), frame.namesQueries ? 11 : 7) : grouped(query);
  writeAt(pen, words, [frame.left - 6, y], { strong, room: frame.left - 9 });
}
function labelKey(pen, frame, key, strong, named = frame.namesKeys) {
  const end = frame.left + frame.width;
  const x = clampTo(frame.x(key + 0.5), frame.left, end);
  const y = frame.top - STRIP - GAP;
  if (frame.namesKeys) return writeAt(pen, label(key, 10), [x, y - 5], { turned: true, strong });
  const align = x > end - 40 ? "right" : x < frame.left + 40 ? "left" : "center";
  writeAt(pen, named ? label(key, 14) : grouped(key), [x, y - 9], { align, strong });
}

// ---- marks -----------------------------------------------------------------------------------------------------
function paintMarks(pen, frame) {
  pen.strokeStyle = inks.mark;
  if (state.query !== null) paintQuery(pen, frame);
  if (state.cell) paintCross(pen, frame, pairShown(headsShown().at(-1), state.cell));
  if (state.band) {
    const { x0, y0, x1, y1 } = state.band;
    pen.setLineDash([4, 3]);
    pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
    pen.setLineDash([]);
  }
}
function paintQuery(pen, frame) {
  const y = frame.y(state.query);
  const height = Math.max(frame.perQuery, 2);
  if (y + height < frame.top || y > frame.top + frame.height) return;
  pen.strokeRect(frame.left, y, frame.width, height);
  if (!state.cell) labelQuery(pen, frame, state.query, true, Boolean(tokensShown()));
}
function paintCross(pen, frame, pair) {
  pen.save();
  pen.beginPath();
  pen.rect(frame.left - 1, frame.top - 1, frame.width + 2, frame.height + 2);
  pen.clip();
  pen.globalAlpha = 0.75;
  pen.strokeRect(frame.left, frame.y(pair.q0), frame.width, (pair.q1 - pair.q0) * frame.perQuery);
  pen.strokeRect(frame.x(pair.k0), frame.top, (pair.k1 - pair.k0) * frame.perKey, frame.height);
  pen.restore();
  const named = pair.exact && Boolean(tokensShown());
  labelQuery(pen, frame, pair.q0, true, named);
  labelKey(pen, frame, pair.k0, true, named);
}
