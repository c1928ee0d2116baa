"""Times language models with random weights: `python -m benchmarks.decoding gpt2`.

Prints a row for each precision and batch: milliseconds of the prefill and of a decoded token, and
the latter as a multiple of its limit, the time in which memory delivers the weights and the cache.
Beside them transformers in float32 and bfloat16, and with --compile torch.compile.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw
from fusewire import models
from fusewire.codegen.program.native_threads import get_num_threads
from fusewire.codegen.program.roofline import bandwidth
from fusewire.models.generation.compiled import compiled_for
from fusewire.models.generation.next_tokens import Generation, next_tokens, prefill
from fusewire.models.generation.sampling import Sampling

MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2"},
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
WARM = 4  # steps before those that are timed
Step = Callable[[], Any]


def ours(model: Any, ids: Any, new: int) -> tuple[float, Step, float]:
    """The seconds of the prefill, a decoding step, and the bytes that it has to read."""
    state = Generation(model, Sampling(0.0, None, None, None, 1.0), fw.tensor(ids), new + WARM + 1)
    step, began = compiled_for(model, next_tokens), time.perf_counter()
    tokens = [prefill(state, step, None)]
    tokens[0].numpy()
    first = time.perf_counter() - began

    def decode() -> None:
        tokens[0] = step(state, tokens[0][:, None])
        tokens[0].numpy()

    held = {id(t): t.nbytes for t in model.state_dict(keep_vars=True).values()}
    cache = sum(t.nbytes for t in (*state.cache.keys, *state.cache.values))
    return first, decode, sum(held.values()) + cache


def transformers(config: dict[str, Any], dtype: str, ids: Any, compiled: bool
                 ) -> tuple[float, Step]:
    """The seconds of the prefill, and a decoding step, in transformers."""
    import torch
    import transformers as hf

    values = {k: v for k, v in config.items() if k != "model_type"}
    model = hf.AutoModelForCausalLM.from_config(
        hf.AutoConfig.for_model(config["model_type"], **values)).to(getattr(torch, dtype)).eval()
    run = torch.compile(model.forward) if compiled else model.forward
    state: dict[str, Any] = {}

    @torch.inference_mode()
    def forward(tokens: Any) -> None:
        out = run(input_ids=tokens, past_key_values=state.get("cache"), use_cache=True)
        state["cache"], state["next"] = out.past_key_values, out.logits[:, -1:].argmax(-1)

    began = time.perf_counter()
    forward(torch.tensor(ids))
    return time.perf_counter() - began, lambda: forward(state["next"])


def median(step: Step, count: int) -> float:
    """The median seconds of `count` steps, after some that are not timed."""
    times = []
    for number in range(WARM + count):
        began = time.perf_counter()
        step()
        times += [time.perf_counter() - began] if number >= WARM else []
    return statistics.median(times)


def show(name: str, batch: int, length: int, prefill: float, decode: float, least: float | None
         ) -> None:
    """Prints a row of Markdown."""
    ratio = "" if least is None else f"{decode / least:.2f}"
    print(f"| {name} | {batch} | {length} | {1e3 * prefill:.0f} | {1e3 * decode:.1f} | {ratio} |",
          flush=True)


def measure(given: argparse.Namespace, batch: int, length: int) -> None:
    """Prints the rows of a batch of prompts."""
    config, ids = MODELS[given.model], np.random.default_rng(0).integers(0, 1000, (batch, length))
    for precision in given.precisions:
        fw.manual_seed(0)
        model = PRECISIONS[precision](models.from_config(config).eval())
        with fw.no_grad():
            prefill, step, size = ours(model.requires_grad_(False), ids, given.tokens)
            decode = median(step, given.tokens)
        least = size / bandwidth(MEMORY, get_num_threads())
        show(f"fusewire, {precision}", batch, length, prefill, decode, least)
    for dtype in [p for p in given.precisions if p.startswith(("float", "bfloat"))]:
        for compiled in (False, True) if given.compile else (False,):
            prefill, step = transformers(config, dtype, ids, compiled)
            name = f"transformers{' on torch.compile' if compiled else ''}, {dtype}"
            show(name, batch, length, prefill, median(step, given.tokens), None)


def main() -> None:
    """Prints the table of a model."""
    parser = argparse.ArgumentParser("python -m benchmarks.decoding", description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--prompts", nargs="+", type=int, default=[32, 1024])
    parser.add_argument("--tokens", type=int, default=16, help="that are timed")
    parser.add_argument("--compile", action="store_true", help="time torch.compile, too")
    given = parser.parse_args()
    print("| library, weights | batch | prompt | prefill, ms | token, ms | times the limit |")
    print("|---|---|---|---|---|---|")
    for length in given.prompts:
        for batch in given.batches:
            measure(given, batch, length)


if __name__ == "__main__":
    main()
