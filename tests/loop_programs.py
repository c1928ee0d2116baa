"""Writes random programs of loops that native code can run: `python tests/loop_programs.py 7`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

Names = dict[str, list[str]]  # by kind: vector, matrix, scalar, int, float, buffer
WIDTH, ROWS = 3, 4
FIRST_LINES = {"vector": ["h = {vector}", "w = fw.tanh(u)"], "scalar": ["total = v.sum() * 0.1"],
               "int": ["q = n"], "float": ["z = g"], "buffer": ["buf = fw.zeros_like(x)"]}


class Writer:
    """Writes one program. `carried`: the variables that loops may change."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names: Names = {"vector": ["v", "u"], "matrix": ["x"], "scalar": ["a"], "int": ["n"],
                             "float": ["g"], "buffer": []}
        self.carried: Names = {}
        self.lines: list[str] = []
        self.loops = self.depth = 0

    def program(self) -> str:
        for kind, texts in FIRST_LINES.items():
            for text in texts:
                self.add(1, text.format(vector=self.pick("vector")))
                self.carried.setdefault(kind, []).append(text.split()[0])
                self.names[kind].append(text.split()[0])
        for _ in range(self.rng.choice([1, 1, 2])):
            self.loop(1)
        kinds = self.rng.choices(["vector", "matrix", "scalar", "int", "float", "buffer"], k=3)
        self.add(1, f"return {', '.join(map(self.pick, kinds))}")
        return "\n".join(["import fusewire as fw", "", "def f(x, v, u, n, g, a):", *self.lines, ""])

    def add(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def pick(self, kind: str) -> str:
        return self.rng.choice(self.names[kind])

    def one_of(self, *texts: Callable[[], str]) -> str:
        return self.rng.choice(texts)()

    def vector(self) -> str:
        pick = self.pick
        return self.one_of(
            lambda: pick("vector"), lambda: f"{pick('matrix')}[{self.index()}]",
            lambda: f"fw.tanh({pick('vector')} + {pick('vector')})",
            lambda: f"fw.sin({pick('vector')} * {self.integer()})",
            lambda: f"{pick('vector')} * 0.5 + {self.number()}", lambda: f"{pick('vector')}[::-1]",
            lambda: f"fw.where({pick('vector')} > 0.1, {pick('vector')}, {pick('scalar')})")

    def scalar(self) -> str:
        method = self.rng.choice(["sum", "mean", "max"])
        return self.one_of(
            lambda: self.pick("scalar"), lambda: f"fw.tanh({self.vector()}).{method}()",
            lambda: f"{self.pick('scalar')} * 0.5 + {self.number()}")

    def integer(self) -> str:
        return self.one_of(
            lambda: self.pick("int"), lambda: f"({self.pick('int')} + 1)",
            lambda: f"({self.pick('int')} // 2)", lambda: f"min({self.pick('int')}, 3)",
            lambda: f"({self.pick('int')} % -5)")

    def number(self) -> str:
        return self.one_of(
            lambda: self.pick("float"), lambda: f"{self.integer()} * 0.1",
            lambda: f"{self.pick('scalar')}.item()", lambda: f"{self.rng.uniform(-1, 1):.3f}")

    def index(self) -> str:
        return f"{self.rng.choice(self.names['int'])} % {ROWS}"

    def test(self) -> str:
        return self.one_of(
            lambda: f"{self.scalar()} > {self.rng.uniform(-0.5, 0.7):.3f}",
            lambda: f"{self.integer()} % 2 == 0", lambda: f"{self.number()} < {self.number()}",
            lambda: f"({self.vector()} > 0.3).any()")

    def change(self, indent: int) -> None:
        """Writes a statement that changes a variable, the buffer, or a branch of them."""
        kind = self.rng.choice(["vector", "vector", "scalar", "int", "float", "buffer", "swap"])
        if kind == "buffer":
            sign = self.rng.choice(["", "+"])
            self.add(indent, f"buf[{self.index()}] {sign}= {self.vector()}")
        elif kind == "swap":
            self.add(indent, "h, w = w, h")
        else:
            text = {"vector": self.vector, "scalar": self.scalar, "float": self.number,
                    "int": lambda: f"{self.integer()} % 7"}[kind]()
            bounded = f"max(min({text}, 9.0), -9.0)" if kind == "float" else text
            self.add(indent, f"{self.rng.choice(self.carried[kind])} = {bounded}")

    def branch(self, indent: int) -> None:
        leave = self.rng.random() < 0.3
        self.add(indent, f"if {self.test()}:")
        self.add(indent + 1, "break") if leave else self.change(indent + 1)
        if not leave and self.rng.random() < 0.5:
            self.add(indent, "else:")
            self.change(indent + 1)

    def loop(self, indent: int) -> None:
        self.loops += 1
        self.depth += 1
        counter = f"c{self.loops}"
        if self.rng.random() < 0.5:
            self.add(indent, f"for {counter} in range(n):")
        else:
            self.add(indent, f"{counter} = 0")
            self.add(indent, f"while {counter} < n + 2 and {self.scalar()} < 1.3:")
            self.add(indent + 1, f"{counter} += 1")
        self.names["int"].append(counter)
        for _ in range(self.rng.randint(2, 4)):
            nested = self.depth == 1 and self.rng.random() < 0.15
            step = self.loop if nested else self.branch if self.rng.random() < 0.4 else self.change
            step(indent + 1)
        self.names["int"].remove(counter)
        self.depth -= 1


if __name__ == "__main__":
    print(Writer(int(sys.argv[1])).program())
