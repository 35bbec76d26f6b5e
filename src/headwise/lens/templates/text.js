// The text itself, its tokens coloured by what they receive or by what the chosen query gives them.
const PAGE = 600; // tokens at a time

const firstTokenFor = (key) =>
  textShown().kv_len <= PAGE ? 0 : clampTo(Math.round(key - PAGE / 2), 0, textShown().kv_len - PAGE);

// The number each key is coloured by, as {at(key), tell(key), top, words}.
function keyNumbers(which) {
  if (state.query === null) return receivedNumbers(which);
  return !isExact() && listedQuery(state.query) === state.query ? listedNumbers(which) : rowNumbers(which);
}
function receivedNumbers(which) {
  const strip = receivedStrip(which);
  const numbers = layerOf(which.row).received;
  const n = (key) => Math.floor(key / strip.by);
  const pooled = strip.by > 1 ? `, as means of ${strip.by} tokens` : "";
  return {
    at: (key) => strip.values[n(key)],
    tell: (key) => numbers.tell(which.head, n(key)),
    top: strip.top,
    words: `Coloured by the mean weight a token receives from the queries that see it${pooled}.`,
  };
}
function rowNumbers(which) {
  const pair = (key) => blockAt(which, state.query, key);
  const { columns, block } = textShown();
  const weights = Array.from({ length: columns }, (_, j) => pair(j * block[1]).weight);
  if (state.hide) weights[0] = 0;
  return {
    at: (key) => pair(key).weight,
    tell: (key) => pair(key).told,
    top: Math.max(...weights),
    words: `Coloured by ${isExact() ? "the weights" : `the ${poolNamed()} weights in the row of blocks`} of the chosen query.`,
  };
}
function listedNumbers(which) {
  const weights = new Map(fromList(which, state.query).map(([key, weight, told]) => [key, [weight, told]]));
  const shown = [...weights].filter(([key]) => !(state.hide && key === 0)).map(([, [weight]]) => weight);
  return {
    at: (key) => weights.get(key)?.[0] ?? 0,
    tell: (key) => weights.get(key)?.[1] ?? "less",
    top: Math.max(...shown, 0),
    words: `Coloured by the ${weights.size} largest weights of the chosen query; the others are less.`,
  };
}

function paintText() {
  const text = textShown();
  const tokens = text && tokensShown();
  const layer = text && layerOf(state.head.row);
  at("text-card").hidden = !layer;
  if (!layer) return;
  const from = state.tokensFrom;
  const to = Math.min(from + PAGE, text.kv_len);
  const shown = to - from < text.kv_len;
  at("text-title").textContent =
    `Text${shown && tokens ? `: tokens ${range(from, to)} of ${grouped(text.kv_len)}` : ""}`;
  at("text-pages").hidden = !shown || !tokens;
  at("text-back").disabled = from === 0;
  at("text-on").disabled = to === text.kv_len;
  const numbers = keyNumbers(state.head);
  at("text").hidden = !tokens;
  at("text").replaceChildren(...(tokens ? pieces(tokens, from, to, numbers) : []));
  at("text-caption").textContent = tokens
    ? `Head ${headName(state.head)}. ${numbers.words} Choose a token to see what its query attends to; Esc lets it go.`
    : "The texts of the tokens are not known: keys and queries are called by their places.";
}
function pieces(tokens, from, to, numbers) {
  const found = [];
  for (let key = from; key < to; key++) {
    found.push(tokenPiece(tokens[key], key, numbers));
    if (tokens[key].endsWith("⏎")) found.push(make("br"));
  }
  return found;
}
function tokenPiece(token, key, numbers) {
  const hidden = state.hide && key === 0;
  const rgb = colour(hidden || !numbers.top ? 0 : shade(numbers.at(key), numbers.top));
  const piece = make("bdi", {
    textContent: token.trim() ? token : "·".repeat(token.length) || "∅",
    title: `${grouped(key)}: ${numbers.tell(key)}`,
  });
  piece.style.background = css(rgb);
  piece.style.color = inkOn(rgb);
  piece.dataset.key = key;
  piece.classList.toggle("key", state.key === key);
  piece.classList.toggle("query", state.query !== null && positionOf(state.query) === key);
  return piece;
}
function buildText() {
  const turn = (by) =>
    update({ tokensFrom: clampTo(state.tokensFrom + by * PAGE, 0, Math.max(textShown().kv_len - PAGE, 0)) });
  at("text-back").addEventListener("click", () => turn(-1));
  at("text-on").addEventListener("click", () => turn(1));
  const chooseToken = ({ target }) => {
    const key = target.closest("[data-key]")?.dataset.key;
    const query = key - textShown().first_position;
    if (key !== undefined && query >= 0 && query < textShown().query_len)
      choose(query === state.query ? null : query);
  };
  at("text").addEventListener("click", chooseToken);
  at("arcs").addEventListener("click", chooseToken);
}
