"""Errors that depend on values are raised by replays too, whether or not a result is read.

All combinations: `FUSEWIRE_TEST_WHOLE=1 pytest tests/capture/test_errors_of_values.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from oracle import recorded
from sampling import sample

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.passes.bounds_checks import extract_checks
from fusewire.capture.passes.decompose import decompose

tensor = fw.asarray


class Case(NamedTuple):
    """A function that raises an error for `bad` arguments, and none for `good` ones of the same
    types."""

    name: str
    fn: Callable[..., fw.Tensor]
    good: tuple[fw.Tensor, ...]
    bad: tuple[fw.Tensor, ...]

    def __str__(self) -> str:
        return self.name


W = fw.linspace(0, 1, 6).reshape(3, 2)
ROWS, WRONG, LOW = tensor([0, 2, 1]), tensor([0, 3, 1]), tensor([0, -4, 1])
SQUARE = tensor([[2.0, 1.0], [1.0, 3.0]])
ZERO, NANS = fw.zeros(2, 2), fw.full((2, 2), float("nan"))
LOGITS = fw.linspace(-1, 1, 9).reshape(3, 3)
UNIT = tensor([0.25, 0.5])


def written(x: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
    y = x * 1
    y[i] = 2.0
    return y


def ctc_loss(x: fw.Tensor, targets: fw.Tensor, length: fw.Tensor) -> fw.Tensor:
    return F.ctc_loss(x.reshape(3, 1, 3).log_softmax(2), targets, length, tensor([1]))


CASES = [
    *(Case(f"{name}_{how}", fn, (W, ROWS), (W, i)) for how, i in (("high", WRONG), ("low", LOW))
      for name, fn in {
        "index": lambda w, i: w[i],
        "index_two": lambda w, i: w[i, i * 0],
        "index_last_of_two": lambda w, i: w.T[i * 0, i],
        "index_put_last_of_two": lambda w, i: fw.index_put(w.T, (i * 0, i), fw.ones(3)),
        "take": lambda w, i: fw.take(w, i, axis=0),
        "set": written,
    }.items()),
    *(Case(name, fn, (W, ROWS), (W, WRONG)) for name, fn in {
        "embedding": lambda w, i: F.embedding(i, w),
        "embedding_bag": lambda w, i: F.embedding_bag(i.reshape(1, 3), w),
        "gather": lambda w, i: fw.gather(w, 0, i.reshape(3, 1)),
        "take_along_axis": lambda w, i: fw.take_along_axis(w, i.reshape(3, 1), axis=0),
        "scatter": lambda w, i: fw.scatter(w, 0, i.reshape(3, 1), fw.ones(3, 1)),
        "scatter_add": lambda w, i: fw.scatter_add(w, 0, i.reshape(3, 1), fw.ones(3, 1)),
        "index_add": lambda w, i: w.index_add(0, i, fw.ones(3, 2)),
        "made_index": lambda w, i: w[i * 2 - i],
        "index_of_index": lambda w, i: w[i[i]],
        "gather_of_sorted": lambda w, i: w[fw.argsort(w[:, 0])][i],
    }.items()),
    *(Case(name, fn, (LOGITS, ROWS), (LOGITS, WRONG)) for name, fn in {
        "cross_entropy": lambda x, t: F.cross_entropy(x, t),
        "cross_entropy_sum": lambda x, t: F.cross_entropy(x, t, reduction="sum"),
        "cross_entropy_rows": lambda x, t: F.cross_entropy(x, t, reduction="none"),
        "nll_loss": lambda x, t: F.nll_loss(x, t),
        "multi_margin": lambda x, t: F.multi_margin_loss(x, t),
        "multilabel_margin": lambda x, t: F.multilabel_margin_loss(x[:1], t.reshape(1, 3)),
    }.items()),
    *(Case(name, fn, (SQUARE,), (bad,)) for name, fn, bad in [
        ("inv", fw.linalg.inv, ZERO), ("cholesky", fw.linalg.cholesky, -SQUARE),
        ("solve", lambda a: fw.linalg.solve(a, fw.ones(2)), ZERO),
        ("solve_triangular", lambda a: fw.linalg.solve_triangular(a, fw.ones(2, 1), upper=True),
         ZERO),
        ("svdvals", fw.linalg.svdvals, NANS), ("svd", lambda a: fw.linalg.svd(a)[0], NANS),
        ("pinv", fw.linalg.pinv, NANS), ("matrix_rank", fw.linalg.matrix_rank, NANS),
        ("matrix_power", lambda a: fw.linalg.matrix_power(a, -2), ZERO),
        ("eigvals", lambda a: fw.linalg.eigvals(a), NANS),
    ]),
    Case("repeat", lambda x, n: fw.repeat(x, n), (UNIT, tensor([1, 2])), (UNIT, tensor([1, -2]))),
    Case("bincount", lambda x, n: fw.bincount(n), (UNIT, tensor([1, 2])), (UNIT, tensor([1, -2]))),
    Case("multinomial", lambda p: fw.multinomial(p, 1), (UNIT,), (-UNIT,)),
    Case("poisson", lambda p: fw.poisson(p), (UNIT,), (-UNIT,)),
    Case("histogram", lambda x: fw.histogram(x, 3)[0], (UNIT,), (UNIT * float("inf"),)),
    Case("max_unpool", lambda x, i: F.max_unpool1d(x.reshape(1, 1, 2), i.reshape(1, 1, 2), 2),
         (UNIT, tensor([0, 3])), (UNIT, tensor([0, 9]))),
    Case("ctc_target", lambda x, t: ctc_loss(x, t.reshape(1, 1), tensor([3])),
         (LOGITS, tensor([1])), (LOGITS, tensor([7]))),
    Case("ctc_length", lambda x, n: ctc_loss(x, tensor([[1]]), n),
         (LOGITS, tensor([3])), (LOGITS, tensor([7]))),
]

Shape = Callable[[Callable[..., fw.Tensor]], Callable[..., Any]]


def unused(fn: Any) -> Any:
    return lambda sign, *given: (fn(*given), given[0].sin())[1]


def unused_and_nothing_returned(fn: Any) -> Any:
    return lambda sign, *given: (fn(*given), None)[1]


def used(fn: Any) -> Any:
    return lambda sign, *given: fn(*given) * 1


def partly_used(fn: Any) -> Any:
    return lambda sign, *given: fn(*given).reshape(-1)[:1] * 2


def cut_off(fn: Any) -> Any:
    """Joined with something else, and then only that is taken."""
    def f(sign: Any, *given: Any) -> Any:
        found = fn(*given).reshape(-1).astype(fw.complex64)
        return fw.concat([sign.reshape(1).astype(fw.complex64), found])[:1]
    return f


def of_its_shape(fn: Any) -> Any:
    return lambda sign, *given: fw.zeros_like(fn(*given)) + given[0].sum()


def in_a_branch(fn: Any) -> Any:
    def f(sign: fw.Tensor, *given: fw.Tensor) -> Any:
        if sign > 0:
            fn(*given)
            return given[0].cos()
        return given[0] + 1
    return f


def before_a_branch(fn: Any) -> Any:
    def f(sign: fw.Tensor, *given: fw.Tensor) -> Any:
        fn(*given)
        return given[0].cos() if given[0].sum() > 100 else given[0] + sign
    return f


def in_the_last_turn(fn: Any) -> Any:
    """The loop begins with what is right, and ends with the arguments."""
    def f(sign: fw.Tensor, *given: fw.Tensor) -> Any:
        turns, now = fw.zeros(()), [x * 1 for x in f.good]  # type: ignore[attr-defined]
        while turns < 3:
            fn(*now)
            turns = turns + sign.abs()
            now = [fw.where(turns < 2, a, b) for a, b in zip(now, given)]
        return turns
    return f


def in_a_for(fn: Any) -> Any:
    def f(sign: fw.Tensor, *given: fw.Tensor) -> Any:
        for _ in range(2):
            fn(*given)
        return sign * 2
    return f


SHAPES = [unused, unused_and_nothing_returned, used, partly_used, cut_off, of_its_shape,
          in_a_branch, before_a_branch, in_the_last_turn, in_a_for]
UP, DOWN = tensor(1.0), tensor(-1.0)


def quiet(test: Any) -> Any:
    """`test` without warnings about graph breaks and infinite intermediate values."""
    for what in ("fusewire.capture.runtime.warnings.CaptureWarning", "RuntimeWarning"):
        test = pytest.mark.filterwarnings(f"ignore::{what}")(test)
    return test


def error_of(f: Any, *given: Any) -> str:
    try:
        f(*given)
    except Exception as error:
        return type(error).__name__
    return ""


def check(case: Case, shape: Shape, wrap: Any, backward: bool = False) -> None:
    """Calls with good and bad arguments give what eager gives."""
    original = shape(case.fn)
    original.good = case.good  # type: ignore[attr-defined]
    compiled = wrap(original)

    def attempt(f: Any, sign: fw.Tensor, given: tuple[fw.Tensor, ...]) -> str:
        asking = [x.detach().requires_grad_(backward and x.dtype.kind == "f") for x in given]

        def run() -> Any:
            fw.manual_seed(3)
            out = f(sign, *asking)
            if out is not None and out.requires_grad and out.dtype.kind == "f":
                out.sum().backward()
        return error_of(run)

    for _ in range(3):
        assert attempt(compiled, UP, case.good) == ""
    for _ in range(2):
        assert attempt(compiled, UP, case.bad) == attempt(original, UP, case.bad) != ""
    assert attempt(compiled, UP, case.good) == ""
    for _ in range(2):
        assert attempt(compiled, DOWN, case.bad) == attempt(original, DOWN, case.bad)
    assert compiled.stats.replays >= 3 or compiled.stats.fallbacks


PAIRS = [(case, shape) for shape in SHAPES for case in CASES]
BACKWARD = [(case, shape) for shape in (unused, partly_used, in_a_branch) for case in CASES]


@pytest.mark.parametrize("case, shape", sample(PAIRS, 140),
                         ids=lambda x: getattr(x, "__name__", str(x)))
@quiet
def test_errors(case: Case, shape: Shape) -> None:
    check(case, shape, fw.compile)


@pytest.mark.parametrize("case, shape", sample(BACKWARD, 30),
                         ids=lambda x: getattr(x, "__name__", str(x)))
@quiet
def test_errors_under_backward(case: Case, shape: Shape) -> None:
    check(case, shape, fw.compile, backward=True)


@quiet
def test_what_compiled_code_does_not_look_at_gives_nan() -> None:
    """An element of a formula, which kernels would have to report: docs/reference/compile.md."""
    f = fw.compile(lambda p: F.binary_cross_entropy(p, fw.zeros(2), reduction="none"))
    for _ in range(2):
        f(UNIT)
    assert error_of(F.binary_cross_entropy, UNIT * 9, fw.zeros(2)) == "ArgumentError"
    assert f(UNIT * 9).isnan().all()


INDEXING: dict[str, Callable[[fw.Tensor, fw.Tensor], fw.Tensor]] = {
    "index": lambda w, i: w[i],
    "index_last_of_two": lambda w, i: w.T[i * 1, i],
    "index_of_int8": lambda w, i: w[i.astype(fw.int8)],
    "set": written,
    "take": lambda w, i: fw.take(w, i, axis=0),
    "take_along_axis": lambda w, i: fw.take_along_axis(w, i.reshape(1, 1), axis=0),
    "gather": lambda w, i: fw.gather(w, 0, i.reshape(1, 1)),
    "scatter": lambda w, i: fw.scatter(w, 0, i.reshape(1, 1), fw.ones(1, 1)),
    "scatter_reduce": lambda w, i: fw.scatter_reduce(w, 0, i.reshape(1, 1), fw.ones(1, 1), "sum"),
    "index_add": lambda w, i: fw.index_add(w, 0, i, fw.ones(1, 2)),
    "index_copy": lambda w, i: fw.index_copy(w, 0, i, fw.ones(1, 2)),
    "index_fill": lambda w, i: fw.index_fill(w, 0, i, 1.0),
    "index_put": lambda w, i: fw.index_put(w, (i,), 1.0),
    "unravel_index": lambda w, i: fw.unravel_index(i, (1, 3))[1],
    "searchsorted": lambda w, i: fw.searchsorted(w[:1, 0], w[0], sorter=i),
}


@pytest.mark.parametrize("name", INDEXING)
@pytest.mark.parametrize("bad", [-50, 7])
def test_an_error_names_the_index_that_was_given(name: str, bad: int) -> None:
    """Not the index counted from the front: eager, in a recording, and in a replay."""
    fn = INDEXING[name]
    replayed = fw.compile(fn)
    for _ in range(3):
        replayed(W, tensor([0]))
    for call in (fn, fw.compile(fn), replayed):
        with pytest.raises(fw.IndexingError, match=rf"\b(index) {bad} is out of range"):
            call(W, tensor([bad]))


# ---- what checks cost


def checks_in(fn: Any, *given: fw.Tensor) -> int:
    """How many values replays of a function look at."""
    graph, _ = recorded(fn, *given)
    return len(extract_checks(decompose(graph))[1])


def test_one_check_for_an_index_that_is_used_twice() -> None:
    assert checks_in(lambda w, i: (w[i], (w * 2)[i].sum())[1], W, ROWS) == 1
    assert checks_in(lambda w, i: (w[i], w[i] * 2, w.sum())[2], W, ROWS) == 1


def test_no_check_of_what_counts_elements() -> None:
    assert checks_in(lambda w: (w[fw.arange(3)], fw.topk(w, 1)[1])[1], W) == 0
    assert checks_in(lambda w: (fw.sort(w), w[fw.argsort(w[:, 0])], w.sum())[2], W) == 0
    assert checks_in(lambda w: (fw.gather(w, 1, w.argmax(1, keepdims=True)), w.sum())[1], W) == 0
