"""Measures what few bits cost a language model: `python -m benchmarks.perplexity`.

Trains a small Llama on the reference of Python that `help()` shows, byte by byte, and prints its
perplexity on a part that it has not seen, for each form of its weights.
"""

from __future__ import annotations

import argparse
import pydoc_data.topics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import fusewire as fw
from fusewire import models, nn, optim
from fusewire.models.pretrained_model import PretrainedModel

CONTEXT, BATCH = 128, 16
CONFIG = {"model_type": "llama", "vocab_size": 256, "hidden_size": 128, "intermediate_size": 384,
          "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
SHARE = 20  # one of so many bytes is not for training, the last ones


def text() -> tuple[Any, Any]:
    """The bytes for training and those for measuring, int64."""
    topics = pydoc_data.topics.topics
    whole = "\n".join(topics[name] for name in sorted(topics)).encode()
    numbers = np.frombuffer(whole, np.uint8).astype(np.int64)
    end = len(numbers) - len(numbers) // SHARE
    return numbers[:end], numbers[end:]


def trained(numbers: Any, steps: int) -> PretrainedModel:
    """A model after so many steps of AdamW on random parts of the text."""
    model = models.from_config(CONFIG).train()
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    rng = np.random.default_rng(0)

    @fw.compile
    def step(tokens: fw.Tensor) -> fw.Tensor:
        logits = model(tokens[:, :-1]).reshape(-1, CONFIG["vocab_size"])
        loss = nn.functional.cross_entropy(logits, tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(steps):
        begins = rng.integers(0, len(numbers) - CONTEXT - 1, (BATCH, 1))
        step(fw.tensor(numbers[begins + np.arange(CONTEXT + 1)]))
        schedule.step()
    return model.eval()


def forms(model: PretrainedModel) -> Iterator[tuple[str, Any]]:
    """The model with its weights in each form."""
    yield "float32", model
    yield "bfloat16", fw.quantize(model, to="bfloat16").model
    yield "int8, activations too (dynamic)", fw.quantize(model, activations="dynamic").model
    for bits in ("int8", "int4"):
        for group in (64, 32):
            yield f"{bits}, groups of {group}", fw.quantize(
                model, weights=bits, group=group).model


def main() -> None:
    """Trains the model and prints a row of Markdown for each form of its weights."""
    parser = argparse.ArgumentParser("python -m benchmarks.perplexity", description=__doc__)
    parser.add_argument("--steps", type=int, default=600, help="of training")
    parser.add_argument("--bytes", type=int, default=1 << 16, help="to measure on, at most")
    given = parser.parse_args()
    fw.manual_seed(0)
    train, others = text()
    unseen = others[:given.bytes]
    began = time.perf_counter()
    model = trained(train, given.steps)
    print(f"{model.number_of_parameters():,} parameters, {given.steps} steps on {len(train):,} "
          f"bytes in {time.perf_counter() - began:.0f} s; measured on {len(unseen):,} others\n")
    print("| weights | perplexity by byte | change |\n|---|---|---|")
    first = None
    for name, form in forms(model):
        value = models.perplexity(form, unseen, CONTEXT)
        first = value if first is None else first
        print(f"| {name} | {value:.4f} | {100 * (value / first - 1):+.2f} % |", flush=True)


if __name__ == "__main__":
    main()
