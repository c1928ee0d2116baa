"""How many recordings a function needs: a table of programs, each with the most that are allowed.

Every program has several spellings. All calls give what Python gives, none falls back, and code
grows linearly with the number of branches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from made_functions import function_of

import fusewire as fw
from fusewire.capture.cfg.ir import walk

Call = tuple[Any, ...]


class Case(NamedTuple):
    """A program, the most recordings it may need, and the calls, made by a random generator."""

    source: str
    most: int
    calls: Callable[[random.Random], list[Call]]


def vector(draw: random.Random, size: int = 4) -> Any:
    return fw.tensor([draw.uniform(-1, 1) for _ in range(size)])


def vectors(size: int = 4, count: int = 40, *more: Any) -> Callable[[random.Random], list[Call]]:
    return lambda draw: [(vector(draw, size), *more) for _ in range(count)]


def positive(count: int = 40) -> Callable[[random.Random], list[Call]]:
    return lambda draw: [(fw.tensor([draw.uniform(0.1, 90.0)]),) for _ in range(count)]


# ---- n branches in sequence: at most n + 1 recordings
def written(count: int, lines: Callable[[int], Sequence[str]], end: str = "return y") -> str:
    body = [line for i in range(count) for line in lines(i)]
    return "\n".join(["def f(x):", "    y = x * 2", *[f"    {line}" for line in [*body, end]], ""])


SEQUENCES: dict[str, Callable[[int], Sequence[str]]] = {
    "if and else": lambda i: [f"if x[{i}] > 0:", f"    y = y + {i + 1}", "else:",
                              "    y = y * 1.5"],
    "if alone": lambda i: [f"if x[{i}] > 0:", f"    y = y + {i + 1}"],
    "if not": lambda i: [f"if not x[{i}] > 0:", f"    y = y - {i + 1}"],
    "and": lambda i: [f"if x[{i}] > -0.5 and x[{i}] < 0.5:", f"    y = y + {i + 1}"],
    "a number that differs": lambda i: [f"a = {i}", f"if x[{i}] > 0:", "    a = a + 1.5",
                                        "y = y + a"],
    "an int that differs": lambda i: [f"a = 1 if x[{i}] > 0 else 2", "y = y * a"],
    "an expression": lambda i: [f"y = y + 1 if x[{i}] > 0 else y * 2"],
    "item": lambda i: [f"if x[{i}].item() > 0:", f"    y = y + {i + 1}"],
    "float": lambda i: [f"if float(x[{i}]) > 0:", f"    y = y + {i + 1}"],
    "float in a variable": lambda i: [f"a = float(x[{i}])", "if a > 0:", f"    y = y + {i + 1}"],
    "int": lambda i: [f"if int(x[{i}] * 10) > 3:", f"    y = y + {i + 1}"],
    "bool": lambda i: [f"if bool(x[{i}] > 0):", f"    y = y + {i + 1}"],
    "bool in a variable": lambda i: [f"a = x[{i}] > 0", "if a:", f"    y = y + {i + 1}"],
    "any": lambda i: [f"if (x[{i}:{i + 2}] > 0.5).any():", f"    y = y + {i + 1}"],
    "new tensors": lambda i: [f"if x[{i}] > 0:", "    z = y + 1", "else:", "    z = y - 1",
                              "y = z * 1.5"],
}


LONG = ("if alone", "a number that differs", "float in a variable", "bool")


@pytest.mark.parametrize(("name", "count"), [
    *[(name, count) for name in SEQUENCES for count in (3, 8)], *[(name, 64) for name in LONG]])
def test_branches_in_sequence(name: str, count: int, tmp_path: Path) -> None:
    fn, draw = function_of(written(count, SEQUENCES[name]), tmp_path), random.Random(count)
    compiled = check(fn, vectors(count + 1, 60 + count)(draw))
    decisions = 2 if name == "and" else 1
    assert compiled.stats.fallbacks == 0
    assert compiled.stats.recordings <= decisions * count + 1
    program, = compiled.programs
    assert len(list(walk(program.root))) <= (5 * decisions) * count + 2


# ---- other programs
CASES: dict[str, Case] = {
    "if in a rolled loop": Case("""
def f(x, n):
    y, i = x, 0
    while (y * y).sum() < n:
        if y.sum() > i:
            y = y * 1.5 + 0.1
        else:
            y = y + 0.3
        i = i + 1
    return y
""", 5, vectors(4, 30, 40.0)),
    "two ifs in a rolled loop": Case("""
def f(x):
    y = x
    while y.abs().sum() < 50:
        if y[0] > y[1]:
            y = y * 1.5 + 0.1
        else:
            y = y + 0.3
        if y[2] > 3:
            y = y * 1.1
    return y
""", 6, vectors(4, 30)),
    "if in a loop over a range": Case("""
def f(x):
    y = x
    for i in range(6):
        if y.sum() > 0:
            y = y - 0.4
        else:
            y = y * 1.5 + 0.3
    return y
""", 7, vectors(4, 60)),
    "if in a loop over rows": Case("""
def f(x):
    y = x[0] * 0
    for v in x * 1:
        if v > 0:
            y = y + v
    return y
""", 5, vectors(4, 120)),
    "if in a loop over enumerate": Case("""
def f(x):
    y = x[0] * 0
    for i, v in enumerate([x[0], x[1], x[2], x[3]]):
        if v > 0:
            y = y + v * i
        else:
            y = y * 0.5
    return y
""", 5, vectors(4, 120)),
    "if in a loop over zip": Case("""
def f(x):
    y = x[0] * 0
    for i in range(2):
        for a, v in zip([1.0, 2.0, 3.0], x + i * 0.1):
            if v * a > y:
                y = y + v * a
    return y
""", 7, vectors(4, 120)),
    "continue and break in a loop over rows": Case("""
def f(x):
    y = x[0] * 0
    for v in x:
        if v > 0.5:
            continue
        y = y + v
        if y < -1:
            break
    return y
""", 9, vectors(4, 120)),
    "a loop over rows that it changes": Case("""
def f(x):
    y = x * 1
    for i, v in enumerate(y):
        if v > 0:
            y[(i + 1) % 4] = -1.0
        else:
            y[(i + 2) % 4] = 0.5
    return y
""", 5, vectors(4, 120)),
    "elif": Case("""
def f(x):
    s = x.sum()
    if s > 1:
        y = x + 1
    elif s > 0.5:
        y = x * 2
    elif s > 0:
        y = x - 3
    elif s > -0.5:
        y = x / 2
    else:
        y = -x
    return y.sum()
""", 5, vectors(4, 60)),
    "elif and more behind": Case("""
def f(x):
    s = x.sum()
    if s > 1:
        y = x + 1
    elif s > 0.5:
        y = x * 2
    elif s > 0:
        y = x - 3
    else:
        y = -x
    if y[0] > 0:
        y = y + 1
    elif y[0] > -1:
        y = y * 2
    return y
""", 7, vectors(4, 80)),
    "match": Case("""
def f(x):
    match (x * 2).sum().item() > 0.5:
        case True:
            y = x + 1
        case _:
            y = x - 1
    if y[1] > 0:
        y = y * 3
    return y
""", 3, vectors(4, 40)),
    "continue": Case("""
def f(x):
    y, total = x, x.sum() * 0
    while y.sum() < 20:
        y = y.abs() * 1.2 + 0.5
        if y[0] > y[1]:
            continue
        total = total + y.sum()
    return total
""", 4, vectors(4, 40)),
    "continue in a loop over a range": Case("""
def f(x):
    total = x.sum() * 0
    for i in range(4):
        if x[i] > 0:
            continue
        total = total + x[i] * (i + 1)
    return total
""", 5, vectors(4, 60)),
    "break in a loop over a range": Case("""
def f(x):
    total = x.sum() * 0
    for i in range(4):
        total = total + x[i]
        if total > 0.2:
            break
    return total * 2
""", 5, vectors(4, 60)),
    "early return": Case("""
def f(x):
    if x.sum() > 1:
        return x * 2
    y = x + 1
    if y[0] > 1:
        return y
    return y * 3
""", 3, vectors(4, 60)),
    "numbers that differ at the merge": Case("""
def f(x):
    a, b, c = 1, 2.0, True
    if x[0] > 0:
        a, b = 5, 0.5
    if x[1] > 0:
        c = False
    y = x * a + b
    if c:
        y = y + 1
    return y, a * b
""", 5, vectors(4, 60)),
    "a counter": Case("""
def f(x):
    n = 0
    for i in range(4):
        if x[i] > 0:
            n += 1
    return x * n, n
""", 5, vectors(4, 60)),
    "numbers of other types": Case("""
def f(x):
    a = 1
    if x[0] > 0:
        a = 2.5
    y = x * a
    if x[1] > 0:
        y = y + 1
    return y
""", 4, vectors(4, 60)),
    "nested ifs": Case("""
def f(x):
    y = x
    if x[0] > 0:
        if x[1] > 0:
            y = y + 1
        else:
            y = y + 2
    else:
        if x[2] > 0:
            y = y - 1
    if x[3] > 0:
        y = y * 2
    return y
""", 5, vectors(4, 80)),
    "while on values": Case("""
def f(x):
    n = 0
    while x.sum() > 1:
        x = x * 0.5
        n = n + 1
    return x, n
""", 3, positive()),
    "while on an item": Case("""
def f(x):
    while x.max().item() > 1:
        x = x / 2
    return x
""", 3, positive()),
    "while on a float": Case("""
def f(x):
    while float(x.max()) > 1:
        x = x / 2
    return x
""", 3, positive()),
    "while true and break": Case("""
def f(x):
    while True:
        x = x * 0.5
        if x.sum() < 1:
            break
    return x
""", 3, positive()),
    "while with a number carried": Case("""
def f(x):
    error, steps = 100.0, 0
    while error > 1.0:
        x = x * 0.5
        error = x.sum().item()
        steps += 1
    return x, steps
""", 3, positive()),
    "while with an argument": Case("""
def f(x, tolerance):
    while x.sum() > tolerance:
        x = x * 0.5
    return x
""", 4, lambda draw: [(fw.tensor([draw.uniform(0.1, 90)]), draw.uniform(0.5, 2))
                      for _ in range(40)]),
    "while with at most n iterations": Case("""
def f(x):
    i = 0
    while x.sum() > 1 and i < 50:
        x = x * 0.5
        i += 1
    return x
""", 3, positive()),
    "two whiles": Case("""
def f(x):
    while x.sum() > 1:
        x = x * 0.5
    while x.sum() < 8:
        x = x * 1.5
    return x
""", 4, positive()),
    "nested whiles": Case("""
def f(x):
    n = x.sum() * 0
    while x.sum() > 1:
        y = x
        while y.sum() > 1:
            y = y * 0.4
            n = n + 1
        x = x * 0.5
    return x, n
""", 6, positive()),
    "while with gradients": Case("""
w = fw.tensor([0.5], requires_grad=True)
def f(x):
    y = x * w
    while y.sum() < 20:
        y = y * 1.5 + w
    y.sum().backward()
    gradient, w.grad = w.grad, None
    return y.detach(), gradient
""", 3, positive()),
    "nested whiles with gradients": Case("""
w = fw.tensor([0.5], requires_grad=True)
def f(x):
    y = x * w
    while y.sum() < 20:
        z = y
        while z.sum() < 8:
            z = z * 1.5 + w
        y = y + z
    y.sum().backward()
    gradient, w.grad = w.grad, None
    return y.detach(), gradient
""", 6, positive()),
    "newton": Case("""
def f(x):
    guess = x
    while (guess * guess - x).abs().max() > 1e-3:
        guess = (guess + x / guess) / 2
    return guess
""", 3, positive()),
    "a recurrent network over rows": Case("""
w = fw.linspace(-1, 1, 9).reshape(3, 3)
def f(x):
    h = x[0] * 0
    for row in x:
        h = (row + h @ w).tanh()
    return h
""", 3, lambda draw: [(fw.tensor([[draw.uniform(-1, 1) for _ in range(3)]
                                  for _ in range(draw.randrange(1, 30))]),) for _ in range(30)]),
    "a recurrent network over a range": Case("""
w = fw.linspace(-1, 1, 9).reshape(3, 3)
def f(x):
    h = fw.zeros(3)
    for t in range(x.shape[0]):
        h = (x[t] + h @ w).tanh()
    return h
""", 3, lambda draw: [(fw.tensor([[draw.uniform(-1, 1) for _ in range(3)]
                                  for _ in range(draw.randrange(1, 30))]),) for _ in range(30)]),
    "a recurrent network with len": Case("""
w = fw.linspace(-1, 1, 9).reshape(3, 3)
def f(x):
    h, t = fw.zeros(3), 0
    while t < len(x):
        h = (x[t] + h @ w).tanh()
        t += 1
    return h
""", 3, lambda draw: [(fw.tensor([[draw.uniform(-1, 1) for _ in range(3)]
                                  for _ in range(draw.randrange(1, 30))]),) for _ in range(30)]),
    "a recurrent network with enumerate": Case("""
w = fw.linspace(-1, 1, 9).reshape(3, 3)
def f(x):
    h = fw.zeros(3)
    for t, row in enumerate(x):
        h = (row + h @ w + t).tanh()
    return h
""", 3, lambda draw: [(fw.tensor([[draw.uniform(-1, 1) for _ in range(3)]
                                  for _ in range(draw.randrange(1, 30))]),) for _ in range(30)]),
    "a recurrent network over a batch": Case("""
w = fw.linspace(-1, 1, 9).reshape(3, 3)
def f(x):
    h = fw.zeros(x.shape[0], 3)
    for t in range(x.shape[1]):
        h = (x[:, t] + h @ w).tanh()
    return h
""", 3, lambda draw: [(fw.tensor([[[draw.uniform(-1, 1) for _ in range(3)]
                                   for _ in range(length)] for _ in range(2)]),)
                      for length in [draw.randrange(1, 30) for _ in range(30)]]),
    "batches": Case("""
w = fw.linspace(-1, 1, 12).reshape(4, 3)
def f(x):
    return (x @ w).tanh().mean(0)
""", 2, lambda draw: [(fw.tensor([[draw.uniform(-1, 1)] * 4 for _ in range(n)]),)
                      for n in draw.sample(range(1, 33), 32)]),
    "batches that begin with 1": Case("""
w = fw.linspace(-1, 1, 12).reshape(4, 3)
def f(x):
    return ((x @ w).relu() - 1).sum(1)
""", 2, lambda draw: [(fw.tensor([[draw.uniform(-1, 1)] * 4 for _ in range(n)]),)
                      for n in range(1, 33)]),
    "batches that end with 1": Case("""
w = fw.linspace(-1, 1, 12).reshape(4, 3)
def f(x):
    return ((x @ w) - x.mean()).softmax(1)
""", 2, lambda draw: [(fw.tensor([[draw.uniform(-1, 1)] * 4 for _ in range(n)]),)
                      for n in range(32, 0, -1)]),
    "batches of a layer": Case("""
layer = fw.nn.Linear(4, 3)
def f(x):
    return fw.nn.functional.gelu(layer(x)).sum()
""", 2, lambda draw: [(fw.tensor([[draw.uniform(-1, 1)] * 4 for _ in range(n)]),)
                      for n in draw.sample(range(1, 33), 32)]),
    "sizes in arithmetic": Case("""
def f(x):
    n = x.shape[0]
    return x.sum(0) / n + n * 2 - (n + 1) // 2
""", 2, lambda draw: [(fw.tensor([[draw.uniform(-1, 1)] * 4 for _ in range(n)]),)
                      for n in draw.sample(range(1, 33), 32)]),
    "len in arithmetic": Case("""
def f(x):
    return x.sum() / len(x) ** 0.5
""", 2, lambda draw: [(fw.tensor([draw.uniform(-1, 1)] * n),)
                      for n in draw.sample(range(1, 33), 32)]),
    "sizes in shapes": Case("""
def f(x):
    b, n = x.shape
    return (x * x).reshape(b * n).reshape(n, b).sum(1) * (b * n)
""", 2, lambda draw: [(fw.tensor([[draw.uniform(-1, 1)] * 4 for _ in range(n)]),)
                      for n in draw.sample(range(1, 33), 32)]),
    "sizes in slices": Case("""
def f(x):
    n = x.shape[0]
    return x[: n // 2].sum() - x[n // 2 :].sum()
""", 2, lambda draw: [(fw.tensor([draw.uniform(-1, 1)] * n),)
                      for n in draw.sample(range(2, 33), 31)]),
    "numbers of elements": Case("""
def f(x):
    return (x * x.size).sum() / x.size ** 0.5
""", 2, lambda draw: [(fw.tensor([draw.uniform(-1, 1)] * n),)
                      for n in draw.sample(range(1, 33), 32)]),
    "two sizes": Case("""
def f(x):
    a, b = x.shape
    return x.sum() * (a / b) + (a - b)
""", 2, lambda draw: [(fw.ones(draw.randrange(2, 33), draw.randrange(2, 33)),)
                      for _ in range(32)]),
    "a float and a threshold": Case("""
def f(x):
    loss = (x * x).sum()
    if float(loss) > 1:
        return x * 0.5
    return x + 1
""", 2, vectors(4, 40)),
    "a float and a threshold that is an argument": Case("""
def f(x, threshold):
    loss = (x * x).sum()
    if float(loss) > threshold:
        return x * 0.5
    return x + 1
""", 3, lambda draw: [(vector(draw), draw.uniform(0.5, 2.0)) for _ in range(40)]),
    "an item and a threshold that is an argument": Case("""
def f(x, threshold):
    if (x * x).sum().item() < threshold:
        return x * 0.5
    return x + 1
""", 3, lambda draw: [(vector(draw), draw.uniform(0.5, 2.0)) for _ in range(40)]),
    "a tensor and a threshold that is an argument": Case("""
def f(x, threshold):
    if (x * x).sum() < threshold:
        return x * 0.5
    return x + 1
""", 3, lambda draw: [(vector(draw), draw.uniform(0.5, 2.0)) for _ in range(40)]),
    "a float and a fixed threshold that is an argument": Case("""
def f(x, threshold):
    loss = (x * x).sum()
    best = float(loss)
    if best > threshold:
        return x * 0.5
    return x + 1
""", 2, lambda draw: [(vector(draw), 1.0) for _ in range(40)]),
    "the better of two losses": Case("""
def f(x, y):
    if float((x * x).sum()) < float((y * y).sum()):
        return x
    return y
""", 2, lambda draw: [(vector(draw), vector(draw)) for _ in range(40)]),
    "a branch for each item of a dict": Case("""
WEIGHTS = {"a": 0.5, "b": -2.0, "c": 3.0, "d": 0.25}

def f(x):
    for name, weight in WEIGHTS.items():
        if x.sum() > 0:
            x = x * weight - 1
        else:
            x = x + len(name)
    for weight in WEIGHTS.values():
        if x[0] > 1:
            x = x - weight
    for name in WEIGHTS:
        if x[1] > WEIGHTS[name]:
            x = x * 0.5
    return x
""", 13, vectors(4, 60)),
    "a branch for each element of a list, backwards": Case("""
WEIGHTS = [0.5, -2.0, 3.0, 0.25, 1.5]

def f(x):
    for weight in reversed(WEIGHTS):
        if x.sum() > 0:
            x = x * weight - 1
        else:
            x = x + 1
    return x
""", 6, vectors(4, 60)),
}


# ---- what has a recording for each path, named with its reason in
# docs/explanation/branch_merging.md
UNMERGED: dict[str, str] = {
    "a chain of comparisons": """
def f(x):
    y = x * 2
    if -0.5 < x[0] < 0.5:
        y = y + 1
    if -0.5 < x[1] < 0.5:
        y = y + 2
    if -0.5 < x[2] < 0.5:
        y = y + 3
    return y
""",
    "a loop over a list": """
def f(x):
    y = x[0] * 0
    for v in [x[0], x[1], x[2], x[3]]:
        if v > 0:
            y = y + v
    return y
""",
    "a comprehension": """
def f(x):
    y = [x[i] * 2 if x[i] > 0 else x[i] for i in range(4)]
    return y[0] + y[1] + y[2] + y[3]
""",
    "a generator": """
def positive(x):
    for i in range(4):
        if x[i] > 0:
            yield x[i] * 2

def f(x):
    return sum(positive(x), x[0] * 0)
""",
    "two decisions in one expression": """
def f(x):
    y = (x[0] if x[0] > 0 else x[1] * 3) + (x[2] if x[1] > 0 else x[3] * 2)
    return y * (2 if x[2] > 0 else 3)
""",
    "a bool in a variable": """
def f(x):
    a, b, c = bool(x[0] > 0), bool(x[1] > 0), bool(x[2] > 0)
    return x * (1 + a + 2 * b + 4 * c)
""",
}


@pytest.mark.parametrize("name", UNMERGED)
def test_a_recording_for_each_path(name: str, tmp_path: Path) -> None:
    """At most one for each path, and all calls are right. If one of these needs fewer, it belongs
    to the tables above, and docs/explanation/branch_merging.md no longer names it."""
    compiled = check(function_of(UNMERGED[name], tmp_path), vectors(4, 120)(random.Random(0)))
    assert compiled.stats.fallbacks == 0
    assert 5 < compiled.stats.recordings <= 33, compiled.stats


@pytest.mark.parametrize("name", CASES)
def test_recordings(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    fn = function_of(case.source, tmp_path)
    for seed in range(3):
        compiled = check(fn, case.calls(random.Random(seed)))
        assert compiled.stats.fallbacks == 0
        assert compiled.stats.recordings <= case.most, compiled.explain()


def check(fn: Any, calls: Sequence[Call]) -> Any:
    """The compiled function, after calls that all gave what Python gives."""
    compiled = fw.compile(fn)
    for call in calls:
        for a, b in zip(flat(fn(*call)), flat(compiled(*call)), strict=True):
            np.testing.assert_allclose(a, b, 2e-6, 1e-6)
    return compiled


def flat(value: Any) -> list[Any]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v.numpy() if isinstance(v, fw.Tensor) else v for v in values]


@pytest.mark.parametrize("name", ["losses", "log", "beta", "mean"])
def test_a_list_that_a_training_step_appends_to_needs_no_recording_of_its_own(name: str) -> None:
    """Whatever the list is called: names of functions and variables of fusewire are others."""
    model = fw.nn.Linear(3, 2)
    optimizer = fw.optim.Adam(model.parameters())
    state = type("State", (), {name: []})()
    setattr(state, name, [])
    spaces: dict[str, Any] = {"fw": fw, "model": model, "optimizer": optimizer, "state": state}
    source = f"""
def train(x):
    optimizer.zero_grad()
    loss = model(x).sum().log()
    loss.backward()
    optimizer.step()
    state.{name}.append(float(loss))
    return loss
"""
    exec(source, spaces)
    train = fw.compile(spaces["train"], fullgraph=True)
    for _ in range(6):
        train(fw.rand(4, 3) + 1)
    assert train.stats.recordings == 1 and len(getattr(state, name)) == 6
