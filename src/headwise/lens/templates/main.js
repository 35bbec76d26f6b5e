// Builds the page, and says which part is repainted when what changes.
function buildTexts() {
  data.texts.forEach((text) =>
    at("text-choice").append(new Option(`${text.name} (${grouped(text.kv_len)})`)),
  );
  at("text-field").hidden = data.texts.length < 2;
}
function paintNotes() {
  const notes = [...data.notes, ...(textShown()?.notes ?? [])];
  at("notes-part").hidden = !notes.length;
  at("notes").replaceChildren(...notes.map((textContent) => make("li", { textContent })));
}
function watch() {
  const heads = ["text", "head", "pinned"];
  const colours = ["scale", "hide", "theme", "pool"];
  const size = "size";
  paintsOn(["measure"], paintMeasure);
  paintsOn(["measure", "head", "pinned", "theme", size], paintGrid);
  paintsOn(["measure", "head", "ascending", "only", "least", "listed"], paintList);
  paintsOn(["head", "pinned"], paintTitle);
  paintsOn(["text", "view", "pool", "scale", "hide"], paintTools);
  paintsOn([...heads, ...colours, "view", "cell", "band", "query", size], paintMaps);
  paintsOn([...heads, ...colours, "view", size], paintWords);
  paintsOn([...heads, "pool", "cell", "query"], paintReadout);
  paintsOn([...heads, "scale", size], paintCurve);
  paintsOn([...heads, "scale", "query", "hide"], paintKeys);
  paintsOn([...heads, ...colours, "query", "key", "tokensFrom"], paintText);
  paintsOn([...heads, ...colours, "query"], paintArcs);
  paintsOn(["head", "pinned", "measure"], paintNumbers);
  paintsOn(["text"], paintNotes);
}
async function start() {
  applyTheme();
  buildTexts();
  buildMeasures();
  buildGrid();
  buildKinds();
  buildList();
  buildText();
  buildHelp();
  watch();
  listenToSwitches();
  listenToKeys();
  listenToTheme();
  canvases().forEach(listenToMap);
  addEventListener("resize", () => update({ size: innerWidth }));
  if (state.measure) state.least = measureNamed(state.measure).least;
  await show({ ...state });
  requestAnimationFrame(() => setTimeout(() => (root.dataset.ready = performance.now().toFixed(0))));
}
start();
