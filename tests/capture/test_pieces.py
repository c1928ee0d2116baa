"""Functions that cannot be recorded: Python runs on each call, what stands between in pieces."""

from __future__ import annotations

import contextlib
import gc
import io
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from oracle import assert_same

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.capture import deferring
from fusewire.capture.pending import Pending
from fusewire.capture.pieces import Pieces
from fusewire.codegen.compile import compile_graph

X = fw.from_numpy(np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32))
W = fw.from_numpy(np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32))
T = fw.from_numpy(np.random.default_rng(2).integers(0, 4, 6))


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of the small tensors of these tests too."""
    monkeypatch.setattr(deferring, "SMALL", 0)


def waiting() -> list[Any]:
    """All values to come that are anywhere in this process."""
    gc.collect()  # frames that an exception went through
    return [x for x in gc.get_objects() if type(x) is Pending]


class Run:
    """Calls a function in pieces."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self.pieces = fn, Pieces(compile_graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.pieces.run(self.fn, args, kwargs)
        finally:
            assert not waiting()


def check(fn: Callable[..., Any], *args: Any, calls: int = 4, loose: float = 1.0) -> Pieces:
    """Several calls of `fn` in pieces give what eager gives; the pieces."""
    run = Run(fn)
    for _ in range(calls):
        compare(run(*args), fn(*args), loose)
    return run.pieces


def compare(got: Any, expected: Any, loose: float = 1.0) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for x, y in zip(got, expected):
            compare(x, y, loose)
    elif isinstance(expected, (fw.Tensor, np.ndarray)):
        assert_same(got, expected, loose)
    elif isinstance(expected, (float, complex)):
        np.testing.assert_allclose(got, expected, 1e-4 * loose)
    else:
        assert got == expected


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
    assert why == f"test_pieces.py:{line}: NumPy hands a tensor's values to Python"


def test_only_what_is_still_there_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = []

    def backend(graph: Any) -> Any:
        outputs.append(len(graph.outputs))
        return compile_graph(graph)

    def f(x: fw.Tensor) -> tuple[fw.Tensor, float]:
        kept = x.exp()
        return kept, float((kept * 2 + 1).sin().sum())

    pieces = Pieces(backend)
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
        array = y.data
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
    assert run.pieces.compiled == 1  # the number is an input


# ---- errors
def test_an_error_of_shapes_is_raised_where_the_op_stands() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        y = x + 1
        try:
            y = y @ x
        except fw.ShapeError as error:
            assert "test_pieces.py" in error.line
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
        assert type(cell.data) is np.ndarray
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


# ---- gradients
def test_backward_after_a_detour_through_numpy() -> None:
    def f(x: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        w = W.detach().requires_grad_()
        h = x @ w
        scale = float(np.abs(h.numpy()).max())
        loss = (h / scale).square().sum()
        loss.backward()
        return loss.detach(), w.grad

    pieces = check(f, X, loose=10)
    assert pieces.compiled == 2


def test_backward_after_the_call() -> None:
    def f(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        h = x @ w
        h = h * 2 if float(h.sum()) < 1e9 else h
        return h.square().sum()

    run = Run(f)
    for _ in range(3):
        w, v = W.detach().requires_grad_(), W.detach().requires_grad_()
        run(X, w).backward()
        f(X, v).backward()
        assert_same(w.grad, v.grad, 10)


class Doubled(fw.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y


def test_what_a_function_saved_outlives_the_call() -> None:
    def f(w: fw.Tensor) -> fw.Tensor:
        return Doubled.apply(w.sin()).sum()

    run = Run(f)
    for _ in range(3):
        w, v = W.detach().requires_grad_(), W.detach().requires_grad_()
        run(w).backward()
        f(v).backward()
        assert_same(w.grad, v.grad)


def test_gradients_that_gather_over_calls_and_double_backward() -> None:
    def f(x: fw.Tensor, w: fw.Tensor) -> None:
        loss = (x @ w).sigmoid().sum()
        assert float(loss) > 0
        (g,) = fw.grad(loss, w, create_graph=True)
        (g * g).sum().backward()

    run, w, v = Run(f), W.detach().requires_grad_(), W.detach().requires_grad_()
    for _ in range(4):
        run(X, w)
        f(X, v)
        assert_same(w.grad, v.grad, 10)


def test_transforms_checkpoints_and_hooks() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        seen = []
        w = W.detach().requires_grad_()
        w.register_hook(lambda g: seen.append(g * 2))
        h = fw.utils.checkpoint.checkpoint(lambda x: (x @ w).tanh(), x)
        assert float(h.sum()) < 1e9
        h.sum().backward()
        slope = fw.func.jvp(lambda x: (x * x).sum(), (x,), (x + 1,))[1]
        rows = fw.func.vmap(lambda row: (row @ W).softmax(0))(x)
        return [w.grad, seen[0], slope, rows]

    check(f, X, loose=10)


# ---- state
def trained(make: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> list[Any]:
    """Everything that steps of a model with batch norm and dropout leave behind."""
    fw.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(),
                          nn.Dropout(0.5), nn.Linear(8, 4))
    optimizer = make(model.parameters())
    schedule = fw.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    losses: list[float] = []

    def step(x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        losses.append(loss.item())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = wrap(step)
    results = []
    for _ in range(6):
        results.append(run(X, T).detach())
        schedule.step()
    states = [v for p in model.parameters() for v in optimizer.state[p].values()]
    return [*results, *model.state_dict().values(), *[p.grad for p in model.parameters()], *states,
            losses[-1] < 10]


@pytest.mark.parametrize("make", [
    lambda p: fw.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: fw.optim.AdamW(p, lr=0.01)])
def test_training_steps(make: Callable[[Any], Any]) -> None:
    runs: list[Run] = []

    def wrap(step: Any) -> Any:
        runs.append(Run(step))
        return runs[0]

    compare(trained(make, wrap), trained(make, lambda step: step), 300)
    assert runs[0].pieces.evaluations <= 4


def test_random_tensors_are_those_of_eager() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        first = fw.rand(6, 5) * x
        state = fw.get_rng_state().tolist()
        fw.manual_seed(state[1] + 7)
        return [first, F.dropout(x + 1, 0.5), fw.randint(0, 9, (3,)), fw.randn(2)]

    run = Run(f)
    for seed in range(4):
        results = []
        for function in (run, f):
            fw.manual_seed(seed)
            results.append([*function(X), fw.get_rng_state()])
        compare(*results)


def test_changes_in_place() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        y, before = x * 2, x + 0
        y += 1
        kept = y.detach()
        y[1:3, 0] = 7.0
        y[fw.tensor([0, 4])] = x[0]
        y.mul_(2)
        y[y > 3] = float(y.max())
        x.copy_(before)
        return [y, kept, x]

    check(f, X.detach() * 1)


def test_arguments_changed_in_place_keep_their_identity() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        x += 1
        return x * float(x.sum())

    run, got, expected = Run(f), X * 1, X * 1
    for _ in range(3):
        compare(run(got), f(expected))
        assert_same(got, expected)


def test_autocast_and_no_grad() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        w = W.detach().requires_grad_()
        with fw.autocast("cpu", fw.bfloat16):
            low = x @ w
            assert low.dtype == fw.bfloat16
            limit = float(low.max())
        with fw.no_grad():
            off = x @ w * limit
        assert low.requires_grad and not off.requires_grad
        return [low.astype(fw.float32).detach(), off]

    pieces = check(f, X, loose=100)
    assert any("bfloat16" in why for why in pieces.uncompiled)


# ---- what is compiled, and how often
def test_numbers_that_change_become_inputs() -> None:
    def f(x: fw.Tensor, rate: float, n: int) -> fw.Tensor:
        return (x * rate - n) * 0.5

    run = Run(f)
    for k in range(12):
        assert_same(run(X, 1.0 / (k + 1), k), f(X, 1.0 / (k + 1), k))
    assert run.pieces.compiled == 1


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
    assert run.pieces.compiled == 0
    assert len(run.pieces._pieces) <= Pieces.REMEMBERED


def test_programs_are_made_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pieces, "PROGRAMS", 2)

    def f(x: fw.Tensor, n: int) -> fw.Tensor:
        for _ in range(n):
            x = x * 1.5 + 1
        return x

    run = Run(f)
    for _ in range(3):
        for n in range(1, 5):
            assert_same(run(X, n), f(X, n), 10)
    assert run.pieces.compiled == 2
    assert any("2 pieces" in why for why in run.pieces.uncompiled)


def test_an_op_of_a_library_ends_a_piece() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        h = (x * 2).exp()
        order = fw.argsort(h, 1)
        return h.sum() + order.astype(fw.float32) * 2

    pieces = check(f, X)
    assert pieces.compiled == 2
    assert any("argsort" in why for why in pieces.boundaries)


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

    pieces, wrong = Pieces(compile_graph), []

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


# ---- random programs
def program(seed: int) -> Callable[[fw.Tensor, fw.Tensor], list[Any]]:
    """A function of random ops, with values that leave in random places."""
    steps = np.random.default_rng(seed).integers(0, len(OPS), 25).tolist()
    picks = np.random.default_rng(seed + 1).integers(0, 1 << 30, (25, 2)).tolist()

    def f(x: fw.Tensor, w: fw.Tensor) -> list[Any]:
        values, left = [x, x * 0.5, w.sum() * x], []
        for step, (i, j) in zip(steps, picks):
            made = OPS[step](values[i % len(values)], values[j % len(values)], left)
            values.append(made)
            if i % 5 == 0:
                del values[j % len(values)]
            values = values or [x]
        loss = sum((v.tanh().mean() for v in values), start=w.sum())
        loss.backward()
        grad, w.grad = w.grad, None
        return [*values, *left, grad]

    return f


def _set(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
    made = x * 1
    made[1:3] = y[0]
    made[made > 2] = 0.5
    return made


def _in_place(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
    made = x + 0
    made *= 0.5
    made -= y
    return made


def _leak(x: fw.Tensor, left: list[Any], value: Any) -> fw.Tensor:
    left.append(value)
    return x


OPS: list[Callable[[fw.Tensor, fw.Tensor, list[Any]], fw.Tensor]] = [
    lambda x, y, left: (x + y) * 0.5,
    lambda x, y, left: x.tanh() * y,
    lambda x, y, left: x.sigmoid() - 0.25,
    lambda x, y, left: fw.maximum(x, y),
    lambda x, y, left: x - x.mean(1, keepdims=True),
    lambda x, y, left: x.softmax(1) + y.sum(0) * 0.01,
    lambda x, y, left: (x @ y.T).tanh() @ x,
    lambda x, y, left: fw.where(x > y, x, y * 2),
    lambda x, y, left: fw.concat([x[:2], y[2:]]),
    lambda x, y, left: x.flip(0),
    lambda x, y, left: x[fw.tensor([3, 1, 0, 2, 5, 4])],
    lambda x, y, left: x.detach() * y,
    lambda x, y, left: F.layer_norm(x, (5,)),
    lambda x, y, left: _set(x, y),
    lambda x, y, left: _in_place(x, y),
    lambda x, y, left: x * float(y.sum().tanh()),
    lambda x, y, left: y * 1.5 if (x * x).sum() > 7 else x + 1,
    lambda x, y, left: fw.tensor(np.sin(x.detach().numpy())) + y,
    lambda x, y, left: x if max(y[0].tolist()) > 0.5 else y,
    lambda x, y, left: _leak(x, left, (x * 3).detach()),
    lambda x, y, left: x.sort(1)[0] if isinstance(x.sort(1), tuple) else x.sort(1),
]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    f, run = program(seed), Run(program(seed))
    for scale in (1.0, 1.0, -0.7, 1.0):
        w, v = W.detach().requires_grad_(), W.detach().requires_grad_()
        compare(run(X * scale, w), f(X * scale, v), 300)
