"""Times language models with random weights: `python -m benchmarks.decoding gpt2`.

Prints a row for each precision and batch: milliseconds of the prefill and of a decoded token, and
the latter as a multiple of its limit, the time in which memory delivers the weights and the cache.
Beside them are transformers in float32 and bfloat16, with --compile also torch.compile, and
onnxruntime-genai in float32 and int4, where it is installed and has the architecture.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw
from fusewire import models
from fusewire.codegen.program.native_threads import get_num_threads
from fusewire.codegen.program.roofline import bandwidth
from fusewire.models.generation.compiled import compiled_for
from fusewire.models.generation.next_tokens import Generation, next_tokens, prefill
from fusewire.models.generation.sampling import Sampling

from . import decoding_peers

MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "n_positions": 2048},  # positions for what follows a long prompt
    "llama": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 1024,  # 0.5 billion
              "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 16,
              "num_key_value_heads": 4, "tie_word_embeddings": True},
}
PRECISIONS: dict[str, Callable[[Any], Any]] = {
    "float32": lambda model: model,
    "bfloat16": lambda model: model.to(fw.bfloat16),
    "int8": lambda model: fw.quantize(model, weights="int8").model,
    "int4": lambda model: fw.quantize(model, weights="int4").model,
}
MEMORY = 1 << 26  # bytes that are copied to measure the bandwidth, beyond the caches
WARM = 8  # steps before those that are timed: sizes are specialized when they come again
PREFILLS = 8  # of which the last one is timed
Step = Callable[[], Any]


def ours(model: Any, ids: Any, new: int) -> tuple[float, Step, float]:
    """The seconds of the prefill, a decoding step, and the bytes that it has to read."""
    step, first = compiled_for(model, next_tokens), 0.0
    for _ in range(PREFILLS):
        state = Generation(model, Sampling(), fw.tensor(ids), new + WARM + 1)
        began = time.perf_counter()
        tokens = [prefill(state, step, None)]
        tokens[0].numpy()
        first = time.perf_counter() - began

    def decode() -> None:
        tokens[0] = step(state, tokens[0][:, None])
        tokens[0].numpy()

    rows = len(ids) * (ids.shape[1] + new // 2)  # of texts that have grown by half of their tokens
    cache = sum(t.nbytes // len(t) * rows for t in (*state.cache.keys, *state.cache.values))
    return first, decode, _bytes_of_weights(model) + cache


def _bytes_of_weights(model: Any) -> int:
    """The bytes of all weights that a step reads whole: an embedding that the head does not share
    is read in a few rows."""
    looked_up = {f"{name}.weight" for name, module in model.named_modules()
                 if isinstance(module, fw.nn.Embedding)}
    held = {id(t): t.nbytes for name, t in model.state_dict(keep_vars=True).items()
            if name not in looked_up}
    return sum(held.values())


def median(step: Step, count: int) -> float:
    """The median seconds of `count` steps, after some that are not timed."""
    times = []
    for number in range(WARM + count):
        began = time.perf_counter()
        step()
        times += [time.perf_counter() - began] if number >= WARM else []
    return statistics.median(times)


def show(name: str, batch: int, length: int, first: float, decode: float, least: float | None
         ) -> None:
    """Prints a row of Markdown."""
    ratio = "" if least is None else f"{decode / least:.2f}"
    print(f"| {name} | {batch} | {length} | {1e3 * first:.0f} | {1e3 * decode:.1f} | {ratio} |",
          flush=True)


def measure(given: argparse.Namespace, batch: int, length: int) -> None:
    """Prints the rows of a batch of prompts."""
    config, ids = MODELS[given.model], np.random.default_rng(0).integers(0, 1000, (batch, length))
    for precision in given.precisions:
        fw.manual_seed(0)
        model = PRECISIONS[precision](models.from_config(config).eval())
        with fw.no_grad():
            first, step, size = ours(model.requires_grad_(False), ids, given.tokens)
            decode = median(step, given.tokens)
        least = size / bandwidth(MEMORY, get_num_threads())
        show(f"fusewire, {precision}", batch, length, first, decode, least)
    for name, (first, step) in peers(given, config, ids):
        show(name, batch, length, first, median(step, given.tokens), None)


def peers(given: argparse.Namespace, config: dict[str, Any], ids: Any
          ) -> Iterator[tuple[str, tuple[float, Step]]]:
    """The name, the seconds of the prefill, and a decoding step of each other library."""
    for precision in [p for p in given.precisions if p in ("float32", "bfloat16")]:
        for compiled in (False, True) if given.compile else (False,):
            name = f"transformers{' on torch.compile' if compiled else ''}, {precision}"
            yield name, decoding_peers.transformers(config, precision, ids, compiled)
    if importlib.util.find_spec("onnxruntime_genai") and config["model_type"] != "gpt2":
        for precision in [p for p in given.precisions if p in ("float32", "int4")]:
            folder = decoding_peers.built(config, precision, given.folder)
            yield f"onnxruntime-genai, {precision}", decoding_peers.onnxruntime_genai(
                folder, ids, given.tokens + WARM + 1)


def main() -> None:
    """Prints the table of a model."""
    parser = argparse.ArgumentParser("python -m benchmarks.decoding", description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--prompts", nargs="+", type=int, default=[32, 1024])
    parser.add_argument("--tokens", type=int, default=16, help="that are timed")
    parser.add_argument("--compile", action="store_true", help="time torch.compile, too")
    parser.add_argument("--folder", type=Path, help="of models for other libraries, which are "
                        "written there once. Default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        given.folder = given.folder or Path(temporary)
        table(given)


def table(given: argparse.Namespace) -> None:
    """Prints a row for each library, precision, batch and length of prompts."""
    print("| library, weights | batch | prompt | prefill, ms | token, ms | times the limit |")
    print("|---|---|---|---|---|---|")
    for length in given.prompts:
        for batch in given.batches:
            measure(given, batch, length)


if __name__ == "__main__":
    main()
