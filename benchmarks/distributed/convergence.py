"""Trains two networks in float32 in each scheme: `python -m benchmarks.distributed.convergence`.

The ranks are threads of this process. The table has the loss and the accuracy on held-out data
after equal numbers of steps with equal joint batches, beside those of one process. One process
trains twice: in the second training the rows of each batch are in the opposite order, which changes
nothing but the order of sums. `--dtype float64` tells rounding from an error of a scheme.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.distributed import P
from fusewire.export.demo.digits import load_digits

F = nn.functional
CONTEXT, WIDTH, HEADS, HELD_OUT = 32, 64, 4, 300
TEXT = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"


class Task(NamedTuple):
    """The training: a model, training rows, held-out rows, the joint batch, the steps."""

    model: Callable[[], nn.Module]
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    batch: int
    steps: int
    rate: float


class Block(nn.Module):
    """Causal attention and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        n, t, _ = x.shape
        parts = self.qkv(self.first(x)).reshape(n, t, 3, HEADS, WIDTH // HEADS)
        q, k, v = (parts[:, :, i].transpose(1, 2) for i in range(3))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.second(x))))


class SmallGPT(nn.Module):
    """A language model of characters with two blocks."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, characters)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens) + self.places(fw.arange(CONTEXT))
        return self.head(self.blocks(x))


def digits() -> Task:
    """Classes of handwritten digits."""
    images, classes = (x.numpy() for x in load_digits())
    order = np.random.default_rng(0).permutation(len(images))
    x = images[order].reshape(len(images), -1).astype(np.float32)
    y = classes[order].astype(np.int64)

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    return Task(model, (x[HELD_OUT:], y[HELD_OUT:]), (x[:HELD_OUT], y[:HELD_OUT]), 60, 250, 3e-3)


def text() -> Task:
    """The next character of a page of the documentation."""
    characters, codes = np.unique(list(TEXT.read_text(encoding="utf-8")), return_inverse=True)
    rows = np.lib.stride_tricks.sliding_window_view(codes.astype(np.int64), CONTEXT + 1)
    order = np.random.default_rng(0).permutation(len(rows))
    x, y = rows[order, :-1], rows[order, 1:]
    return Task(lambda: SmallGPT(len(characters)), (x[HELD_OUT:], y[HELD_OUT:]),
                (x[:HELD_OUT], y[:HELD_OUT]), 12, 250, 3e-3)


LAYOUTS = {"digits": {"0.weight": P("model", None), "2.weight": P(None, "model")},
           "text": {"*.up.weight": P("model", None), "*.down.weight": P(None, "model"),
                    "table.weight": P(None, "model")}}


def scheme(name: str, task: str, model: Any, rate: float) -> tuple[Any, Any]:
    """The optimizer of a model, which is shared, and the group that shares the batch."""
    def adamw(parameters: Any) -> Any:
        return fw.optim.AdamW(parameters, lr=rate)

    group = None
    if "tensor" in name:
        data = 2 if " x " in name else 1
        mesh = dist.init_device_mesh((data, dist.get_world_size() // data), ("data", "model"))
        dist.shard(model, LAYOUTS[task], mesh)
        group = mesh["data"]
    (dist.fully_shard if "fully_shard" in name else dist.replicate)(model, group)
    if name == "ZeroRedundancyOptimizer":
        return dist.ZeroRedundancyOptimizer(adamw, model.parameters()), group
    return adamw(model.parameters()), group


REVERSED = "one process, rows reversed"
SCHEMES = {"one process": 1, REVERSED: 1, "replicate": 3, "ZeroRedundancyOptimizer": 3,
           "fully_shard": 3, "tensor parallel": 2, "fully_shard x tensor parallel": 4}


def _initialize(model: nn.Module) -> None:
    """Sets equal parameters on all ranks, which share a generator of random numbers as threads."""
    for i, (name, p) in enumerate(model.named_parameters()):
        if p.ndim > 1:
            numbers = np.random.default_rng(i).standard_normal(p.shape) / np.sqrt(p.shape[-1])
            p.data = fw.tensor(numbers.astype(np.float32))
        elif name.endswith("bias"):
            p.data = fw.zeros(p.shape)


def _tensor(array: Any, dtype: Any) -> Any:
    """A tensor of an array: floats in the dtype, classes and tokens as they are."""
    return fw.tensor(array, dtype=dtype if array.dtype.kind == "f" else None)


def train(name: str, kind: str, task: Task, dtype: Any) -> tuple[float, float]:
    """The loss and accuracy on held-out rows after a training; on this rank."""
    model = task.model()
    _initialize(model)
    model.to(dtype)
    optimizer, group = scheme(name, kind, model, task.rate)
    size, rank = dist.get_world_size(group), dist.get_rank(group)

    @fw.compile
    def step(x: Any, y: Any) -> Any:
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for number in range(task.steps):
        rows = np.random.default_rng(number).integers(0, len(task.train[0]), task.batch)
        own = rows[::-1] if name == REVERSED else rows[rank::size]
        step(*(_tensor(x[own], dtype) for x in task.train))
    with fw.no_grad():
        out = model(_tensor(task.test[0], dtype))
        wanted = fw.tensor(task.test[1])
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), wanted.reshape(-1))
        return float(loss), float((out.argmax(-1) == wanted).astype(fw.float32).mean())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="schemes, by default all")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    options = parser.parse_args()
    digits_shown = 4 if options.dtype == "float32" else 15
    print("| network | scheme | ranks | held-out loss | accuracy |\n|---|---|---|---|---|")
    for kind, task in {"digits": digits(), "text": text()}.items():
        for name in options.names or SCHEMES:
            loss, accuracy = dist.run_fake(SCHEMES[name], train, name, kind, task,
                                           getattr(fw, options.dtype))[0]
            print(f"| {kind} | {name} | {SCHEMES[name]} | {loss:.{digits_shown}f} | "
                  f"{accuracy:.1%} |", flush=True)


if __name__ == "__main__":
    main()
