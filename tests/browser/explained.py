"""Compiled functions of several kinds, whose pages a browser opens."""

from __future__ import annotations

import random
from typing import Any

import fusewire as fw
from fusewire import nn


def small() -> Any:
    """A softmax of a product."""
    @fw.compile
    def small(x: Any, w: Any) -> Any:
        return fw.softmax(fw.tanh(x @ w), axis=-1).sum(0)

    for _ in range(3):
        small(fw.ones(256, 128), fw.ones(128, 64))
    return small


def step() -> Any:
    """A training step."""
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10))
    optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)

    @fw.compile
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(fw.ones(512, 64), fw.zeros(512, dtype=fw.int64))
    return step


def newton() -> Any:
    """A `while` with branches."""
    @fw.compile
    def newton(x: Any) -> Any:
        if x.mean() < 0:
            x = -x
        guess = x * 0.5 + 1
        while (guess * guess - x).abs().max() > 1e-3:
            guess = (guess + x / guess) * 0.5
        return guess

    for sign in (1, -1, 1, -1, 1):
        newton(fw.ones(1000) * sign)
    return newton


def broken() -> Any:
    """A function with graph breaks."""
    @fw.compile
    def broken(x: Any) -> Any:
        scaled = (x * 2 + 1) * random.random()
        return scaled / max(scaled.sum(1).tolist())

    for _ in range(8):
        broken(fw.ones(300, 300))
    return broken


def large() -> Any:
    """A program of more than 1,000 kernels."""
    layers = [fw.ones(16, 16) * k for k in range(300)]

    @fw.compile
    def large(x: Any) -> Any:
        for number, weight in enumerate(layers):
            x = x @ weight
            x = x / x.abs().max()
            if number % 3 == 0:
                x = fw.softmax(x, axis=number % 2)
        return x

    for _ in range(2):
        large(fw.ones(16, 16))
    return large


PROGRAMS = (small, step, newton, broken, large)
SEARCHES = {"small": "tanh", "step": "gelu", "newton": "divide", "broken": "x", "large": "exp"}
