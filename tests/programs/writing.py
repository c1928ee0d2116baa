"""Writes random programs: a function, what surrounds it, and a sequence of calls."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .grammar import (
    EFFECTS,
    EFFECTS_PROLOGUE,
    EXPRESSIONS,
    KINDS,
    LEAVING,
    PROLOGUE,
    RESULTS,
    STATEMENTS,
    TURNS,
    Form,
)

HOLE = re.compile(r"\{(?:(\w+):)?(\w+)\}")
FEATURES = sorted({*EXPRESSIONS, *STATEMENTS} - {"core"})
CALLS = 8
BLOCKS = ("{block}", "{loop}", "{turn}")

# The small holes: plain text in every place.
SMALL: dict[str, Callable[[random.Random], str]] = {
    "literal": lambda rng: f"{rng.randint(-12, 25) / 10 + 0.0137:.4f}",
    "number": lambda rng: str(rng.choice([0.5, 0.75, 1.25, -0.5, 0.9])),
    "few": lambda rng: str(rng.randint(0, 3)),
    "some": lambda rng: str(rng.randint(2, 5)),
    "row": lambda rng: str(rng.randint(-1, 2)),
}
SIMPLEST = {"batch": "x", "vector": "v", "scalar": "v.sum()", "list": "[v]", "float": "k",
            "int": "n", "test": "v.sum() > 0.3137"}


@dataclass(frozen=True)
class Program:
    """`source` defines a function `f` and its surroundings; each of `calls` is a text that sets
    `result` by calling `run`, which is that function, compiled or not."""

    seed: int
    features: tuple[str, ...]
    source: str
    calls: tuple[str, ...]

    def __str__(self) -> str:
        calls = [f"# call {n}\n{text}" for n, text in enumerate(self.calls)]
        return "\n".join([self.source, "run = fw.compile(f)", *calls])


def write(seed: int, choice: Sequence[str] = FEATURES, size: int = 14,
          results: Sequence[str] = RESULTS, effects: bool = False) -> Program:
    """The program of this number, with some of these features, at most so many statements, and
    one of these results: always the same one. With `effects` it prints, logs and warns."""
    rng = random.Random(seed)
    features = tuple(sorted(rng.sample(choice, rng.randint(2, 5))))
    first = EFFECTS_PROLOGUE if effects else ""
    source = PROLOGUE + first + Writer(rng, ()).helper() + \
        Writer(rng, features, results, EFFECTS if effects else ()).function(size)
    return Program(seed, features, source, tuple(_calls(rng, (*features, *["effect"] * effects))))


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


class Writer:
    """Fills holes. `scope` holds the readable names by kind, `fixed` those not to be assigned."""

    def __init__(self, rng: random.Random, features: tuple[str, ...],
                 results: Sequence[str] = RESULTS, more: Sequence[Form] = ()) -> None:
        """`more`: statements beside those of the features."""
        self.rng, self.features, self.results = rng, features, results
        self.scope: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.fixed = {"k", "n", "mode"}
        self.count = self.nesting = self.left = 0
        self.in_loop = False
        self.own = [*(f for name in features for f in STATEMENTS.get(name, ())), *more]
        self.forms = [*STATEMENTS["core"], *STATEMENTS["if"], *self.own]
        self.special = self._texts(features)
        self.texts = self._texts(("core", *features))

    @staticmethod
    def _texts(features: tuple[str, ...]) -> dict[str, list[str]]:
        tables = [EXPRESSIONS[name] for name in features if name in EXPRESSIONS]
        return {kind: [text for table in tables for text in table.get(kind, ())] for kind in KINDS}

    # ---- functions
    def helper(self) -> str:
        """Two functions that the program may call."""
        self.left, self.scope["vector"] = 3, ["v"]
        lines = [*self.statements(2), f"return {self.expression('vector', 1)}"]
        lines = ["def helper(v, k, n=1):", "    x = fw.stack([v, v])", *_indented(lines), "",
                 "def pair(v, s):", "    return v * 0.5, s - v.sum()", "", ""]
        return "\n".join(lines)

    def function(self, size: int) -> str:
        """The function itself, of at most so many statements; inside of another one where it has a
        closure."""
        self.left, self.scope["batch"], self.scope["vector"] = size, ["x"], ["v"]
        lines = self.statements(self.rng.randint(4, 7)) + self.fill(Form("return {result}"))
        outside = {"global": ["global COUNT, SHIFT"], "closure": ["nonlocal c, m"]}
        first = [line for name in self.features for line in outside.get(name, ())]
        lines = ["def f(x, v, k, n, mode):", *_indented([*first, *lines])]
        if "closure" in self.features:
            lines = ["def make():", "    c, m = fw.tensor([0.1, 0.2, 0.3]), 0", *_indented(lines),
                     "    return f, lambda: (c, m)", "", "f, peek = make()"]
        return "\n".join(lines) + "\n"

    # ---- statements
    def statements(self, count: int, loop: bool = False) -> list[str]:
        """Lines of at most so many statements, at least one."""
        lines: list[str] = []
        for _ in range(count):
            self.left -= 1
            if self.left > 0:
                lines += self.fill(self._form(loop))
        return lines or self.fill(Form("{set:vector} = {vector}"))

    def _form(self, loop: bool) -> Form:
        if loop and self.rng.random() < 0.15:
            return self.rng.choice(LEAVING)
        forms = self.own if self.own and self.rng.random() < 0.5 else self.forms
        if self.nesting >= 3:
            forms = [f for f in forms if not any(b in f.text for b in BLOCKS)]
        return self.rng.choice([f for f in forms if self._has_targets(f)] or STATEMENTS["core"])

    def _has_targets(self, form: Form) -> bool:
        return all(map(self._free, re.findall(r"\{in:(\w+)\}", form.text)))

    def _free(self, kind: str) -> list[str]:
        """The variables of a kind that may be changed."""
        return [name for name in self.scope[kind] if name not in self.fixed]

    def fill(self, form: Form) -> list[str]:
        """The lines of a statement. What follows knows the names it made for certain."""
        mine: dict[str, str] = {}
        lines: list[str] = []
        with self._inside():
            for line in form.text.split("\n"):
                lines += self._line(line, mine, form)
                for letter in re.findall(r"\{my:(\w)\}", line):
                    self._know(mine[letter], form.names.get(letter, ""))
            known = self.scope
        if not any(block in form.text for block in BLOCKS):
            self.scope = known
        elif not form.text.startswith("for"):
            for letter, kind in form.names.items():
                self._know(mine[letter], kind)
        return lines

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Forgets, in the end, the names that were made."""
        before, self.scope = self.scope, {kind: list(names) for kind, names in self.scope.items()}
        yield
        self.scope = before

    def _know(self, name: str, kind: str) -> None:
        self.fixed.add(name)
        if kind and name not in self.scope[kind]:
            self.scope[kind].append(name)

    def _line(self, line: str, mine: dict[str, str], form: Form) -> list[str]:
        text = line.lstrip(" ")
        indent = line[:len(line) - len(text)]
        if text in ("{block}", "{loop}"):
            inner = self._block(text == "{loop}" or (self.in_loop and "{loop}" not in form.text))
            return [indent + each for each in inner]
        if text == "{turn}":
            turn = self.rng.choice(TURNS).split("\n")
            return [indent + each for part in turn for each in self._line(part, mine, form)]
        later: list[tuple[str, str]] = []
        filled = HOLE.sub(lambda hole: self._hole(hole[1], hole[2], mine, later), text)
        for name, kind in later:
            self.scope[kind].append(name)
        return [indent + filled]

    def _block(self, loop: bool) -> list[str]:
        before, self.in_loop = self.in_loop, loop
        self.nesting += 1
        with self._inside():
            lines = self.statements(self.rng.choice([1, 1, 2, 2, 3]), loop)
        self.nesting -= 1
        self.in_loop = before
        return lines

    def _hole(self, how: str, kind: str, mine: dict[str, str], later: list[tuple[str, str]]) -> str:
        if how == "my":
            return mine.setdefault(kind, f"{kind}{self._number()}")
        if how == "set":
            if self._free(kind) and self.rng.random() < 0.7:
                return self.rng.choice(self._free(kind))
            later.append((f"{kind}{self._number()}", kind))
            return later[-1][0]
        return self.rng.choice(self._free(kind)) if how == "in" else self._inner(how, kind, -1)

    def _number(self) -> int:
        self.count += 1
        return self.count

    # ---- expressions
    def _inner(self, how: str, kind: str, depth: int) -> str:
        if how == "var" and self.scope[kind]:
            return self.rng.choice(self.scope[kind])
        return self.expression(kind, depth + 1)

    def expression(self, kind: str, depth: int) -> str:
        """An expression of a kind; a small one where it stands deep in another."""
        if kind in SMALL:
            return SMALL[kind](self.rng)
        names = self.scope.get(kind, [])
        if depth > 2 or (names and self.rng.random() < 0.25 + 0.2 * depth):
            return self.rng.choice(names) if names else SIMPLEST[kind]
        texts = self.results if kind == "result" else self.texts[kind] or [SIMPLEST[kind]]
        if self.special.get(kind) and self.rng.random() < 0.4:
            texts = self.special[kind]
        return HOLE.sub(lambda hole: self._inner(hole[1], hole[2], depth), self.rng.choice(texts))


# ---- calls
def _calls(rng: random.Random, features: tuple[str, ...]) -> Iterator[str]:
    """Calls with inputs that change, some of them as before, and what changes in between."""
    for number in range(CALLS):
        lines = []
        if number == 0 or rng.random() < 0.75:
            lines += [f"x = {_batch(rng, features)}", f"v = fw.tensor({_numbers(rng)})"]
        if number and rng.random() < 0.3:
            lines += _changes(rng, features)
        changing = "numbers" in features
        k = rng.choice([0.5, 0.7, 1.1, 2.3]) if changing else 0.5
        n = rng.randint(0, 4) if changing else 2
        mode = rng.choice(["a", "a", "b", None, True]) if "mode" in features else "a"
        lines.append(f"result = run(x, v, {k}, n={n}, mode={mode!r})")
        yield "\n".join(lines)


def _numbers(rng: random.Random) -> list[float]:
    return [round(rng.uniform(-2, 2), 2) for _ in range(3)]


def _batch(rng: random.Random, features: tuple[str, ...]) -> str:
    rows = rng.choice([2, 2, 1, 3, 5, 7]) if "size" in features else 2
    return f"fw.tensor({[_numbers(rng) for _ in range(rows)]})"


def _changes(rng: random.Random, features: tuple[str, ...]) -> list[str]:
    changes = {
        "attribute": [f"box.k = {rng.choice([0.75, 0.6])}", f"box.w = fw.tensor({_numbers(rng)})",
                      "v = box.w", "box.h = box.w"],
        "counter": ["box.n = 0"], "global": ["RATE = 0.25", f"SHIFT = fw.tensor({_numbers(rng)})"],
        "layer": ["layer.weight.requires_grad_(False)", "layer.weight.requires_grad_(True)"],
        "gradient": ["p.grad = None", "p.grad = fw.ones(3)"], "log": ["log.clear()"],
        "alias": ["v = x[0]", "SHIFT = v", "v = SHIFT"], "inplace": ["W = W * 0.5"],
        "effect": [f"LOG.setLevel({10 * rng.randint(1, 4)})", "LOG.disabled = not LOG.disabled"],
        "closure": ["v = result if getattr(result, 'shape', ()) == (3,) else v"],
    }
    found = [text for name in features for text in changes.get(name, ())]
    return [rng.choice(found)] if found else []
