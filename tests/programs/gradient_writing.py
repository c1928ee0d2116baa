"""Writes random functions `f(x, t, m)` whose branches and loops change values with gradients.

They read the weights `w` and `b` of their module. What follows the branches is left to the tests.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

BEGIN = """
w = [fw.tensor([0.5, -0.25, 1.5], requires_grad=True, dtype=fw.float64) for _ in range(6)]
b = fw.tensor(0.75, requires_grad=True, dtype=fw.float64)

def inner(h, t):
    if t.sum() > 0.3:
        return fw.tanh(h) * b
    return h - b

def f(x, t, m=2):
    h, g, aux, k = x * w[0], x * w[1] + b, b * 1.0, 1.0
    held = [h * 0.5]
"""
STATEMENTS = [
    "h = fw.tanh(h) * 1.5", "h = h * 0.5", "h = h * w[2]", "g = g * w[0] + h", "h, g = g, h",
    "g = h * h", "aux = aux + h.mean()", "k = k + 0.5", "h = h * k", "held[0] = h + g",
    "held = [g * 2.0]", "h = h + b", "h = inner(h, t[:2])", "h = h / (1.0 + h.sum().item() ** 2)",
    "g = h.detach() * g", "h = fw.where(h > 0, h, g)", "h = h[fw.tensor([2, 0, 1])]",
    "h = g", "h = x * w[3]", "g += h", "aux = aux * (g.sum() > 0)",
    "h = h @ fw.eye(3, dtype=fw.float64)", "h = fw.tanh(h * w[4])", "g = g + w[5].mean()",
    "h = h * w[4] - w[5]",
]


LOOPS = [
    ("for _ in range(m):", "    h = fw.tanh(h * w[1] + x)"),
    ("for _ in range(m):", "    h, g = g * 0.5, h * w[2]", "    aux = aux * 0.5 + h.mean()"),
    ("n = 0", "while h.abs().sum() > 0.5 and n < 5:", "    h = h * w[0] * 0.4", "    n += 1"),
    ("n = 0", "while n < m:", "    if t[n] > 0:", "        g = fw.tanh(g * w[3])",
     "    else:", "        g = g * 0.5 + b", "    n += 1"),
]


class Writer:
    """Writes the branches of a random function."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def source(self, end: str, loops: int = 0) -> str:
        """The source of a function that ends with the lines `end`, with this many of LOOPS."""
        lines = [line for _ in range(self.rng.randint(2, 4)) for line in self.statement(0)]
        for _ in range(loops):
            lines += self.rng.choice(LOOPS)
            lines += self.statement(0)
        return BEGIN + "\n".join(f"    {line}" for line in lines) + end

    def statement(self, depth: int) -> Iterator[str]:
        kind = self.rng.random()
        if depth < 3 and kind < (0.75 if depth == 0 else 0.25):
            yield from self.branch(depth)
        elif depth == 0 and kind < 0.85:
            yield f"for i in range({self.rng.randint(2, 3)}):"
            yield from self.block(depth + 1, "i")
        else:
            yield self.rng.choice(STATEMENTS)

    def branch(self, depth: int, index: str = "") -> Iterator[str]:
        yield f"if {self.condition(index)}:"
        yield from self.block(depth + 1)
        if self.rng.random() < 0.3:
            yield f"elif {self.condition(index)}:"
            yield from self.block(depth + 1)
        if self.rng.random() < 0.6:
            yield "else:"
            yield from self.block(depth + 1)

    def block(self, depth: int, index: str = "") -> Iterator[str]:
        if index:
            yield from (f"    {line}" for line in self.branch(depth, index))
        for _ in range(self.rng.randint(1, 2)):
            yield from (f"    {line}" for line in self.statement(depth))

    def condition(self, index: str) -> str:
        return self.rng.choice([f"t[{index or self.rng.randint(0, 5)}] > 0", "h.sum() > 0.5",
                                "g.max() < 1.0"])
