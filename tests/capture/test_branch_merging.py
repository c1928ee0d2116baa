"""Paths merge behind a branch in compiled functions: n independent branches need few recordings."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_functions import function_of

import fusewire as fw
from fusewire.capture.cfg.ir import IfMerge, walk

Function = Callable[..., Any]


def check(fn: Function, inputs: list[Any], compiled: Any = None) -> Any:
    """The compiled function after calls that all gave what Python gives."""
    compiled = compiled or fw.compile(fn)
    for x in inputs:
        expected, result = fn(x), compiled(x)
        for a, b in zip(flat(expected), flat(result), strict=True):
            np.testing.assert_allclose(a, b, 2e-6)  # exp of another library
        assert identities(expected, x) == identities(result, x)
    return compiled


def identities(value: Any, x: fw.Tensor) -> list[int]:
    """Numbers of the distinct objects in a result; that of the argument is 0."""
    values = [x, *(value if isinstance(value, (tuple, list)) else [value])]
    return [next(i for i, v in enumerate(values) if v is each) for each in values]


def flat(value: Any) -> list[Any]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v.numpy() if isinstance(v, fw.Tensor) else v for v in values]


def vectors(size: int, count: int, seed: int = 0) -> list[fw.Tensor]:
    draw = random.Random(seed)
    return [fw.tensor([draw.uniform(-1, 1) for _ in range(size)]) for _ in range(count)]


def independent(count: int) -> str:
    lines = ["def f(x):", "    y = x * 2"]
    for i in range(count):
        lines += [f"    if x[{i}] > 0:", f"        y = y + {i + 1}", "    else:",
                  "        y = y * 1.5"]
    return "\n".join([*lines, "    return y", ""])


@pytest.mark.parametrize("count", [1, 2, 3, 6, 8, 20, 64])
def test_independent_branches(count: int, tmp_path: Path) -> None:
    compiled = check(function_of(independent(count), tmp_path), vectors(max(count, 2), 150, count))
    assert compiled.stats.recordings <= count + 1 and compiled.stats.fallbacks == 0
    program, = compiled.programs
    blocks = list(walk(program.root))
    assert len(blocks) <= 4 * count + 2
    assert program.split == ""  # one native call


BODIES = {
    "a chain of elif": """
def f(x):
    y = x + 1
    for i in range(4):
        if x[i] > 0.5:
            y = y * 2
        elif x[i] > 0:
            y = y - 3
        elif x[i] > -0.5:
            y = y.abs()
        else:
            y = y + x
    return y
""",
    "branches in branches": """
def f(x):
    y = x
    if x[0] > 0:
        y = y + 1
        if x[1] > 0:
            y = y * 2
        else:
            y = y * 3
        y = y - x
    else:
        if x[2] > 0:
            y = y - 5
    if x[3] > 0:
        y = y.exp()
    return y
""",
    "Python numbers that differ": """
def f(x):
    k, scale = 2, 1.5
    if x[0] > 0:
        k = 3
    if x[1] > 0:
        scale = scale * k
    if x[2] > 0:
        k = k + 1
    return x * k + scale, k
""",
    "expressions": """
def f(x):
    return (x * 2 if x[0] > 0 else x - 1) + (x * 3 if x[1] > 0 else x) + (1 if x[2] > 0 else 2)
""",
    "an early return": """
def f(x):
    y = x + 1
    if x[0] > 0:
        if x[1] > 0.8:
            return y * 100
        y = y - 2
    if x[2] > 0:
        y = y * 3
    if x[3] > 0:
        y = y + 4
    return y
""",
    "several tensors": """
def f(x):
    a, b = x, x * 2
    if x[0] > 0:
        a, b = b, a
    if x[1] > 0:
        a = b + 1
    if x[2] > 0:
        b = b + a
    return a, b
""",
    "a comparison of identities": """
def f(x):
    a, b = x, x * 2
    if x[0] > 0:
        a, b = b, a
    if x[1] > 0:
        a = b
    if x[2] > 0:
        b = b + a
    return a, b, a is b
""",
    "an input that is changed on one path": """
def f(x):
    x = x + 0
    y = x
    if x[0] > 0:
        y = y * 2
    if x[1] > 0:
        y += 1
    if x[2] > 0:
        x += 3
    return y, x
""",
    "views of a possible input": """
def f(x):
    y = x
    if x[0] > 0:
        y = y * 2
    if x[1] > 0:
        y = y + 1
    z = y.reshape((2, 2))
    if x[2] > 0:
        z = z * 3
    return z, y
""",
    "containers of a possible input": """
def f(x):
    y = z = x
    if x[0] > 0:
        y = y * 2
    if x[1] > 0:
        z = y
    if x[2] > 0:
        y = z + 1
    return [y, z, x]
""",
    "branches that choose an input inside of a loop": """
def f(x):
    y, n = x, 0
    while n < x[3] * 8:
        if x[n % 3] > 0:
            y = y + n
        n = n + 1
    if x[1] > 0:
        y = y * 2
    return y, n
""",
    "a loop inside of a branch": """
def f(x):
    y = x
    if x[0] > 0:
        while y.sum() < 20:
            y = y.abs() * 2 + 1
    if x[1] > 0:
        y = y + 1
    if x[2] > 0:
        y = y - 3
    return y
""",
    "branches inside of a loop": """
def f(x):
    y, n = x, 0
    while y.sum() < 20:
        if x[1] > 0:
            y = y + 1
        else:
            y = y + 2
        if x[2] > 0:
            y = y * 1.5
        y = y + 0.5
        n = n + 1
    return y, n
""",
    "an early continue": """
def f(x):
    y, n = x, 0
    while y.sum() < 20:
        y = y + 0.75
        n = n + 1
        if x[1] > 0:
            y = y + 1
            continue
        if x[2] > 0:
            y = y * 1.25
    return y, n
""",
    "a branch without else": """
def f(x):
    y = x
    for i in range(5):
        if x[i % 4] > 0.3 * i - 0.5:
            y = y * (i + 1)
    return y
""",
    "results of an and": """
def f(x):
    y = x
    if x[0] > 0 and x[1] > 0:
        y = y * 2
    if x[2] > 0 or x[3] > 0:
        y = y + 7
    return y
""",
    "in-place changes": """
def f(x):
    y = x.clone() if hasattr(x, "clone") else x + 0
    if x[0] > 0:
        y += 2
    if x[1] > 0:
        y[0] = 5
    if x[2] > 0:
        y *= 3
    return y
""",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("seed", range(3))
def test_shapes_of_branches(name: str, seed: int, tmp_path: Path) -> None:
    check(function_of(BODIES[name], tmp_path), vectors(4, 60, seed))


@pytest.mark.parametrize(("name", "most"), [
    ("a chain of elif", 16), ("branches in branches", 6), ("Python numbers that differ", 4),
    ("several tensors", 5),
    ("views of a possible input", 8),  # all paths: a view may be one of the input, or of a product
    ("branches inside of a loop", 5), ("a branch without else", 6),
    ("results of an and", 7)])
def test_few_recordings(name: str, most: int, tmp_path: Path) -> None:
    compiled = check(function_of(BODIES[name], tmp_path), vectors(4, 100))
    stats = compiled.stats
    assert stats.recordings <= most, (stats, compiled.misses)


def test_merges_are_in_the_program(tmp_path: Path) -> None:
    compiled = check(function_of(independent(3), tmp_path), vectors(3, 30))
    merges = [b for b in walk(compiled.programs[0].root) if isinstance(b, IfMerge)]
    assert len(merges) == 2  # the last branch returns on both paths
    assert "times" in compiled.explain()


def test_paths_are_compiled_as_a_whole_where_values_are_large(tmp_path: Path) -> None:
    lines = ["def f(x, v):", "    y = x * 2"]
    for i in range(4):
        lines += [f"    if v[{i}] > 0:", f"        y = y + {i}", "    else:", "        y = y * 1.5"]
    fn = function_of("\n".join([*lines, "    return y, y.sum()", ""]), tmp_path)
    compiled, x = fw.compile(fn), fw.tensor(np.linspace(0, 1, 20_000, dtype=np.float32))
    for v in vectors(4, 200):
        for a, b in zip(fn(x, v), compiled(x, v), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6)
    program, = compiled.programs
    assert compiled.stats.recordings <= 5 and program.hot_paths == 16
    hot = program._hot
    assert hot is not None and not any(isinstance(b, IfMerge) for b in walk(hot.root))
    assert "16 paths through merges compiled as a whole" in str(compiled.explain())
    exits = [t.uses for t in program.exits()]
    assert sum(exits) == compiled.stats.replays  # the calls of hot paths count


# ---- `while` and numbers that are only compared


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 9], [9, 0, 1, 2, 3], [1, 2, 3, 0, 9], [3, 0, 5, 1]])
def test_while_needs_three_recordings_whatever_the_examples(order: list[int]) -> None:
    def f(x: fw.Tensor) -> Any:
        n = 0
        while x.sum() > 1:
            x, n = x * 0.5, n + 1
        return x, n

    compiled = fw.compile(f)
    for iterations in [*order, *range(12)]:
        assert compiled(fw.tensor([0.9 * 2 ** iterations]))[1] == iterations
    assert compiled.stats.recordings <= 3 and compiled.stats.fallbacks == 0


def float_of_a_loss(x: fw.Tensor) -> Any:
    loss, rate = (x * x).mean(), 0.1
    if float(loss) < 0.1:
        rate = 0.01
    elif float(loss) < 0.3:
        rate = 0.05
    return x - rate * x


def int_of_a_sum(x: fw.Tensor) -> Any:
    count = int(x.sum() * 3)
    return x * 2 if count > 1 else x + 1


def a_float_that_ends_a_loop(x: fw.Tensor) -> Any:
    while True:
        x = x * 0.5 - 0.1
        value = float(x.sum())
        if value < 0.25 or value != value:
            return x


@pytest.mark.parametrize("f", [float_of_a_loss, int_of_a_sum, a_float_that_ends_a_loop])
def test_numbers_that_are_only_compared(f: Function) -> None:
    compiled = check(f, vectors(4, 80))
    assert compiled.stats.recordings <= 3 and compiled.stats.fallbacks == 0


def test_equal_code_of_two_files_keeps_its_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        source = "def f(x):\n    return x @ x if float(x.sum()) < 9 else x\n"
        compiled = fw.compile(function_of(source, folder))
        with pytest.raises(fw.ShapeError, match=f"{name}.*made_"):
            compiled(fw.ones((2, 3)))


def test_float_as_a_class_and_a_number_that_is_only_compared() -> None:
    def f(x: fw.Tensor, scale: Any) -> Any:
        if float(x.sum()) > 0.5 and isinstance(scale, float):
            return x * scale, float
        return x - scale, list(map(float, [1, scale]))

    compiled = fw.compile(f)
    for x in vectors(3, 30):
        for scale in (2, 2.5):
            (a, *rest), (b, *others) = f(x, scale), compiled(x, scale)
            np.testing.assert_array_equal(a.numpy(), b.numpy())
            assert rest == others


def test_numbers_that_python_sees_are_plain() -> None:
    import json

    def f(x: fw.Tensor) -> Any:
        value = float(x.sum())
        text = json.dumps({"loss": value})
        return x if value < 1 else x * 2, text, type(value) is float

    for x in vectors(3, 5):
        (a, *rest), (b, *others) = f(x), fw.compile(f)(x)
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert rest == others


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_int_that_does_not_exist_raises_as_in_python(value: float) -> None:
    compiled = fw.compile(int_of_a_sum)
    for x in vectors(4, 8):
        compiled(x)
    with pytest.raises((ValueError, OverflowError)) as expected:
        int_of_a_sum(fw.tensor([value]))
    with pytest.raises(type(expected.value)):
        compiled(fw.tensor([value]))
    with pytest.raises(type(expected.value)):
        fw.compile(int_of_a_sum)(fw.tensor([value]))


# ---- variables that name an input on some paths


def test_in_place_changes_of_a_possible_input() -> None:
    def f(x: fw.Tensor, v: fw.Tensor) -> Any:
        y = x
        if v[0] > 0:
            y = y * 2
        if v[1] > 0:
            y = y + v[3]
        if v[2] > 0:
            y += 1
        return x + 1, y

    compiled = fw.compile(f)
    for v in vectors(4, 60):
        a, b = fw.ones(4), fw.ones(4)
        expected, result = f(a, v), compiled(b, v)
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        for one, two in zip(expected, result):
            np.testing.assert_array_equal(one.numpy(), two.numpy())
        assert (expected[1] is a) == (result[1] is b)


def test_an_input_that_changes_behind_the_merge() -> None:
    def f(x: fw.Tensor, v: fw.Tensor) -> Any:
        y = x
        if v[0] > 0:
            y = y * 2
        if v[1] > 0:
            x += 1
        if v[2] > 0:
            y = y - 1
        return y

    compiled = fw.compile(f)
    for v in vectors(4, 60):
        a, b = fw.ones(4), fw.ones(4)
        np.testing.assert_array_equal(f(a, v).numpy(), compiled(b, v).numpy())
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def same(a: Any, b: Any) -> bool:
    return a is b


def test_a_helper_compares_identities() -> None:
    def f(x: fw.Tensor, v: fw.Tensor) -> Any:
        y = x
        if v[0] > 0:
            y = y * 2
        if v[1] > 0:
            y = y + 1
        return (y, same(x, y)) if v[2] > 0 else (y - 1, None)

    compiled = fw.compile(f)
    for v in vectors(4, 60):
        x = fw.ones(4)
        assert f(x, v)[1] == compiled(x, v)[1]


def test_a_possible_input_becomes_a_leaf() -> None:
    def f(x: fw.Tensor, v: fw.Tensor) -> Any:
        y = x
        if v[0] > 0:
            y = y * 2
        if v[1] > 0:
            y = y + 1
        if v[2] > 0:
            y.requires_grad_()
            (y * y).sum().backward()
            return y.grad
        return y

    compiled = fw.compile(f)
    for v in vectors(4, 60):
        a, b = fw.ones(4), fw.ones(4)
        np.testing.assert_array_equal(f(a, v).numpy(), compiled(b, v).numpy())
        assert a.requires_grad == b.requires_grad and (a.grad is None) == (b.grad is None)


def test_an_attribute_names_a_possible_input() -> None:
    class Holder:
        last: Any = None

    def make() -> Any:
        holder = Holder()

        def f(x: fw.Tensor, v: fw.Tensor) -> Any:
            y = x
            if v[0] > 0:
                y = y * 2
            if v[1] > 0:
                y = y + 1
            holder.last = y
            return y.sum() if v[2] > 0 else y.mean()

        return holder, f

    (one, f), (two, g) = make(), make()
    compiled = fw.compile(g)
    for v in vectors(4, 60):
        x = fw.ones(4)
        np.testing.assert_array_equal(f(x, v).numpy(), compiled(x, v).numpy())
        np.testing.assert_array_equal(one.last.numpy(), two.last.numpy())
        assert (one.last is x) == (two.last is x)
    assert compiled.stats.recordings <= 4 and compiled.stats.fallbacks == 0


# ---- state that a path changes and the frames do not show


class Counting:
    """An object that one path changes."""

    def __init__(self) -> None:
        self.calls, self.log = 0, list[int]()

    def __call__(self, x: fw.Tensor) -> Any:
        if x[0] > 0:
            self.calls += 1
        y = x * 2 if x[1] > 0 else x - 1
        if x[2] > 0:
            self.log.append(1)
        return y + 1


def test_a_path_changes_an_object() -> None:
    plain, other = Counting(), Counting()
    compiled = fw.compile(other.__call__)
    for x in vectors(3, 60):
        np.testing.assert_array_equal(plain(x).numpy(), compiled(x).numpy())
        assert plain.__dict__ == other.__dict__


def test_a_path_changes_the_gradient_mode() -> None:
    w = fw.ones(3).requires_grad_()

    def f(x: fw.Tensor) -> Any:
        before = fw.is_grad_enabled()
        if x[0] > 0:
            fw.set_grad_enabled(False)
        if x[1] > 0:
            x = x + 1
        y = x * w
        fw.set_grad_enabled(before)
        return y

    compiled = fw.compile(f)
    for x in vectors(3, 40):
        assert f(x).requires_grad == compiled(x).requires_grad


def test_a_path_resets_gradients() -> None:
    def make() -> Any:
        w = fw.ones(3).requires_grad_()

        def f(x: fw.Tensor) -> Any:
            if x[0] > 0:
                w.grad = None
            y = x + 1 if x[1] > 0 else x - 1
            return y * 2 if x[2] > 0 else y

        return w, f

    (w, f), (v, g) = make(), make()
    compiled = fw.compile(g)
    for x in vectors(3, 60):
        w.grad, v.grad = fw.ones(3), fw.ones(3)
        f(x), compiled(x)
        assert (w.grad is None) == (v.grad is None)


def test_a_path_draws_random_numbers() -> None:
    def f(x: fw.Tensor) -> Any:
        y = x + fw.rand(3) if x[0] > 0 else x
        z = y * 2 if x[1] > 0 else y
        return z + fw.rand(3)

    compiled = fw.compile(f)
    for seed, x in enumerate(vectors(3, 40)):
        fw.manual_seed(seed)
        expected = f(x).numpy()
        fw.manual_seed(seed)
        np.testing.assert_array_equal(expected, compiled(x).numpy())


def test_a_global_that_only_one_path_reads_may_change() -> None:
    scope = {"scale": 2.0}

    def f(x: fw.Tensor) -> Any:
        y = x * scale if x[0] > 0 else x  # type: ignore[name-defined]  # noqa: F821
        return y + 1 if x[1] > 0 else y - 1

    import types
    made = types.FunctionType(f.__code__, {**globals(), **scope}, "f")
    compiled = fw.compile(made)
    for i, x in enumerate(vectors(2, 60)):
        made.__globals__["scale"] = float(i // 10)
        np.testing.assert_array_equal(made(x).numpy(), compiled(x).numpy())


def test_sizes_that_vary_where_paths_merge(tmp_path: Path) -> None:
    fn = function_of(independent(4), tmp_path)
    draw = random.Random(1)
    inputs = [fw.tensor([draw.uniform(-1, 1) for _ in range(draw.choice([4, 5, 6, 9]))])
              for _ in range(80)]
    check(fn, inputs)


def test_gradients_through_branches(tmp_path: Path) -> None:
    """Paths with gradients do not merge yet; their gradients are right."""
    fn = function_of(independent(3), tmp_path)
    compiled = fw.compile(fn)
    for x in vectors(3, 30):
        a, b = x.detach().requires_grad_(), x.detach().requires_grad_()
        fn(a).sum().backward()
        compiled(b).sum().backward()
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


def test_saved_programs_merge(tmp_path: Path) -> None:
    fn = function_of(independent(5), tmp_path)
    compiled = check(fn, vectors(5, 60))
    compiled.save(tmp_path / "program.fw")
    check(fn, vectors(5, 60), fw.load_compiled(tmp_path / "program.fw"))
