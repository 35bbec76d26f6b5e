// What the page was given, how packed arrays come back (see packing.py), and elements made of it.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const root = document.documentElement;

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties))
    if (name in element && !(element instanceof SVGElement)) element[name] = value;
    else element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const make = (tag, properties = {}, ...children) => fill(document.createElement(tag), properties, children);
const draw = (tag, properties = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

// ---- packed arrays ---------------------------------------------------------------------------------------------
async function inflate(base64) {
  const octets = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  const stream = new Blob([octets]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Whole numbers: the low bytes of all come first, then the next ones.
async function unpackWhole({ bytes, bits }) {
  const octets = await inflate(bytes);
  if (bits === 8) return octets;
  const count = octets.length / (bits / 8);
  const numbers = bits === 16 ? new Uint16Array(count) : new Uint32Array(count);
  octets.forEach((octet, place) => (numbers[place % count] |= octet << (8 * Math.floor(place / count))));
  return numbers;
}

// Numbers of every head of a layer. A level is the square root of a number's share of its head's largest.
class Numbers {
  constructor(levels, { tops, bits }) {
    this.levels = levels;
    this.tops = tops;
    this.most = 2 ** bits - 1;
    this.length = levels.length / tops.length;
  }
  at(head, place) {
    return this.tops[head] * (this.levels[head * this.length + place] / this.most) ** 2;
  }
  of(head) {
    return Array.from({ length: this.length }, (_, place) => this.at(head, place));
  }
  levelsOf(head) {
    return this.levels.subarray(head * this.length, (head + 1) * this.length);
  }
  // The number with as many digits as its level has, at most three.
  tell(head, place) {
    const level = this.levels[head * this.length + place];
    if (!level) return this.tops[head] ? `< ${digits(this.tops[head] * (0.5 / this.most) ** 2, 1)}` : "0";
    return digits(this.at(head, place), level >= 500 ? 3 : level >= 25 ? 2 : 1);
  }
}
const unpack = async (packed) => new Numbers(await unpackWhole(packed), packed);

// ---- layers, windows and tokens, unpacked when they are first shown --------------------------------------------
const unpacked = new Map();
async function once(name, work) {
  if (!unpacked.has(name)) unpacked.set(name, await work());
  return unpacked.get(name);
}
async function unpackLayer(packed) {
  const names = Object.keys(packed);
  const arrays = await Promise.all(
    names.map((name) => (name === "top_keys" ? unpackWhole(packed[name]) : unpack(packed[name]))),
  );
  return Object.fromEntries(names.map((name, k) => [name, arrays[k]]));
}
function load(textNumber, row, head) {
  const text = data.texts[textNumber];
  if (!text) return null;
  const windows = text.windows.map((w, k) => [w, k]).filter(([w]) => w.row === row && w.head === head);
  return Promise.all([
    text.layers[row] && once(`${textNumber}/${row}`, () => unpackLayer(text.layers[row])),
    text.tokens &&
      once(`${textNumber}/tokens`, async () =>
        JSON.parse(new TextDecoder().decode(await inflate(text.tokens))),
      ),
    ...windows.map(([w, k]) =>
      once(`${textNumber}/window${k}`, async () => ({ ...w, numbers: await unpack(w.weights) })),
    ),
  ]);
}
const textShown = () => data.texts[state.text];
const layerOf = (row) => unpacked.get(`${state.text}/${row}`);
const tokensShown = () => unpacked.get(`${state.text}/tokens`);
const windowsOf = ({ row, head }) =>
  (textShown()?.windows ?? [])
    .map((_, k) => unpacked.get(`${state.text}/window${k}`))
    .filter((w) => w && w.row === row && w.head === head);
const isExact = (text = textShown()) => text.block[0] === 1 && text.block[1] === 1;
