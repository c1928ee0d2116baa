"""Compares `dist.plan` with measured steps: `fusewire launch -n 2 predictions.py` in this folder.

Each row is predicted before it is measured. A prediction follows from a step without collectives
and its memory, on as many ranks as there are processors; from all-reduces and copies that `fusewire
doctor` measures; and from the sizes of the model. Memory is the most that lies in the memory of the
process in a step, less what a small model of the same layers has needed before.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.distributed import P
from fusewire.distributed.self_test import report

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.distributed.speedup import measure, parser_of

MB = 1 << 20
MICROBATCHES = 4


class Mix(nn.Module):
    """A normalization, two products, and the input added to their result."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm, self.act = nn.LayerNorm(width), nn.GELU()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.act(self.up(self.norm(x))))


class Filter(nn.Module):
    """A convolution of images, a nonlinearity, and the input added to their result."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.filter, self.act = nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()

    def forward(self, x: Any) -> Any:
        return x + self.act(self.filter(x))


class Case(NamedTuple):
    """A model of equal layers: a function of a layer's width, and the shape of a batch."""

    layer: Callable[[int], nn.Module]
    layers: int
    width: int
    batch: tuple[int, ...]  # behind it comes the width, or before the sizes of images
    image: tuple[int, ...] = ()
    cut: tuple[str, str] | None = None  # layers of which ranks share the outputs, the inputs

    def model(self, width: int, part: int = 0, parts: int = 1) -> nn.Module:
        """A stage of the model."""
        fw.manual_seed(part)
        return nn.Sequential(*[self.layer(width) for _ in range(self.layers // parts)])

    def rows(self, width: int) -> Any:
        shape = (*self.batch, width, *self.image)
        return fw.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


CASES = {
    "dense": Case(lambda w: nn.Sequential(nn.Linear(w, w), nn.Tanh()), 8, 1024, (256,)),
    "mixer": Case(lambda w: Mix(w, 4 * w), 4, 512, (4, 128), cut=("*.up", "*.down")),
    "wide": Case(lambda w: Mix(w, 8 * w), 4, 640, (256,), cut=("*.up", "*.down")),
    "filters": Case(lambda w: Filter(w), 8, 64, (16,), image=(24, 24)),
}
SCHEMES = ("replicate", "fully_shard", "tensor", "pipeline")


def shared(case: Case, scheme: str, width: int) -> Callable[[], Any]:
    """A compiled step on this rank's part of a model; that of a pipeline calls its stages."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if scheme == "pipeline":
        return staged(case, width, case.model(width, rank, ranks), None)
    model = case.model(width)
    if scheme == "tensor":
        assert case.cut is not None
        up, down = case.cut
        mesh = dist.init_device_mesh((ranks,), ("model",))
        dist.shard(model, {f"{up}.weight": P("model", None), f"{down}.weight": P(None, "model")},
                   mesh, stays_cut=[up])
    else:
        getattr(dist, scheme)(model)
    return whole(case, width, model)


def whole(case: Case, width: int, model: nn.Module) -> Callable[[], Any]:
    """A compiled step of a model."""
    optimizer, x = fw.optim.AdamW(model.parameters(), lr=1e-4), case.rows(width)

    @fw.compile(fullgraph=True)
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(x)


def staged(case: Case, width: int, stage: nn.Module, group: Any) -> Callable[[], Any]:
    """A step of a pipeline with this stage."""
    optimizer, x = fw.optim.AdamW(stage.parameters(), lr=1e-4), case.rows(width)
    pipeline = dist.pipeline(fw.compile(stage), lambda y: y.square().mean(), group, MICROBATCHES)

    def step() -> None:
        optimizer.zero_grad()
        pipeline.step(x)
        optimizer.step()

    return step


def alone(case: Case, scheme: str, width: int) -> Callable[[], Any]:
    """A step of the whole model on each rank, without collectives."""
    if scheme == "pipeline":
        return staged(case, width, case.model(width), dist.new_group([dist.get_rank()]))
    return whole(case, width, case.model(width))


def status(name: str) -> int:
    """A size in bytes of this process, from the system."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith(name))
    return int(line.split()[1]) * 1024


def give_back() -> None:
    """Returns freed memory to the system: else later rows would use it again."""
    gc.collect()
    fw.empty_cache()
    with contextlib.suppress(AttributeError, OSError):  # the C library is another one
        ctypes.CDLL(None).malloc_trim(0)


def measured(make: Callable[[int], Callable[[], Any]], case: Case, ranks: int, how: Any
             ) -> tuple[float, float]:
    """The seconds of a step on the first `ranks` ranks, and the bytes that the largest rank needs
    beside those of a small model."""
    takes_part = dist.get_rank() < ranks
    small = make(case.width // 16)
    measure(small, ranks, 0.1, 0.5)
    del small
    give_back()
    before = status("VmRSS")
    step = make(case.width)
    measure(step, ranks, 0.1, 0.5)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    seconds = measure(step, ranks, *how)
    peak = status("VmHWM") - before if takes_part else 0
    del step
    give_back()
    return seconds, float(max(dist.all_gather_object(peak)))


def predicted(case: Case, scheme: str, found: dict[str, Any], step: float, memory: float
              ) -> dist.Plan:
    """The plan for a scheme, from a step of the whole model and its memory."""
    model, ranks = case.model(case.width), dist.get_world_size()
    sizes = {name: p.size for name, p in model.named_parameters()}
    held = 16 * sum(sizes.values())
    axis = {"tensor": "model", "pipeline": "pipe"}.get(scheme, "data")
    batch = float(np.prod((*case.batch, case.width, *case.image))) * 4
    update = dist.plan(model, {}, dist.Hardware.from_report(found, 1e30), flops=1.0).computation
    return dist.plan(
        model, {axis: ranks}, dist.Hardware.from_report(found, 1 / (step - update)),
        flops=ranks if axis == "data" else 1,
        scheme=scheme if axis == "data" else "replicate",
        cut=sum(n for name, n in sizes.items() if ".up." in name or ".down.weight" in name)
        / sum(sizes.values()),
        tensor_bytes=[batch] * 2 * case.layers if scheme == "tensor" else 0,
        microbatches=MICROBATCHES if scheme == "pipeline" else 1,
        stage_bytes=batch / MICROBATCHES if scheme == "pipeline" else 0,
        activation_bytes=max(0.0, memory - held) * (MICROBATCHES if scheme == "pipeline" else 1))


def row(name: str, scheme: str, found: dict[str, Any], *how: float) -> str:
    """A row of the table, measured for some seconds at some quantile."""
    case, ranks = CASES[name], dist.get_world_size()
    own = measured(lambda width: alone(case, scheme, width), case,
                   min(ranks, os.cpu_count() or 1), how)
    plan = predicted(case, scheme, found, *own)
    seconds, memory = measured(lambda width: shared(case, scheme, width), case, ranks, how)
    return (f"| {name} | {scheme} | {ranks} | {own[0] * 1e3:.0f} ms | {plan.step * 1e3:.0f} ms | "
            f"{seconds * 1e3:.0f} ms | {plan.step / seconds - 1:+.0%} | "
            f"{plan.memory_per_rank / MB:.0f} MB | {memory / MB:.0f} MB | "
            f"{plan.memory_per_rank / memory - 1:+.0%} |")


def main() -> None:
    """Prints the table on rank 0."""
    parser = parser_of(__doc__, CASES, 1.0)
    parser.add_argument("--scheme", choices=SCHEMES, action="append", help="by default all")
    options = parser.parse_args()
    dist.init_process_group()
    fw.set_num_threads(1)
    found = report([1, 10])
    if dist.get_rank() == 0:
        print("| model | scheme | ranks | without collectives | predicted | measured | difference "
              "| predicted | measured | difference |\n|---|---|---|---|---|---|---|---|---|---|")
    for name in options.model or CASES:
        for scheme in options.scheme or SCHEMES:
            if scheme != "tensor" or CASES[name].cut is not None:
                line = row(name, scheme, found, options.seconds, options.quantile)
                if dist.get_rank() == 0:
                    print(line, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
