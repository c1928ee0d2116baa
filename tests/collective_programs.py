"""Random programs of collectives, with decisions, loops, unread results and gradients.

A program is Python source: its `step(x, w)` has decisions on replicated values only, so all ranks
take the same path. It returns a list of numbers.
"""

from __future__ import annotations

import random

# Ranks that compute one value by other code round it otherwise, and the gradient of a maximum
# depends on which of them are equal. So the values of "max" differ by more than that.
_COLLECTIVES = ("dist.all_reduce({})", "dist.all_reduce({} + dist.get_rank() / 7, 'max')",
                "dist.shift({})", "dist.broadcast({}, 1)", "dist.all_to_all({})",
                "dist.reduce_scatter(dist.all_gather({}))", "dist.replicate_values({})",
                "dist.all_reduce({}, 'mean')")
_LOCAL = ("fw.sin({})", "{} * 0.5", "fw.tanh({}) + 1.0", "{}[::-1]", "{} * {}")


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.values = ["x", "w"]

    def program(self) -> str:
        """The source of `step`."""
        self.add(0, "def step(x, w):")
        self.block(1, self.random.randint(3, 7))
        result = f"dist.all_reduce(fw.tanh({self.random.choice(self.values)}).sum())"
        self.add(1, f"loss = {result} + dist.all_reduce(dist.replicate_values(w).square().sum())")
        if self.random.random() < 0.6:
            self.add(1, "w.grad = None")
            self.add(1, "loss.backward()")
            self.add(1, "return [loss.detach(), dist.all_reduce(w.grad)]")
        else:
            self.add(1, "return [loss, x.sum()]")
        return "\n".join(self.lines)

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def expression(self, patterns: tuple[str, ...]) -> str:
        pattern = self.random.choice(patterns)
        count = pattern.count("{}")
        return pattern.format(*[self.random.choice(self.values) for _ in range(count)])

    def block(self, depth: int, count: int) -> None:
        for _ in range(count):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        kind = self.random.random()
        if kind < 0.45:
            self.assign(depth, self.expression(_COLLECTIVES))
        elif kind < 0.65:
            self.assign(depth, self.expression(_LOCAL))
        elif kind < 0.75:
            self.add(depth, self.expression(_COLLECTIVES))  # nobody reads it
        elif kind < 0.9 and depth < 3:
            self.branch(depth)
        elif depth < 3:
            self.loop(depth)
        else:
            self.add(depth, "dist.barrier()")

    def assign(self, depth: int, value: str) -> None:
        known = self.values[2:] or ["x"]
        name = f"v{len(self.values)}" if depth == 1 else self.random.choice(known)
        self.add(depth, f"{name} = {value}")
        if name not in self.values:
            self.values.append(name)

    def branch(self, depth: int) -> None:
        value = self.random.choice(self.values)
        limit = self.random.choice((-1, 0, 1))
        self.add(depth, f"if dist.all_reduce({value}.detach().sum()) > {limit}:")
        self.block(depth + 1, self.random.randint(1, 2))
        if self.random.random() < 0.5:
            self.add(depth, "else:")
            self.block(depth + 1, self.random.randint(1, 2))

    def loop(self, depth: int) -> None:
        name = f"n{len(self.lines)}"
        self.add(depth, f"{name} = dist.all_reduce(x.detach().sum(), 'max')")
        self.add(depth, f"while {name} < {self.random.choice((1, 2, 3))}:")
        self.block(depth + 1, self.random.randint(0, 1))
        self.add(depth + 1, f"{name} = {name} + 0.7")
