"""Functions with graph breaks: Python runs each call, and subgraphs compute its ops."""

from __future__ import annotations

import contextlib
import io
import os
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from graph_break_run import Run, T, W, X, check, compare, waiting
from oracle import assert_same

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph_breaks.mode_choice import WARM_UP, ModeChoice
from fusewire.capture.graph_breaks.runner import GraphBreakRunner
from fusewire.capture.lazy import lazy_interpreter
from fusewire.capture.runtime.warnings import CaptureWarning
from fusewire.codegen.compile import compile_graph
from fusewire.eager.errors import CaptureError


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of the small tensors of these tests too."""
    monkeypatch.setattr(lazy_interpreter, "MAX_EAGER_ELEMENTS", 0)


# ---- values that leave
def test_numpy_in_the_middle_and_compiled_pieces_around_it() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        h = (x @ W).relu() * 2
        middle = np.sort(h.numpy(), axis=1)
        return (fw.tensor(middle) - h).exp().sum(1)

    pieces = check(f, X)
    assert (pieces.compiled, pieces.evaluations, pieces.replays) == (2, 2, 6)
    (why,) = pieces.boundaries
    line = f.__code__.co_firstlineno + 2
    assert why == f"test_graph_breaks.py:{line}: NumPy hands the values of `h` to Python"


def test_only_what_is_still_there_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = []

    def backend(graph: Any) -> Any:
        outputs.append(len(graph.outputs))
        return compile_graph(graph)

    def f(x: fw.Tensor) -> tuple[fw.Tensor, float]:
        kept = x.exp()
        return kept, float((kept * 2 + 1).sin().sum())

    pieces = GraphBreakRunner(backend)
    for _ in range(2):
        pieces.run(f, (X,), {})
    assert outputs == [2]  # the sum and `kept`


def test_every_way_in_which_values_leave() -> None:
    def f(x: fw.Tensor) -> list[Any]:
        y = x * 2
        first = (y + 1)[0, 0]
        found = [bool((y > 0).any()), int(first), y.sum().item() > 0, (y * 3).tolist(), f"{y[0]}",
                 np.asarray(y + 4), np.add(np.ones(5), (y + 5).numpy()), len(y), list(y[0]),
                 complex((y - 1)[1, 1]), [10, 20, 30][(y[0, 0] > 9).astype(fw.int64)], 1.0 in y]
        return [*found, y]

    pieces = check(f, X)
    assert pieces.compiled > 5


def test_the_array_beneath_a_tensor_can_be_looked_at() -> None:
    def f(x: fw.Tensor) -> list[Any]:
        y = x * 2
        array = y._data
        return [array.shape, array.dtype, array.size, array.ndim, array[1].copy(), array + 1,
                1 + array, np.sqrt(abs(array)), array.sum(), float(array[0, 0]), y]

    check(f, X)


def test_print_prints_numbers() -> None:
    def f(x: fw.Tensor) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print((x * 2)[0], x * 0 + 1)
        return out.getvalue()

    check(f, X)


def test_a_boolean_decides_anew_on_each_call() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return x.exp() if (x * x).sum() > 3 else x.cos() - 1

    run = Run(f)
    for k in range(8):
        scaled = X * (k % 3 - 1)
        assert_same(run(scaled), f(scaled))


def test_time_and_random_numbers_of_python() -> None:
    def f(x: fw.Tensor) -> tuple[fw.Tensor, float]:
        drawn = random.random()
        assert time.perf_counter() > 0
        return (x * drawn).sum(), drawn

    run = Run(f)
    for seed in range(4):
        results = []
        for function in (run, f):
            random.seed(seed)
            results.append(function(X))
        compare(*results)
    assert run.graph_breaks.compiled == 1  # the number is an input


# ---- errors
def test_an_error_of_shapes_is_raised_where_the_op_stands() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        y = x + 1
        try:
            y = y @ x
        except fw.ShapeError as error:
            assert "test_graph_breaks.py" in error.line
            y = y * 3
        return y

    check(f, X)


@pytest.mark.parametrize("far", [7, -9])
def test_an_index_out_of_range_can_be_caught_where_it_stands(far: int) -> None:
    def f(x: fw.Tensor, i: fw.Tensor) -> tuple[str, fw.Tensor]:
        places, said = i + 0, "nothing"
        try:
            y = (x * 2)[places]
        except IndexError:
            said, y = "caught", x * 3
        return said, y

    check(f, X, fw.tensor([0, 2]))
    check(f, X, fw.tensor([0, far]))


def test_a_class_out_of_range_can_be_caught_where_it_stands() -> None:
    def f(x: fw.Tensor, t: fw.Tensor) -> Any:
        try:
            return F.cross_entropy(x @ W, t)
        except IndexError:
            return "caught"

    check(f, X, T)
    check(f, X, T + 1)


def test_an_exception_passes_and_leaves_arrays() -> None:
    kept: list[fw.Tensor] = []

    def f(x: fw.Tensor) -> None:
        kept.append(x * 2)
        raise KeyError("mine")

    run = Run(f)
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            run(X)
    assert len(kept) == 3
    for y in kept:
        assert_same(y, X * 2)


# ---- what outlives the call
def test_lists_dicts_closures_and_objects_keep_tensors() -> None:
    class Keeper:
        last: fw.Tensor | None = None

    keeper, listed, named, cell = Keeper(), [], {}, X

    def f(x: fw.Tensor) -> fw.Tensor:
        nonlocal cell
        y = x + cell
        if y.sum() > 1e9:
            return y
        keeper.last = y * 2
        listed.append(keeper.last.detach())
        named[len(listed)] = (y, [y + 1])
        cell = y
        return y

    run, expected = Run(f), X
    for k in range(1, 4):
        expected = X + expected
        assert_same(run(X), expected)
        assert type(cell._data) is np.ndarray
        assert_same(listed[-1], expected * 2)
        assert_same(keeper.last, expected * 2)
        assert_same(named[k][1][0], expected + 1)


def test_a_generator_that_goes_on_after_the_call() -> None:
    def numbers(x: fw.Tensor) -> Iterator[fw.Tensor]:
        while True:
            x = x + 1
            yield x

    def f(x: fw.Tensor) -> tuple[Any, fw.Tensor]:
        made = numbers(x)
        next(made)
        return made, next(made)

    run = Run(f)
    made, second = run(X)
    assert_same(second, X + 2)
    assert_same(next(made), X + 3)


def test_an_array_that_is_written_to_after_a_tensor_was_made_over_it() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        memory = np.ones((6, 5), np.float32)
        y = fw.from_numpy(memory) * x
        window = fw.from_numpy(memory[2:]) * 2
        memory[:] = 100
        return y.sum() + window.sum()

    check(f, X)




# ---- what is compiled, and how often
def test_numbers_that_change_become_inputs() -> None:
    def f(x: fw.Tensor, rate: float, n: int) -> fw.Tensor:
        return (x * rate - n) * 0.5

    run = Run(f)
    for k in range(12):
        assert_same(run(X, 1.0 / (k + 1), k), f(X, 1.0 / (k + 1), k))
    assert run.graph_breaks.compiled == 1


def test_numbers_of_equal_value_and_other_bits() -> None:
    def f(x: fw.Tensor, zero: float) -> fw.Tensor:
        return 1 / (x * zero)

    run = Run(f)
    for zero in (0.0, 0.0, -0.0, 0.0, float("nan"), float("nan")):
        assert_same(run(X, zero), f(X, zero))


def test_a_structure_that_changes_with_each_call_is_not_compiled() -> None:
    def f(x: fw.Tensor, n: int) -> fw.Tensor:
        for _ in range(n):
            x = x * 1.5 + 1
        return x

    run = Run(f)
    for n in range(1, 30):
        assert_same(run(X, n), f(X, n), 10)
    assert run.graph_breaks.compiled == 0
    assert len(run.graph_breaks._subgraphs) <= run.graph_breaks._subgraphs.policy.limit


def test_programs_are_made_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphBreakRunner, "PROGRAMS", 2)

    def f(x: fw.Tensor, n: int) -> fw.Tensor:
        for _ in range(n):
            x = x * 1.5 + 1
        return x

    run = Run(f)
    for _ in range(3):
        for n in range(1, 5):
            assert_same(run(X, n), f(X, n), 10)
    assert run.graph_breaks.compiled == 2
    assert any("2 subgraphs" in why for why in run.graph_breaks.uncompiled)


def test_an_op_of_a_library_ends_a_piece() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        h = (x * 2).exp()
        return h.sum() + fw.sort(h, 1) * 2

    pieces = check(f, X)
    assert pieces.compiled == 2
    assert any("sort" in why for why in pieces.boundaries)


def test_small_tensors_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pieces = check(lambda x: (x * 2 + 1).sum(), X)
    assert (pieces.replays, pieces.evaluations) == (0, 0)
    large = fw.ones(300, 300)
    assert check(lambda x: (x * 2 + 1).sum(), large).replays


def test_two_thousand_ops() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        kept = []
        for i in range(1000):
            x = x * 0.99 + 0.1
            if i % 50 == 0:
                kept.append(x)
        return kept

    check(f, X, calls=3, loose=100)


def test_a_list_of_many_results() -> None:
    check(lambda x: [x * i for i in range(2000)], fw.ones(2), calls=2)


def test_empty_tensors_and_no_tensors_at_all() -> None:
    check(lambda x: [x + 1, x.sum(), x @ W, fw.zeros(0, 2)], fw.zeros(0, 5))
    check(lambda x: x.max().item() if x.size else "empty", fw.zeros(0, 5))
    check(lambda n: n + 1, 3)
    check(lambda: fw.zeros(3) + fw.arange(3))


# ---- beside other code
def test_two_threads() -> None:
    def f(x: fw.Tensor, k: float) -> fw.Tensor:
        h = (x * k).exp()
        return h / float(h.sum())

    pieces, wrong = GraphBreakRunner(compile_graph), []

    def work(k: int) -> None:
        for i in range(20):
            got = pieces.run(f, (X, k + i / 7), {})
            if not np.allclose(got.numpy(), f(X, k + i / 7).numpy(), 1e-4):
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and not waiting()


def test_a_thread_that_is_handed_a_value_to_come() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        y, found = x * 2, []
        w = W.detach().requires_grad_()
        z = x @ w

        def work() -> None:
            found.extend([y + 1, y.sum(), (z * 3).exp()])

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        found[2].sum().backward()
        return [*found[:2], w.grad]

    check(f, X, loose=10)


def test_a_compiled_function_inside() -> None:
    inner = fw.compile(lambda x: x * 2 + 1)

    def f(x: fw.Tensor) -> fw.Tensor:
        y = inner(x)
        return inner(y) * float(y.sum())

    check(f, X)


def test_calls_on_paths_that_are_not_taken_break_no_graph() -> None:
    def f(x: fw.Tensor, verbose: bool = False) -> fw.Tensor:
        if verbose:
            print("started", time.time(), end="")
            print(random.random(), os.getcwd())
        return x * 2

    compiled = fw.compile(f, fullgraph=True)
    for _ in range(3):
        compiled(fw.ones(3))
    assert compiled.stats.replays == 2


def test_a_function_that_draws_numbers_is_passed_to_another_one() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return x * max(map(random.uniform, [0.0], [1.0]))

    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning, match="random"):
        compiled(fw.ones(3))
    assert compiled.stats.recordings == 0


def test_each_call_with_fullgraph_raises() -> None:
    calls = []

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        calls.append(random.random())
        return x

    for _ in range(8):
        with pytest.raises(CaptureError, match="random"):
            f(X)
    assert len(calls) == 4  # further calls do not run at all


def test_the_reason_names_the_variable() -> None:
    class Box:
        weight = fw.ones(3)

    box = Box()
    box.weight = fw.ones(3) * 2

    def f(x: fw.Tensor) -> fw.Tensor:
        doubled = x * 2
        return x * float(doubled.numpy()[0]) + float(box.weight.numpy()[0]) * (x + 1).numpy()[0]

    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning, match="NumPy hands the values of `doubled` to Python"):
        for _ in range(6):
            assert_same(compiled(X[0]), f(X[0]))
    text = str(compiled.explain())
    assert "the values of `doubled`" in text and "NumPy hands a tensor's values" in text
    stats = compiled.stats
    assert stats.subgraphs > 0 < stats.compiled_ops and stats.eager_ops > 0
    assert f"{stats.subgraphs} subgraph" in text
    assert f"they ran {stats.compiled_ops} operations; {stats.eager_ops} operations ran" in text


def test_a_gradient_of_operations_before_the_call_is_named() -> None:
    weight = fw.ones(3).requires_grad_()
    losses: list[fw.Tensor] = []

    def finish() -> None:
        fw.stack(losses).sum().backward()
        del losses[:]

    compiled = fw.compile(finish)
    for k in range(6):
        losses.append((weight * k).tanh().sum())
        with pytest.warns(CaptureWarning, match=r"they made closure variable losses\[0\]") \
                if k == 0 else contextlib.nullcontext():
            compiled()
    expected = sum(k / np.cosh(k) ** 2 for k in range(6))
    assert_same(weight.grad, fw.ones(3) * expected)


def test_a_function_that_never_settles_runs_eagerly() -> None:
    """Each call has another subgraph, which is evaluated op by op: that takes longer than eager."""
    def f(x: fw.Tensor, turns: int) -> fw.Tensor:
        random.random()
        for k in range(turns):
            x = (x + k).tanh() + turns
        return x

    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning, match="random"):
        for k in range(60):
            assert_same(compiled(X, k), f(X, k))
    assert compiled.graph_breaks.eager_calls > 20


def test_calls_that_run_eagerly_ask_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        random.random()
        return x + 1

    compiled = fw.compile(f)
    monkeypatch.setattr(ModeChoice, "_end_trial", _choose_eager)
    with pytest.warns(CaptureWarning, match="random"):
        for _ in range(100):
            assert_same(compiled(X), f(X))
    runs: list[Any] = []
    monkeypatch.setattr(GraphBreakRunner, "run", lambda self, fn, *call: runs.append(fn))
    assert compiled._eager_ahead > 2
    for _ in range(2):
        assert_same(compiled(X), f(X))
    assert not runs and compiled.stats.fallbacks == 102
    compiled.clear()
    assert compiled._eager_ahead == 0


def _choose_eager(choice: ModeChoice) -> None:
    choice.is_eager, choice._calls_left = True, 64


def test_a_trial_chooses_the_faster_mode() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        random.random()
        return (x * 2 + 1).sum()

    choice, modes = ModeChoice(), []
    for _ in range(WARM_UP + 60):
        modes.append(choice.next_mode())
        choice.note(1.0 if modes[-1] else 2.0)
    assert modes[:WARM_UP] == [False] * WARM_UP and all(modes[WARM_UP + 6:])
    for _ in range(64):  # the next trial finds eager calls slower
        modes.append(choice.next_mode())
        choice.note(3.0 if modes[-1] else 2.0)
    assert not choice.is_eager

    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning, match="random"):
        for _ in range(40):
            assert_same(compiled(X), f(X))
    runner = compiled.graph_breaks
    assert runner.eager_calls >= 3 and f"{runner.eager_calls} calls ran without subgraphs" in \
        str(compiled.explain())


def test_names_of_files_are_no_graph_break() -> None:
    """On some Pythons C functions of the module `posix` compute them."""
    names: list[str] = []

    @fw.compile(fullgraph=True)
    def f(x: Any) -> Any:
        name = os.path.join("a", "..", "b.txt")
        names[:] = [os.path.normpath(name), os.path.splitext(name)[1], *os.path.splitdrive(name)]
        return x * len(os.path.normpath(name))

    for _ in range(3):
        assert f(fw.ones(2)).tolist() == [5, 5]
    assert names[:2] == [os.path.normpath("b.txt"), ".txt"] and f.stats.fallbacks == 0


def test_a_call_that_imports_a_module_is_no_graph_break(
        tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NumPy does in the first call of some functions. The next call is traced."""
    (tmp_path / "scale_of_a_test.py").write_text(
        "import os\nimport re\nSEED = os.urandom(4)\nNAME = re.compile('[a-z]+')\nSCALE = 3.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x: fw.Tensor) -> fw.Tensor:
        from scale_of_a_test import SCALE  # type: ignore[import-not-found]

        return x * SCALE

    compiled = fw.compile(f, fullgraph=True)
    for _ in range(4):
        assert compiled(fw.ones(2)).tolist() == [3.0, 3.0]
    assert (compiled.stats.recordings, compiled.stats.replays) == (1, 2)


def test_an_import_that_fails_each_time_is_a_graph_break() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        try:
            import no_such_module_of_a_test  # type: ignore[import-not-found]  # noqa: F401
        except ImportError:
            return x * 2
        return x

    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning, match="a module is imported"):
        for _ in range(4):
            assert compiled(fw.ones(2)).tolist() == [2.0, 2.0]
