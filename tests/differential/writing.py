"""Writes random programs: the text of a function, the arrays of its calls and its state."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .lines import MAKERS, UNSIGNED_ZERO, change
from .namespaces import is_float
from .pool import Pool, Variable, environments, is_tame
from .values import DTYPES, STYLES, array

SHAPES = [(), ("n",), ("m",), ("n", "m"), ("m", "n"), (1, "m"), ("n", 1), (3,), (2, "n", "m"),
          ("n", 3), (0, "m"), (5, 4), ("n",), ("m", 3, 1)]
CALLS = 7


@dataclass(frozen=True)
class Program:
    """`lines` are the body of a function of `s` and the names of `inputs`."""

    seed: int
    half: str
    lines: tuple[str, ...]
    results: tuple[str, ...]
    inputs: list[dict[str, np.ndarray]]  # one per call
    states: list[dict[str, Any]]  # the changes of the state before each call
    grads: tuple[str, ...]  # inputs that require gradients
    signed_zero: frozenset[str] = field(default=frozenset())
    exact: frozenset[str] = field(default=frozenset())  # results in which nothing was rounded

    @property
    def text(self) -> str:
        """The source of the function."""
        names = ", ".join(["s", *self.inputs[0]])
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def f({names}):\n{body}    return ({', '.join(self.results)},)\n"


@np.errstate(all="ignore")
def write(seed: int) -> Program:
    """The program with that number."""
    rng = np.random.default_rng([seed, 20])
    half = str(rng.choice(["float16", "bfloat16"]))
    inputs, states = _inputs(rng, half), _states(rng)
    pool = Pool(environments(half, inputs, _running(states)))
    for name in inputs[0]:
        pool.variables[name] = pool.variable(name)
    lines = _lines(rng, pool)
    results = tuple(n for n in pool.variables if n not in inputs[0])[-6:] or ("x0",)
    floats = [n for n, a in inputs[0].items() if is_float(a.dtype) and a.dtype.itemsize > 2]
    grads = tuple(n for n in floats if rng.random() < 0.6) if rng.random() < 0.5 else ()
    zeros = frozenset(n for n, v in pool.variables.items() if v.signed_zero)
    exact = frozenset(n for n, v in pool.variables.items() if v.exact)
    return Program(seed, half, tuple(lines), results, inputs, states, grads, zeros, exact)


def _sizes(rng: Any) -> list[dict[str, int]]:
    """The sizes n and m in every call: always the same, or changed one after another."""
    small = [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33]
    sizes = {"n": int(rng.choice(small[2:])), "m": int(rng.choice(small[2:]))}
    if rng.random() < 0.06:
        sizes["n"] = int(rng.choice([300, 1000, 4099]))
    all_sizes, changes = [dict(sizes)], rng.random() < 0.6
    for call in range(1, CALLS):
        if changes and call > 1 and rng.random() < 0.5:
            sizes[str(rng.choice(["n", "m"]))] = int(rng.choice(small))
        all_sizes.append(dict(sizes) if rng.random() < 0.8 else dict(all_sizes[0]))
    return all_sizes


def _inputs(rng: Any, half: str) -> list[dict[str, np.ndarray]]:
    sizes, style = _sizes(rng), str(rng.choice(STYLES))
    names = []
    for i in range(int(rng.integers(2, 5))):
        dtype = "float32" if i == 0 else str(rng.choice(DTYPES))
        shape = SHAPES[int(rng.integers(len(SHAPES)))]
        names.append((f"x{i}", half if dtype in ("float16", "bfloat16") else dtype, shape))
    return [{name: array(rng, tuple(size.get(a, a) for a in shape), dtype, style)
             for name, dtype, shape in names} for size in sizes]


def _states(rng: Any) -> list[dict[str, Any]]:
    """What is assigned to the state before each call; the first has everything."""
    first = {"k": int(rng.integers(1, 4)), "scale": 0.5, "flag": True, "count": 0, "log": [],
             "row": array(rng, (3,), "float32", "grid"), "last": None}
    changes: list[dict[str, Any]] = [first]
    for _ in range(1, CALLS):
        kind = int(rng.integers(8))
        changes.append([{}, {}, {}, {"k": int(rng.integers(1, 4))}, {"flag": rng.random() < 0.5},
                        {"scale": float(rng.choice([0.5, 0.3, 2.0]))}, {"count": 0},
                        {"row": array(rng, (3,), "float32", "grid")}][kind])
    return changes


def _running(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The state of each call, as if no call changed it: what lines are written with."""
    states, state = [], {}
    for assigned in changes:
        state = state | assigned
        states.append(dict(state))
    return states


def _lines(rng: Any, pool: Pool) -> list[str]:
    lines: list[str] = []
    for number in range(int(rng.integers(4, 22))):
        for _ in range(4):  # attempts
            line = _changed(rng, pool) if rng.random() < 0.12 else _assigned(rng, pool, number)
            if line:
                lines.append(line)
                break
    return lines


def _assigned(rng: Any, pool: Pool, number: int) -> str | None:
    maker = MAKERS[int(rng.integers(len(MAKERS)))]
    expression, name = maker(rng, pool), f"v{number}"
    if not expression or not pool.run(f"{name} = {expression}"):
        return None
    variable = pool.variable(name)
    if not is_tame(variable) or variable.ndim > 4:
        pool.undo()
        return None
    used = [v for n, v in pool.variables.items() if re.search(rf"\b{n}\b", expression)]
    variable.from_exact = all(v.exact for v in used)
    variable.signed_zero = (all(v.signed_zero for v in used)
                            and not any(word in expression for word in UNSIGNED_ZERO))
    variable.owned = maker.__name__ in ("arithmetic", "integer", "pointwise", "with_number")
    if not variable.owned:  # it may be a view, and so are writes to its operands seen elsewhere
        for v in used:
            v.owned = False
    pool.variables[name] = variable
    return f"{name} = {expression}"


def _changed(rng: Any, pool: Pool) -> str | None:
    line = change(rng, pool)
    if not line or not pool.run(line):
        return None
    target = re.match(r"v\d+", line)
    if target:
        new, old = pool.variable(target[0]), pool.variables[target[0]]
        if not is_tame(new) or new.dtype != old.dtype or not _same_shapes(new, old):
            pool.undo()
            return None
        new.owned, new.signed_zero = True, False
        new.from_exact = old.exact and new.exact
        pool.variables[target[0]] = new
    return line


def _same_shapes(a: Variable, b: Variable) -> bool:
    return [x.shape for x in a.values] == [x.shape for x in b.values]
