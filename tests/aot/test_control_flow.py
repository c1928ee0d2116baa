"""Functions that decide by values, count and draw: a library takes the path that Python takes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_calls import code_and_outputs
from c_programs import ARM, HERE, STRICT, check, check_call, command, compiled
from deciding import APART as ON_PATHS_OF_THEIR_OWN
from deciding import DECIDE, MEET, OF_THREE, OF_TWELVE, shared, t

import fusewire as fw
from fusewire.export.aot.abi import Code

pytestmark = pytest.mark.skipif(bool(HERE.missing), reason=f"not here: {HERE.missing}")

GENERATOR = fw.Generator(5)


# ---- what the table of decisions does not have
def left_alone(x: fw.Tensor) -> Any:
    """A result that is an input on one path, a weight on another, and computed on a third."""
    if x[0] > 1:
        return x, x * 2
    return (fw.tensor([1.0, 2.0, 3.0]), x) if x[1] > 0 else (x - 1, x)


def divided(x: fw.Tensor) -> fw.Tensor:
    """A path divides by 0 where another one is taken."""
    return x / x.abs().max() if x.abs().max() > 0 else x


def by_number(x: fw.Tensor) -> fw.Tensor:
    total = x.sum().item()
    return x * total + 1.5 if total > 0.5 and total * 2 < 7 else x - abs(total)


def whole_numbers(x: fw.Tensor) -> Any:
    n, m, steps = (x * 10).astype(fw.int64).max().item(), 1, 0
    while m < 1000 and steps < 9:
        m = m * 3 + n % 7 - n // 5
        n, steps = abs(n - m) ^ 5, steps + 1
    return x * m, x + (n << 2) - (m >> 1), x + (~n & 12 | 3)


def real_numbers(x: fw.Tensor) -> Any:
    a, b = x.sum().item(), x.min().item()
    steps = 0
    while abs(a) < 50:
        a = a * 1.5 - b // 0.7 + 0.25
        b = (b + a) % 3.5 - 1
        steps += 1
        if steps > 20:
            break
    return x * b, x + round(a) + math.floor(b * 4), fw.zeros(2) + a ** 2


def bools(x: fw.Tensor) -> Any:
    large, sign = x.max().item() > 3, 1
    while x.sum() < 40:
        x = x.abs() * 2 + 0.5
        large, sign = x.max().item() > 10, -sign
    return x * sign, x * (2 if large else 3), fw.zeros(2) + large


def swapping(x: fw.Tensor) -> Any:
    a, b, c = x, x + 1, x * 2
    while a.sum() < 50:
        if a[0] > b[0]:
            a, b = b, a
        else:
            a, b, c = c + 1, a.abs(), b.abs()
    return a, b, c


def inner_loops(x: fw.Tensor) -> Any:
    total, steps = x * 0, 0
    while steps < 4 and total.sum() < 30:
        y = x + steps
        while y.sum() > 3:
            y = y * 0.5
            if y[0] < 0.1:
                break
            if y[1] > 2:
                continue
            total = total + y
        steps += 1
    return total, x * steps


def indexed(x: fw.Tensor) -> fw.Tensor:
    """An index that only one path uses."""
    return x[x[0].astype(fw.int64)] * x if x.sum() > 0 else x


def rows(x: fw.Tensor) -> Any:
    """A loop whose number of iterations is that of an argument's rows."""
    best, at = x[0] * 0 - 9, 0
    for i in range(x.shape[0]):
        if x[i] > best:
            best, at = x[i], i
    return best, x * at


OTHERS = [left_alone, divided, by_number, whole_numbers, real_numbers, bools, swapping, inner_loops,
          rows]
MORE = [t(0, 0, 0), t(-1, -2, -3), t(1.5, 0.25, -4), t(2.5, 7, 0.125), t(-0.5, 3, 12), t(0, 2, 1)]
TABLE = [*((f, OF_THREE) for f in DECIDE), *((f, [*OF_THREE, *MORE]) for f in OTHERS),
         *((f, OF_TWELVE[:16]) for f in (*MEET, *ON_PATHS_OF_THEIR_OWN) if f is not shared)]


def arrays(result: Any) -> list[Any]:
    """The tensors of a result as arrays."""
    values = result.values() if isinstance(result, dict) else \
        result if isinstance(result, (tuple, list)) else [result]
    return [value.numpy() for value in values]


@pytest.mark.parametrize(("fn", "inputs"), TABLE, ids=[fn.__name__ for fn, _ in TABLE])
def test_a_library_takes_pythons_path(fn: Callable[..., Any], inputs: Sequence[fw.Tensor],
                                      tmp_path: Path) -> None:
    """Where a compiled function gives eager's bits, a library gives them."""
    built = fw.aot.build(fn, (inputs[0],), tmp_path / "model", library=True)
    assert "values of tensors decide at" in str(built)
    replayed = fw.compile(fn)
    for x in inputs:
        wanted, exact = arrays(fn(x)), arrays([replayed(x) for _ in range(3)][-1])
        code, found = code_and_outputs(str(tmp_path / "model.so"), [x.numpy()], wanted)
        assert code == Code.OK
        for mine, theirs, other in zip(found, wanted, exact):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
            assert not np.array_equal(other, theirs) or np.array_equal(mine, theirs)


@pytest.mark.parametrize("weights", ["inside", "beside"])
@pytest.mark.parametrize("fn", [left_alone, real_numbers, inner_loops])
def test_a_program_in_c_takes_it_too(fn: Callable[..., Any], weights: str, tmp_path: Path) -> None:
    """With memory of the caller, and from two threads at once."""
    for mode in ("m", "mwt"):
        for number, x in enumerate((OF_THREE[0], MORE[1], MORE[4])):
            folder = tmp_path / f"{mode}{number}"
            folder.mkdir()
            check(fn, (x,), folder, mode=mode, weights=weights)


@pytest.mark.parametrize("fn", [real_numbers, inner_loops, left_alone])
def test_code_for_aarch64_takes_it_too(fn: Callable[..., Any], tmp_path: Path) -> None:
    """At least it is made, where no emulator runs it."""
    fw.aot.build(fn, (OF_THREE[0],), tmp_path / "model", target="aarch64", library=False)
    assert (tmp_path / "model.o").read_bytes()[:4] == b"\x7fELF"
    if not ARM.missing:
        for x in (OF_THREE[0], MORE[1], MORE[4]):
            check_call(fn, (x,), compiled("model", tmp_path, ARM), tools=ARM)


def test_threads_take_paths_of_their_own(tmp_path: Path) -> None:
    fw.aot.build(inner_loops, (OF_THREE[0],), tmp_path / "model", library=True)
    inputs = [*OF_THREE, *MORE]
    wanted = [arrays(inner_loops(x)) for x in inputs]
    wrong: list[Any] = []

    def call(x: fw.Tensor, want: list[Any]) -> None:
        for _ in range(200):
            code, found = code_and_outputs(str(tmp_path / "model.so"), [x.numpy()], want)
            if code or any(not np.array_equal(a, b) for a, b in zip(found, want)):
                wrong.append((x, code, found))

    threads = [threading.Thread(target=call, args=each) for each in zip(inputs, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("batch", [1, 2, 5, 9])
def test_loops_and_branches_over_any_size(batch: int, tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> Any:
        n = x.shape[0]
        total = x.sum(1)
        while total.max() < 10 * n:
            x = x * 1.5 + 0.125 if x.max() < 3 else x + n
            total = total + x.sum(1)
        return x, total if n * 2 > 1 else total * 0, x[:, :2] * (n * 3)

    built = fw.aot.build(fn, (fw.ones(4, 3),), tmp_path / "model", library=True,
                         dynamic_shapes={"x": {0: "batch"}}, max_sizes={"batch": 9})
    assert built.sizes == ("for batch from 1 to 9",)
    for seed in range(5):
        x = fw.from_numpy(np.random.default_rng(seed).random((batch, 3)).astype(np.float32))
        wanted = arrays(fn(x))
        code, found = code_and_outputs(str(tmp_path / "model.so"), [x.numpy()], wanted, [batch])
        assert code == Code.OK
        for mine, theirs in zip(found, wanted):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_an_index_is_checked_on_the_path_that_uses_it(tmp_path: Path) -> None:
    fw.aot.build(indexed, (t(1, 2, 3),), tmp_path / "model", library=True)
    path = str(tmp_path / "model.so")
    for x in (t(2, 1, 1), t(-3, 9, 9), t(-7, 1, 1), t(99, -200, 1)):
        code, (found,) = code_and_outputs(path, [x.numpy()], [x.numpy()])
        assert code == Code.OK
        np.testing.assert_array_equal(found, indexed(x).numpy())
    for x in (t(3, 1, 1), t(-4, 9, 9)):
        assert code_and_outputs(path, [x.numpy()], [x.numpy()])[0] == Code.INDEX


def squares(x: fw.Tensor) -> fw.Tensor:
    n = 3
    while x.max() < 100:
        x, n = x + 1, n * n
    return x + n % 1000


def quotients(x: fw.Tensor) -> fw.Tensor:
    n, total = x.max().item(), 0.0
    while total < 2:
        total, n = total + 1 / n, n - 1
    return x + total


@pytest.mark.parametrize(("fn", "right", "wrong"), [
    (squares, [99.5, 97.0, 95.5], [94.5, 90.0]),  # 3 to the power of 64, and more
    (quotients, [2.5, 0.25], [2.0, 1.0]),  # 1 / 0.0
])
def test_a_number_that_python_could_not_hand_over_is_a_code(
        fn: Callable[..., Any], right: list[float], wrong: list[float], tmp_path: Path) -> None:
    fw.aot.build(fn, (fw.full((2,), right[0]),), tmp_path / "model", library=True)
    path = str(tmp_path / "model.so")
    for start in right:
        x = fw.full((2,), start)
        code, (found,) = code_and_outputs(path, [x.numpy()], [x.numpy()])
        assert code == Code.OK
        np.testing.assert_array_equal(found, fn(x).numpy())
    for start in wrong:
        x = np.full(2, start, np.float32)
        assert code_and_outputs(path, [x], [x])[0] == Code.NUMBER


# ---- random numbers
def drawn(x: fw.Tensor) -> Any:
    return x + fw.rand(3), fw.randn(4, dtype=fw.float64), fw.randint(0, 100, (5,)), fw.randperm(7)


def drawn_in_a_loop(x: fw.Tensor) -> fw.Tensor:
    while x.sum() < 10:
        x = x + fw.rand(3)
    return x


def drawn_on_a_path(x: fw.Tensor) -> fw.Tensor:
    if x[0] > 0:
        x = x * fw.rand(3)
    if fw.randint(0, 2).item():
        return x + fw.random.gamma(2.0, size=(3,))
    return fw.nn.functional.dropout(x, 0.5, training=True)


def drawn_from_two(x: fw.Tensor) -> fw.Tensor:
    y = fw.rand(3, generator=GENERATOR)
    return y + fw.rand(3) if x[1] > 0 else y * 2


def seeded_inside(x: fw.Tensor) -> Any:
    first = fw.rand(3)
    fw.manual_seed(7)
    return x + fw.rand(3), first


@pytest.mark.parametrize("fn", [drawn, drawn_in_a_loop, drawn_on_a_path, drawn_from_two,
                                seeded_inside])
@pytest.mark.parametrize("seed", [0, 42, -7, (1 << 63) + 5])
def test_calls_draw_the_numbers_of_python(fn: Callable[..., Any], seed: int, tmp_path: Path
                                          ) -> None:
    fw.manual_seed(3)
    GENERATOR.manual_seed(4)
    built = fw.aot.build(fn, (fw.ones(3),), tmp_path / "model", library=True)
    assert fw.get_rng_state().tolist() == [3, 0] and GENERATOR.state.tolist() == [4, 0]
    fw.manual_seed(seed)
    GENERATOR.manual_seed(seed + 1)
    generators = {"random": fw.default_generator, "GENERATOR": GENERATOR}
    names = [text.split(":")[0] for text in built.inputs[1:]]
    states = [generators[name].state.numpy().copy() for name in names]
    for call in range(4):
        x = fw.from_numpy(np.random.default_rng(call).normal(0, 1, 3).astype(np.float32))
        wanted = arrays(fn(x))
        code, found = code_and_outputs(str(tmp_path / "model.so"), [x.numpy(), *states], wanted)
        assert code == Code.OK
        for mine, theirs in zip(found, wanted):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)
        for name, state in zip(names, states):
            assert state.tolist() == generators[name].state.tolist()


def test_a_call_that_fails_leaves_the_state(tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        y = fw.rand(3)
        return y[x.astype(fw.int64) * 2]

    fw.aot.build(fn, (t(0, 1, 1),), tmp_path / "model", library=True)
    state = np.array([5, 6])
    x = t(0, 1, 2).numpy()
    assert code_and_outputs(str(tmp_path / "model.so"), [x, state], [x])[0] == Code.INDEX
    assert state.tolist() == [5, 6]


def test_a_state_overlaps_nothing(tmp_path: Path) -> None:
    fw.aot.build(drawn_from_two, (t(1, 1, 1),), tmp_path / "model", library=True)
    path, x, state = str(tmp_path / "model.so"), t(1, 1, 1).numpy(), np.array([5, 6])
    assert code_and_outputs(path, [x, state, state], [x])[0] == Code.OVERLAP
    assert code_and_outputs(path, [x, state, state.copy()], [x])[0] == Code.OK


def test_the_short_form_in_c_draws_as_python_does(tmp_path: Path) -> None:
    fw.aot.build(drawn_in_a_loop, (t(1, 1, 1),), tmp_path / "model", library=False)
    (tmp_path / "uses.c").write_text("""
        #include "model.h"
        #include <stdio.h>
        int main(void) {
          float x[3] = {1, 2, 3}, y[3];
          int64_t random[2] = {42, 0};
          for (int call = 0; call < 3; call++) {
            int code = model_call(x, random, y);
            if (code != FUSEWIRE_OK) return code;
            printf("%a %a %a %d\\n", y[0], y[1], y[2], (int)random[1]);
          }
          return MODEL_STATES == 1 ? 0 : 99;
        }""")
    command("cc", *STRICT, "uses.c", "model.o", "-lm", "-o", "uses", folder=tmp_path)
    lines = command("./uses", folder=tmp_path).splitlines()
    fw.manual_seed(42)
    for line in lines:
        wanted = drawn_in_a_loop(t(1, 2, 3)).tolist()
        *values, counter = line.split()
        assert list(map(float.fromhex, values)) == wanted
        assert int(counter) == fw.get_rng_state().tolist()[1]
