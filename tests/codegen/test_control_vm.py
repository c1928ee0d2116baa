"""Decisions and loops in one native call give Python's results, for any values and any number of
iterations."""

from __future__ import annotations

import operator
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fast_paths import broken_off

import fusewire as fw
from fusewire.capture.replay.replay import NOT_TRACED
from fusewire.capture.scalars.math_functions import SYMBOLIC_FUNCTIONS
from fusewire.capture.scalars.scalar_expr import OPERATORS
from fusewire.codegen.llvm.python_scalars import LIBM, NAMES
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.eager.core.tensor import Tensor

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="objects do not lie as in this CPython")


def newton(x: Tensor) -> Tensor:
    a = fw.abs(x) + 0.5
    root = a
    while fw.abs(root * root - a).max() > 1e-4:
        root = (root + a / root) * 0.5
    return root


def swapped(x: Tensor) -> Any:
    a, b = x, x * 2 + 1
    while (a * a).sum() < 50:
        a, b = b, a * 0.5 + b
    return a, b


def rotated(x: Tensor) -> Any:
    a, b, c, d = x, x + 1, x + 2, fw.abs(x) + 0.1
    while d.sum() < 40:
        a, b, c, d = b, c, a, d * 1.5
    return a, b, c


def unchanged(x: Tensor) -> Any:
    kept, y = x - 1, x
    while y.max() < 20:
        y = y + fw.abs(kept) + 1
    return kept, y, x


def doubled(x: Tensor) -> Any:
    """One value goes to two names, and one from outside takes the place of another."""
    a, b, c, outside = x, x + 1, x + 2, fw.abs(x) + 3
    while a.max() < 60:
        a = fw.abs(a) + b * b + 1
        b, c = a, outside
    return a, b, c


def dtypes(x: Tensor) -> Any:
    n, seen, total = fw.zeros((), dtype=fw.int32), x > 100, fw.abs(x).astype(fw.float64)
    while n < 7 and not seen.all():
        n, seen, total = n + 1, seen | (total > 4), total * 1.25
    return n, seen, total


def stopped(x: Tensor) -> Tensor:
    while x.sum() < 100:
        x = fw.abs(x) * 2 + 0.5
        if x.max() > 30:
            break
        x = x + 1
    return x - 1


def nested(x: Tensor) -> Tensor:
    x = fw.abs(x) + 1
    while x.sum() < 500:
        y = x
        while y.max() < 20:
            y = y * 2
        x = x + y
    return x


def one_after_the_other(x: Tensor) -> Tensor:
    x = fw.abs(x) + 1
    while x.sum() < 100:
        x = x * 2
    while x.max() > 3:
        x = x - 1
    return x if x.min() > 0 else -x


def of_truth(x: Tensor) -> Tensor:
    """-0.0 is false, nan is true."""
    first = x[0] * 0 if x[0] < 0 else x[0]
    return x + 1 if first else x * 2


def counted(x: Tensor) -> Any:
    n, x = 0, fw.abs(x) + 0.1
    while x.sum() < 100 and n < 9:
        x, n = x * (n + 2), n + 1
    return x, n


def halved(x: Tensor) -> Any:
    """Ints, floats and bools that go round, and the arithmetic that native code has."""
    step, n, odd, total = 8.0, 3, False, x * 0
    while total.max() < 1e6 and step > 0.01:
        if n % 3 == 0:
            total = total + x * step
        total, step, n, odd = total * n, step / 2 - 0.001, -(n // 2) + 5, not odd
    return total, step, n, odd, n * 1.5


def numbers_of_values(x: Tensor) -> Any:
    top, n = fw.abs(x).max().item(), (x > 0).sum().item()
    while top < 20:
        top = top * 2 + 1
        x = x + top
        n = n + (x > 3).sum().item()
    return x * (top - 1), top, n, x.min().item() > 0


def arithmetic(x: Tensor) -> Any:
    top = x.max().item()
    return x * (top * 2 + 1) - abs(x.min()), top > 1, (x > 0).sum().item() * 2


SEEDS = int(os.environ.get("FUSEWIRE_TEST_LOOPS", "20"))
FUNCTIONS = [newton, swapped, rotated, unchanged, doubled, dtypes, broken_off, stopped, nested,
             one_after_the_other, of_truth, counted, halved, numbers_of_values,
             arithmetic]


def given(calls: int, *shape: int, seed: int = 7) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    scales = rng.choice([0.0, 0.1, 1.0, 2.0, 30.0], calls)
    return [fw.from_numpy((rng.normal(0, 1, shape) * s).astype(np.float32)) for s in scales]


def same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, Tensor):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-5, 1e-6)
    elif isinstance(want, tuple):
        assert len(got) == len(want)
        list(map(same, got, want))
    else:
        assert got == want


def fast_path_result(compiled: Any, *args: Any) -> Any:
    found = [p.direct(args, {}) for p in compiled.programs]
    return next((f for f in found if f is not NOT_TRACED), NOT_TRACED)


def learnt(function: Callable[..., Any], inputs: list[Any]) -> Any:
    """The function, compiled, when it has seen these values often enough."""
    compiled = fw.compile(function, fullgraph=True)
    for x in inputs * 2:
        compiled(x)
    return compiled


@pytest.mark.parametrize("function", FUNCTIONS, ids=operator.attrgetter("__name__"))
def test_it_gives_what_python_gives(function: Callable[..., Any]) -> None:
    compiled, short = fw.compile(function, fullgraph=True), 0
    for x in given(60, 3):
        before = x.tolist()
        same(compiled(x), function(x))
        result = fast_path_result(compiled, x)
        if result is not NOT_TRACED:
            short += 1
            same(result, function(x))
        assert x.tolist() == before
    assert short > 20
    assert {p.split for p in compiled.programs} == {""}


def test_any_number_of_turns() -> None:
    def f(x: Tensor, limit: Tensor) -> Any:
        turns = fw.zeros((), dtype=fw.int64)
        while x.max() < limit:
            x, turns = x + 1, turns + 1
        return x, turns

    compiled = fw.compile(f, fullgraph=True)
    for limit in (0, 1, 2, 3, 5, 9, 0, 1, 2, 3, 5, 9) * 2:
        same(compiled(fw.zeros(3), fw.tensor(float(limit))), f(fw.zeros(3), fw.tensor(limit * 1.0)))
    for limit in (0, 1, 2, 1000, 30_000):
        x, turns = fast_path_result(compiled, fw.zeros(3), fw.tensor(float(limit)))
        assert turns.item() == limit and x.tolist() == [limit] * 3


def test_results_of_calls_are_theirs_alone() -> None:
    compiled = learnt(newton, given(4, 5))
    inputs = given(20, 5, seed=1)
    results = [compiled(x) for x in inputs]
    for x, result in zip(inputs, results):
        same(result, newton(x))


def test_arrays_that_native_code_does_not_read_are_copied() -> None:
    compiled = learnt(newton, given(4, 5))
    for x in given(5, 5, 3, seed=2):
        same(fast_path_result(compiled, x[:, 1]), newton(x[:, 1]))


def test_a_way_that_was_not_recorded_is_left_to_python() -> None:
    def f(x: Tensor) -> Tensor:
        while x.max() < 50:
            x = x * 2 + 1
            if x.min() < -50:
                return x * 0
        return x

    compiled = learnt(f, [fw.ones(3)] * 30)
    assert compiled.programs[0].split == ""
    odd = fw.tensor([1e-3, -8.0, 0.0])
    assert fast_path_result(compiled, odd) is NOT_TRACED
    same(compiled(odd), f(odd))
    for x in [odd, fw.ones(3)] * 5:
        same(compiled(x), f(x))
    same(fast_path_result(compiled, odd), f(odd))


def grows(total: Tensor, x: Tensor) -> Tensor:
    """Changes a tensor on one way."""
    if (total * x).sum() < 100:
        total += x
        return x * 2
    return x - 1


def test_tensors_are_changed_in_their_own_memory() -> None:
    total, by_hand, x = fw.zeros(40), fw.zeros(40), fw.ones(40)
    compiled = fw.compile(grows, fullgraph=True)
    for _ in range(9):
        same(compiled(total, x), grows(by_hand, x))
    assert compiled.programs[0].split == ""
    total, by_hand = fw.ones(40) * -7, fw.ones(40) * -7
    place = total._data.ctypes.data
    for _ in range(20):
        same(compiled(total, x), grows(by_hand, x))
        same(total, by_hand)
    assert total._data.ctypes.data == place


def test_an_array_that_is_held_elsewhere_stays_as_it_is() -> None:
    total, by_hand, held = fw.ones(40) * -20, fw.ones(40) * -20, []
    compiled = fw.compile(grows, fullgraph=True)
    for _ in range(30):
        other = fw.asarray(total, copy=True)
        held.append((other, other.tolist()))
        same(compiled(total, fw.ones(40)), grows(by_hand, fw.ones(40)))
        same(total, by_hand)
    assert compiled.programs[0].split == ""
    for other, values in held:
        assert other.tolist() == values


def test_what_python_sees_on_the_way_stays_with_python(capsys: Any) -> None:
    def f(x: Tensor) -> Tensor:
        while x.max() < 20:
            x = fw.abs(x) * 2 + 1
            print("turn")
        return x

    compiled = fw.compile(f)
    for _ in range(5):
        same(compiled(fw.ones(2)), f(fw.ones(2)))
    assert capsys.readouterr().out.count("turn") == 2 * 5 * 4
    assert "runs in Python" in compiled.programs[0].split


def test_large_values_are_not_copied_about() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2 + 1
        return y if y.sum() > 0 else -y

    compiled = learnt(f, [fw.ones(1 << 20), -fw.ones(1 << 20)])
    assert "bytes would be copied" in compiled.programs[0].split
    same(compiled(fw.ones(1 << 20)), f(fw.ones(1 << 20)))


def test_large_memory_is_not_kept_for_them() -> None:
    def f(x: Tensor) -> Tensor:
        y = fw.tanh(x * 2)
        return y.sum() if y.max() > 0 else y.min()

    compiled = learnt(f, [fw.ones(5 << 20), -fw.ones(5 << 20)])
    assert "bytes pass between its graphs" in compiled.programs[0].split
    assert learnt(f, [fw.ones(500), -fw.ones(500)]).programs[0].split == ""


def test_explain_says_what_runs_where() -> None:
    compiled = learnt(newton, given(4, 5))
    turns = str(compiled.explain()).split("float32[5], bool[]: ")[1]
    assert "the whole program is one native call" in str(compiled.explain())
    compiled(fw.ones(5) * 1000)
    assert str(compiled.explain()).split("float32[5], bool[]: ")[1].split()[0] > turns.split()[0]

    def asks(x: Tensor) -> Tensor:
        return x + [10, 20][int(x.sum() > 0)]

    assert "control flow runs in Python between" in str(learnt(asks, given(8, 3)).explain())


def test_a_profile_shows_the_kernels_of_every_turn() -> None:
    compiled = learnt(newton, given(4, 5))
    with fw.profile() as profile:
        same(compiled(fw.ones(5) * 1000), newton(fw.ones(5) * 1000))
    assert "max_greater" in str(profile)


def test_checked_calls_give_the_same() -> None:
    compiled = fw.compile(newton, check="always", fullgraph=True)
    for x in given(10, 3):
        same(compiled(x), newton(x))


def test_several_threads_at_once() -> None:
    compiled = learnt(nested, given(20, 3))
    inputs, wrong = given(60, 3, seed=3), []

    def calls() -> None:
        for x in inputs:
            try:
                same(compiled(x), nested(x))
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def endless(x: Tensor, step: Tensor) -> Tensor:
    while x.max() < 3:
        x = x + step
    return x


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_an_endless_loop() -> None:
    compiled = fw.compile(endless, fullgraph=True)
    for _ in range(4):
        compiled(fw.zeros(3), fw.ones(()))
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        compiled(fw.zeros(3), fw.zeros(()))
        timer.join()
    timer.join()
    same(fast_path_result(compiled, fw.zeros(3), fw.ones(())), endless(fw.zeros(3), fw.ones(())))


def test_other_threads_work_while_a_loop_goes_on() -> None:
    """A call that has worked for some time lets go of Python's lock."""
    compiled = fw.compile(endless, fullgraph=True)
    for _ in range(4):
        compiled(fw.zeros(3), fw.ones(()))
    counted = []

    def count() -> None:
        while not done.is_set():
            counted.append(1)
            done.wait(0.001)

    done = threading.Event()
    other = threading.Thread(target=count)
    other.start()
    try:
        compiled(fw.zeros(3), fw.tensor(2e-6))
    finally:
        done.set()
        other.join()
    assert len(counted) > 3


class Loops:
    """Writes random functions with loops that carry values to and fro. They round nothing in ways
    that depend on the order of sums."""

    NAMES = ("a", "b", "c", "d")

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def source(self) -> str:
        body = "\n".join(f"    {line}" for line in self.loop("t", 2))
        ends = ", ".join(self.rng.permutation(self.NAMES)[:int(self.rng.integers(1, 5))])
        return ("def f(x, limit):\n    a, b, c, d = x, x + 1, x.astype(fw.float64), x > 0\n"
                f"    outside, zero = x * 0.5, (limit * 0)\n{body}\n    return {ends}, t\n")

    def loop(self, counter: str, depth: int) -> list[str]:
        lines = [f"{counter} = zero", f"while {counter} < limit:"]
        inner = [f"{counter} = {counter} + 1"]
        for _ in range(int(self.rng.integers(1, 3))):
            inner += self.statement(counter, depth)
        return lines + [f"    {line}" for line in inner]

    def statement(self, counter: str, depth: int) -> list[str]:
        kind = self.rng.integers(6)
        if kind == 0 and depth:
            return self.loop(counter + "i", depth - 1)
        if kind == 1 and depth:
            then, other = self.assignment(), self.assignment()
            return [f"if a.max() > {self.rng.normal():.1f}:", f"    {then}", "else:",
                    f"    {other}"]
        if kind == 2:
            return ["if b.max() > 9:", "    break"]
        return [self.assignment()]

    def assignment(self) -> str:
        return "a, b, c, d = " + ", ".join(map(self.value, self.NAMES))

    def value(self, name: str) -> str:
        """A value of the type that the name always has."""
        floats = ["a", "b", "outside", "a * 0.5 + 1", "a - b", "fw.maximum(a, b)", "b + outside",
                  "fw.where(d, a, b)"]
        choices = {"a": floats, "b": floats, "c": ["c", "c", "c * 0.5", "c + a.max()"],
                   "d": ["d", "~d", "a > b", "d & (a > 0)"]}
        return str(self.rng.choice(choices[name]))


def test_random_loops() -> None:
    native = 0
    for seed in range(SEEDS):
        source = Loops(seed).source()
        scope: dict[str, Any] = {"fw": fw}
        exec(compile(source, f"<loops {seed}>", "exec"), scope)
        compiled = fw.compile(scope["f"])
        for number, x in enumerate(given(14, 3, seed=seed)):
            limit = fw.tensor((0, 1, 2, 3, 4, 6)[number % 6], dtype=fw.int32)
            try:
                same(compiled(x, limit), scope["f"](x, limit))
                result = fast_path_result(compiled, x, limit)
                if result is not NOT_TRACED:
                    same(result, scope["f"](x, limit))
            except AssertionError as error:
                pytest.fail(f"{source}\nwith x={x}, limit={limit}: {error}")
        native += any(p.split == "" for p in compiled.programs)
    assert native > SEEDS // 3


def test_a_number_that_outgrows_64_bits_is_pythons() -> None:
    def f(x: Tensor) -> Any:
        n = 3
        while x.max() < 100:
            x, n = x + 1, n * n
        return x, n

    compiled = learnt(f, [fw.full((2,), 96.0)] * 4)
    assert compiled.programs[0].split == ""
    for start in (96.0, 95.0, 94.0, 93.0):  # 3 to the powers of 16, 32, 64 and 128
        same(compiled(fw.full((2,), start)), f(fw.full((2,), start)))
    assert fast_path_result(compiled, fw.full((2,), 93.0)) is NOT_TRACED


def test_a_number_that_changes_its_type_is_pythons() -> None:
    def f(x: Tensor) -> Any:
        n, m = 1, 0.5
        while x.max() < 100:
            x, n, m = x * 2, m, n  # type: ignore[assignment]
        return x, n

    compiled = learnt(f, [fw.ones(2), fw.full((2,), 60.0)])
    assert compiled.programs[0].split == \
        "a number has another type after an iteration, or on another path"
    same(compiled(fw.ones(2)), f(fw.ones(2)))


def test_an_error_of_python_is_raised_by_python() -> None:
    def f(x: Tensor) -> Any:
        n = 8
        while x.max() < 100:
            x, n = x * 2, n - 1
        return x, 1 / n

    compiled = learnt(f, [fw.ones(2), fw.full((2,), 60.0)])
    same(compiled(fw.ones(2) * 0.9), f(fw.ones(2) * 0.9))
    with pytest.raises(ZeroDivisionError):
        compiled(fw.full((2,), 0.5))


INTS = [0, 1, -1, 2, -3, 7, 10, -10, 1 << 40, -(1 << 40), (1 << 62) - 1, -(1 << 62), (1 << 63) - 1,
        -(1 << 63)]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -1e300, 5e-324, float("inf"), float("-inf"),
          float("nan"), 2.0 ** 53, 2.0 ** 53 + 2]


PREDICATES = ("isnan", "isinf", "isfinite")
UNARY = ("neg", "abs", "invert", "trunc", "floor", "ceil", "round", *LIBM, *PREDICATES)
SHIFTS = [0, 1, 2, 30, 62, 63, 64, 70, -1]
HALVES = [2.5, -2.5, 0.5, 1.5, -0.49999999999999994, 9.2e18, -9.3e18, 2.0, 3.0]


def operands_of(op: str) -> list[tuple[Any, ...]]:
    """Left and right operands, and the dtypes that they come from."""
    floats = FLOATS + HALVES * (op in (*UNARY, "pow", "mod", "floordiv"))
    whole = (INTS, SHIFTS if "shift" in op else INTS, fw.int64, fw.int64)
    if op in ("and", "or", "xor", "invert", "lshift", "rshift"):
        return [whole]
    mixed = [(floats, floats, fw.float64, fw.float64), (INTS, floats, fw.int64, fw.float64)]
    return mixed if op == "pow" else [whole, *mixed]


@pytest.mark.parametrize("op", sorted({name.split()[0] for name in NAMES} & set(OPERATORS)))
def test_arithmetic_is_that_of_python(op: str) -> None:
    """Also at the ends of 64 bits, with nan, infinities and zeros of both signs."""
    two = op not in UNARY
    function = SYMBOLIC_FUNCTIONS.get(OPERATORS[op], OPERATORS[op])

    def f(a: Tensor, b: Tensor, go: Tensor) -> Any:
        x, y = a.item(), b.item()
        while go < 1:
            go = go + 1
        return (function(x, y) if two else function(x)), go

    go, native = fw.zeros(()), 0
    for left, right, first, second in operands_of(op):
        compiled = fw.compile(f)
        for a in left:
            for b in right if two else right[:1]:
                given = fw.tensor(a, dtype=first), fw.tensor(b, dtype=second), go
                assert answer(compiled, given) == answer(f, given)
        native += any(p.split == "" for p in compiled.programs)
    assert native


def test_divmod_and_powers_of_ints_are_those_of_python() -> None:
    def f(a: Tensor, b: Tensor, go: Tensor) -> Any:
        x, y = a.item(), b.item()
        while go < 1:
            go = go + 1
        return (*divmod(x, y), x ** 3, +(x > y)), go

    compiled = fw.compile(f)
    for a in (0, 7, -7, 2_000_000, -2_000_000, 3_000_000):
        for b in (2, -2, 0):
            given = fw.tensor(a), fw.tensor(b), fw.zeros(())
            assert answer(compiled, given) == answer(f, given)
    assert any(p.split == "" for p in compiled.programs)


def test_a_number_rounded_to_digits_is_pythons() -> None:
    def f(a: Tensor, go: Tensor) -> Any:
        while go < 1:
            go = go + 1
        return round(a.item(), 2), go

    compiled = fw.compile(f)
    for a in (0.125, 2.675, -1.005, 1e20):
        given = fw.tensor(a, dtype=fw.float64), fw.zeros(())
        for _ in range(3):
            assert answer(compiled, given) == answer(f, given)
    assert "Python computes a number" in compiled.programs[0].split


def answer(function: Callable[..., Any], given: tuple[Any, ...]) -> str:
    """What comes of a call, to the sign of a zero."""
    try:
        return repr(function(*given)[0])
    except (ArithmeticError, ValueError) as error:
        return type(error).__name__
