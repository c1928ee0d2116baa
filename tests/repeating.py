"""Provides functions in which a body repeats: layers, time steps, random bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import recorded

import fusewire as fw
from fusewire import nn, optim
from fusewire.capture.graph.graph import Graph


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def training_of(layers: int) -> tuple[Graph, list[Any]]:
    """The graph of a step of Adam for so many equal layers, and its inputs."""
    model = nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(16, 16), nn.ReLU())])
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return recorded(step, fw.from_numpy(normal(8, 16)))


def unrolled(steps: int) -> tuple[Callable[..., Any], list[fw.Tensor]]:
    """A recurrent cell over so many time steps, and its inputs."""
    def run(x: fw.Tensor, h: fw.Tensor, w: fw.Tensor, u: fw.Tensor) -> Any:
        outs = []
        for t in range(steps):
            gates = x[:, t] @ w + h @ u
            h = fw.tanh(gates[:, :8]) * fw.sigmoid(gates[:, 8:])
            outs.append(h)
        return fw.stack(outs, 1)

    arrays = [normal(4, steps, 6), normal(4, 8), normal(6, 16), normal(8, 16)]
    return run, [fw.from_numpy(a * 0.3) for a in arrays]


OPS: list[Callable[[fw.Tensor, fw.Tensor], fw.Tensor]] = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - fw.tanh(b),
    lambda a, b: fw.sigmoid(a) * b, lambda a, b: a @ b * 0.2, lambda a, b: fw.where(a > b, a, b),
    lambda a, b: a - b.mean(axis=0), lambda a, b: a.T + b, lambda a, b: fw.tanh(a).roll(1, 0) - b,
    lambda a, b: a / (b.sum(axis=-1, keepdims=True).square() + 1),
]


def body_of(rng: np.random.Generator) -> Callable[..., list[fw.Tensor]]:
    """A random function of five matrices that returns three."""
    count = int(rng.integers(2, 7))
    lines = [(OPS[rng.integers(len(OPS))], *rng.integers(0, 5 + i, 2).tolist())
             for i in range(count)]
    results = rng.integers(4, 5 + count, 3).tolist()

    def body(*values: fw.Tensor) -> list[fw.Tensor]:
        pool = list(values)
        for op, a, b in lines:
            pool.append(op(pool[a], pool[b]))
        return [fw.tanh(pool[r]) for r in results]

    return body


def repeated(rng: np.random.Generator) -> tuple[Callable[..., Any], list[Any]]:
    """A function that runs a body several times, and its inputs. An iteration reads results of
    earlier ones, a slice of an array, and one of a few weights."""
    body, steps, back = body_of(rng), int(rng.integers(3, 14)), int(rng.integers(1, 3))
    (both, first), order = rng.integers(2, size=2).tolist(), rng.permutation(5).tolist()

    def run(x: fw.Tensor, h: fw.Tensor, *weights: fw.Tensor) -> Any:
        states, outs = [h, h * 0.5, h], []
        for t in range(steps):
            x_t = x[t] if first else x[:, :, t]
            operands = [states[-1], states[-back], x_t, weights[t % len(weights)], states[0]]
            one, two, out = body(*[operands[i] for i in order])
            states += [one, two] if both else [two]
            outs.append(out)
        return fw.stack(outs), states[-1], sum(outs[1:], outs[0])

    shapes = [(steps, 6, 6) if first else (6, 6, steps), *[(6, 6)] * int(rng.integers(2, 5))]
    return run, [normal(*shape) for shape in shapes]
