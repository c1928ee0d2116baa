"""Cross entropy over a large vocabulary, and its gradient: as large as the scores."""

from __future__ import annotations

from typing import Any

import numpy as np

import fusewire as fw
from fusewire.nn import functional as F

from .. import place
from ..peers import fusewire_maker, jax_maker
from ..workload import Call, Inputs, Maker, Workload
from .weights import normal


def fusewire(x: Any, labels: Any) -> Any:
    x = x.detach().requires_grad_()
    loss = F.cross_entropy(x, labels)
    return (loss.detach(), *fw.grad(loss, [x]))


def torch(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        x, labels = (place.moved(torch.from_numpy(inputs[name])) for name in ("x", "labels"))
        x.requires_grad_()
        loss_of = torch.nn.functional.cross_entropy
        loss_of = torch.compile(loss_of) if compiled else loss_of

        def call() -> Any:
            loss = loss_of(x, labels)
            return (loss.detach(), *torch.autograd.grad(loss, x))

        return call

    return make


def jax() -> Any:
    import jax

    def loss_of(x: Any, labels: Any) -> Any:
        scores = jax.numpy.take_along_axis(x, labels[:, None], 1)[:, 0]
        return (jax.nn.logsumexp(x, -1) - scores).mean()

    return jax.value_and_grad(loss_of)


def workload(rows: int, classes: int) -> Workload:
    def inputs() -> Inputs:
        return {"x": normal(5, rows, classes),
                "labels": np.random.default_rng(6).integers(0, classes, rows)}

    return Workload(
        name="cross_entropy_train",
        about=f"cross entropy of {rows} rows of {classes} scores, and its gradient",
        inputs=inputs,
        makers={"fusewire": fusewire_maker(fusewire, True),
                "fusewire eager": fusewire_maker(fusewire, False),
                "torch": torch(False), "torch.compile": torch(True), "jax.jit": jax_maker(jax)},
        flops=45 * rows * classes,
        size=8 * rows * classes,
        kept=True,
        memory=True,
    )


WORKLOADS, ON_GPU = [workload(2048, 32_000)], [workload(2048, 50_257)]
