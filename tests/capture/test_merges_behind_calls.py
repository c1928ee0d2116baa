"""Paths merge behind the function in which they branched: n calls need n + 1 recordings."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import assert_equal
from made_functions import function_of

import fusewire as fw

HELPERS = """
def halved(x, t):
    if t > 0:
        return x / 2 + 1
    return x

def doubled(x, t):
    if t > 0:
        x = x * 2
    else:
        x = x - 0.25
    return x

def both(x, t, u):
    x = halved(x, t)
    return doubled(x, u)

class Layer(fw.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = fw.nn.Parameter(fw.tensor([1.0, 0.5, 2.0]))
    def bounded(self, h):
        if h.sum() > 0.5:
            return fw.tanh(h)
        return h * 1.25
    def forward(self, x):
        return self.bounded(x * self.scale)

layers = [Layer() for _ in range(6)]
stack = fw.nn.Sequential(*layers)
"""
FUNCTIONS = {
    "functions in sequence": ("""
def f(x, t):
    x = halved(x, t[0])
    x = doubled(x, t[1])
    x = halved(x, t[2])
    x = doubled(x, t[3])
    x = halved(x, t[4])
    return doubled(x, t[5])
""", 8),
    "a function in a loop": ("""
def f(x, t):
    for i in range(6):
        x = halved(x, t[i])
    return x
""", 8),
    "a function that calls functions": ("""
def f(x, t):
    x = both(x, t[0], t[1])
    x = both(x, t[2], t[3])
    return both(x, t[4], t[5])
""", 8),
    "a branch, and one in a function": ("""
def f(x, t):
    if t[0] > 0:
        x = x + 1
    x = halved(x, t[1])
    if t[2] > 0:
        x = x - 0.5
    x = doubled(x, t[3])
    return x if t[4] > 0 else x * 2
""", 8),
    "numbers": ("""
def chosen(t):
    if t > 0:
        return 1.5
    return 0.5

def f(x, t):
    a = chosen(t[0])
    b = chosen(t[1])
    c = chosen(t[2])
    return x * a + b - c
""", 6),
    "methods of layers": ("""
def f(x, t):
    return stack(x)
""", 8),
    "layers in a loop": ("""
def f(x, t):
    for i, layer in enumerate(layers):
        x = layer(x) + t[i]
    return x
""", 8),
}
# The progress of C code, and values on the stack, are hidden: these have a recording for each path.
HIDDEN = {
    "map": """
def f(x, t):
    return sum(map(lambda u: halved(x, u), [t[0], t[1], t[2]]))
""",
    "a key of sorted": """
def f(x, t):
    places = sorted(range(3), key=lambda i: 1 if t[i] > 0 else 0)
    return x * (places[0] + 1)
""",
    "an expression": """
def f(x, t):
    return halved(x, t[0]) + doubled(x, t[1]) * halved(x, t[2])
""",
    "a step that the length of a list skips": """
def f(x, t):
    seen = []
    def each(i):
        if len(seen) % 2 == 1:
            seen.append(0)
            return x * 10
        if t[i] > 0:
            seen.append(i)
        return x * i
    return sum(map(each, range(4)))
""",
}


def calls(count: int = 60) -> list[tuple[fw.Tensor, fw.Tensor]]:
    draw = random.Random(0)
    return [(fw.tensor([draw.uniform(-1, 1) for _ in range(3)]),
             fw.tensor([draw.uniform(-1, 1) for _ in range(6)])) for _ in range(count)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_recordings(name: str, tmp_path: Path) -> None:
    source, most = FUNCTIONS[name]
    fn = function_of(HELPERS + source, tmp_path)
    compiled = fw.compile(fn)
    with fw.no_grad():
        for args in calls():
            np.testing.assert_allclose(np.asarray(compiled(*args)), np.asarray(fn(*args)),
                                       rtol=1e-5, atol=1e-6)
    assert compiled.stats.recordings <= most, compiled.explain()
    assert compiled.stats.fallbacks == 0


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_progress(name: str, tmp_path: Path) -> None:
    fn = function_of(HELPERS + HIDDEN[name], tmp_path)
    compiled = fw.compile(fn)
    for args in calls():
        np.testing.assert_allclose(np.asarray(compiled(*args)), np.asarray(fn(*args)),
                                   rtol=1e-5, atol=1e-6)


def test_a_training_step_of_layers_with_branches(tmp_path: Path) -> None:
    """The backward goes through the merges behind calls as well."""
    fn = function_of(HELPERS + """
def f(x, t):
    loss = (stack(x) ** 2).mean()
    loss.backward()
    gradients = [layer.scale.grad for layer in layers]
    for layer in layers:
        layer.scale.grad = None
    return loss.detach(), fw.stack(gradients)
""", tmp_path)
    compiled = fw.compile(fn)
    for args in calls(40):
        for got, want in zip(compiled(*args), fn(*args)):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-6)
    assert compiled.stats.recordings <= 12, compiled.explain()
    assert compiled.stats.fallbacks == 0


CALLS_WITH_A_NUMBER: dict[str, Callable[[fw.Tensor, int], Any]] = {
    "topk": lambda x, k: fw.topk(x, k).values,
    "roll": lambda x, k: fw.roll(x, k, axis=1),
    "tile": lambda x, k: fw.tile(x, (k, 2)),
    "linspace": lambda x, k: fw.linspace(0, 1, k),
    "eye": lambda x, k: fw.eye(k),
    "repeat": lambda x, k: fw.repeat(x, k),
    "norm": lambda x, k: fw.linalg.vector_norm(x, ord=k),
}


@pytest.mark.parametrize("name", CALLS_WITH_A_NUMBER)
def test_a_function_of_ours_that_decides_is_no_branch(name: str) -> None:
    """It computes, and decides by its number, in one instruction of the user's code: decisions do
    not merge there, since the function still holds what it has computed."""
    f = CALLS_WITH_A_NUMBER[name]
    compiled, x = fw.compile(f, fullgraph=True), fw.rand(3, 4)
    for k in (1, 2, 3, 1, 2, 3):
        assert_equal(compiled(x, k), f(x, k))
    assert compiled.stats.recordings <= 4 and compiled.stats.fallbacks == 0


def test_a_merge_inside_of_a_function_of_ours_is_undone() -> None:
    def f(x: fw.Tensor, k: int) -> fw.Tensor:
        y = x * 2 if x.sum() > 0 else x * 3
        return fw.topk(y, k).values

    compiled = fw.compile(f, fullgraph=True)
    for n, k in enumerate((1, 2, 1, 3, 2, 1, 3, 1, 2, 3, 3, 2)):
        x = fw.rand(4, 6) - n // 2 % 2
        assert_equal(compiled(x, k), f(x, k))
    assert compiled.stats.replays >= 5
