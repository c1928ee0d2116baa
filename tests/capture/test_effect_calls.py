"""`print`, logging, warnings and clocks in compiled functions: every call says what eager says."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any
from warnings import warn

import pytest
from agreement import assert_equal

import fusewire as fw
from fusewire import nn
from fusewire.capture.runtime.warnings import CaptureWarning
from fusewire.eager.errors import ExportError

LOG = logging.getLogger(__name__)
BUFFER = io.StringIO()
X = fw.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
FACTORS = (1.0, 1.0, 2.0, -1.0, 0.5, 3.0, 1.0, 8.0)  # of the inputs of the calls


class Seen(logging.Handler):
    """Gathers what records tell."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.name, record.levelname, record.getMessage(), record.pathname,
                             record.lineno, record.funcName, getattr(record, "step", None)))


@contextlib.contextmanager
def said() -> Iterator[list[Any]]:
    """A context that gathers what is printed, logged and warned."""
    out, err, handler, found = io.StringIO(), io.StringIO(), Seen(), list[Any]()
    logging.getLogger().addHandler(handler)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), \
                warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", CaptureWarning)
            yield found
    finally:
        logging.getLogger().removeHandler(handler)
        found += [out.getvalue(), err.getvalue(), handler.records,
                  [(str(w.message), w.category, w.filename, w.lineno) for w in warned]]


def check(make: Callable[[], Callable[..., Any]], recordings: int, fallbacks: int = 0,
          between: Callable[[int], None] = lambda call: None, **options: Any) -> Any:
    """The compiled function, after calls that say what eager calls say, in the same order. At most
    so many recordings; `between` runs before each call, for both."""
    results: list[list[Any]] = []
    compiled: Any = None
    for wrap in (lambda fn: fn, lambda fn: fw.compile(fn, **options)):
        compiled, told = wrap(make()), []
        for call, factor in enumerate(FACTORS):
            between(call)
            with said() as output:
                try:
                    result = compiled(X * factor)
                except ValueError as error:
                    result = str(error)
            told.append([result, *output])
        results.append(told)
    for call, (want, got) in enumerate(zip(*results)):
        assert got[1:] == want[1:], f"call {call}"
        assert_equal(got[0], want[0], f"call {call}")
    assert compiled.stats.recordings <= recordings, compiled.explain()
    assert compiled.stats.fallbacks == fallbacks, compiled.explain()
    return compiled


PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {}  # with the most recordings


def program(recordings: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fn.__name__] = fn, recordings
        return fn

    return add


def say(text: str) -> None:
    print("say:", text)


# ---- arguments
@program(1)
def tensors_numbers_and_shapes(x: fw.Tensor) -> fw.Tensor:
    print("x", x, x.sum(), x.sum().item(), x.shape, x.shape[0], x.dtype, sep=" | ")
    return x * 2


@program(1)
def containers(x: fw.Tensor) -> fw.Tensor:
    both = [x[0], x[1].sum().item()]
    print(both, {"a": x.max(), "b": (1, None, "c")}, (x.min(),))
    both.append(3)
    return x


@program(1)
def a_tensor_that_changes_later(x: fw.Tensor) -> fw.Tensor:
    y = x * 1
    print(y)
    y += 1
    print(y)
    y[0] = 5
    return y


@program(1)
def what_made_a_tensor(x: fw.Tensor) -> fw.Tensor:
    w = x.detach().requires_grad_()
    loss = (w * w).sum()
    print(w, loss)
    loss.backward()
    print(w.grad)
    return w.grad


@program(1)
def formatted_texts(x: fw.Tensor) -> fw.Tensor:
    s = x.sum()
    n = s.item()
    print(f"{s:.3f} {n:>9.2f} {n!r} {x} {s!s} {x.shape[1]} {n * 2:.0e}", end="!\n")
    print("{:.2f} and {}".format(s, n), "s " + str(n) + " " + str(x), repr(n))  # noqa: UP032
    print(f"{float(s):.2f}", float(s), int(x.max()))
    print(f"{[s, n]} {n if x.shape[0] > 1 else 0}")
    return x - n


@program(1)
def texts_in_variables_and_helpers(x: fw.Tensor) -> fw.Tensor:
    text = f"mean {x.mean():.2f}"
    print(text)
    say(text)
    say(f"max {x.max().item():.2f}")
    LOG.warning(text)
    return x


@program(9)
def texts_that_code_looks_into(x: fw.Tensor) -> fw.Tensor:
    text = f"{x.sum().item():.1f}"
    print(text, len(text), text == "1.0", [text.upper()], f"{text:>8}")
    return x * len(text)


@program(9)
def a_text_that_is_returned(x: fw.Tensor) -> tuple[fw.Tensor, str]:
    text = f"{x.sum():.2f}"
    print(text)
    return x, text


class Pair:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"<{self.name}>"


PAIR, WEIGHT = Pair("p"), nn.Parameter(fw.ones(2))


@program(1)
def objects_with_a_text(x: fw.Tensor) -> fw.Tensor:
    print(PAIR, Pair("q"), ValueError("r"), max, WEIGHT)
    return x


# ---- streams, logging, warnings
@program(1)
def streams(x: fw.Tensor) -> fw.Tensor:
    print("a", file=sys.stderr)
    sys.stdout.write(f"b {x.sum():.1f}\n")
    print("c", end="", flush=True)
    sys.stderr.write("d")
    sys.stdout.flush()
    return x


@program(1)
def logged(x: fw.Tensor) -> fw.Tensor:
    LOG.debug("not seen %s", x)
    LOG.warning("mean %.2f of %s", x.mean().item(), x.shape)
    LOG.error(f"{x.sum():.2f}", extra={"step": 3})
    LOG.log(logging.CRITICAL, "at %s", x.sum())
    logging.warning("root %s", 1)
    logging.getLogger(f"{__name__}.child").error("child")
    LOG.error("two up", stacklevel=2)
    return x


@program(1)
def warned(x: fw.Tensor) -> fw.Tensor:
    warnings.warn("plain", stacklevel=1)
    warnings.warn(f"sum {x.sum():.2f}", RuntimeWarning, 1)
    warnings.warn(DeprecationWarning("old"), stacklevel=2)
    warn("by name", stacklevel=1)
    return x


# ---- control flow
@program(2)
def in_a_branch(x: fw.Tensor) -> fw.Tensor:
    if x.sum() > 2:
        print("big", x.sum())
        y = x * 2
    else:
        y = x - 1
        print(f"small {y.sum():.1f}")
    print("then", y)
    return y


@program(5)
def in_many_branches(x: fw.Tensor) -> fw.Tensor:
    for i in range(4):
        if x[0, 0] > i:
            print("above", i, x.sum())
            x = x * 0.75
    return x


@program(3)
def in_a_loop(x: fw.Tensor) -> fw.Tensor:
    turns = 0
    while x.abs().sum() > 2:
        turns += 1
        print(f"{turns} {x.sum():.3f}")
        x = x * 0.5
    else:
        print("end", turns)
    return x


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(fw.ones(3))
        self.log = LOG

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        h = (x * self.weight).tanh()
        self.log.warning(f"h {h.mean():.4f}")
        return h


def training() -> Callable[..., Any]:
    block = Block()
    optimizer = fw.optim.SGD(block.parameters(), lr=0.1)

    def step(x: fw.Tensor) -> float:
        loss = (block(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f} {block.weight.mean():.4f}")
        return loss.item()

    return step


@program(2)
def before_an_error(x: fw.Tensor) -> fw.Tensor:
    print("sum", x.sum())
    if x.sum() > 3:
        print("too much")
        raise ValueError("stop")
    print("after")
    return x


@program(1)
def timed(x: fw.Tensor) -> fw.Tensor:
    start, first = time.time(), perf_counter()
    y = (x @ x.T).tanh()
    print(0 <= time.time() - start < 60, 0 < perf_counter() - first < 60)
    return y


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("check_replays", [None, "always"])
def test_a_program_says_what_it_says_eagerly(name: str, check_replays: Any) -> None:
    fn, recordings = PROGRAMS[name]
    options = {} if check_replays is None else {"check": check_replays}
    errors = 3 if name == "before_an_error" else 0
    compiled = check(lambda: fn, recordings, 0, **options)
    assert compiled.stats.replays + compiled.stats.recordings + errors == len(FACTORS)


@pytest.mark.parametrize("options", [{}, {"check": "always"}, {"background": True}])
def test_a_training_step(options: Any) -> None:
    check(training, 1, **options)


def test_a_level_that_changes() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        LOG.info("mean %.2f", x.mean().item())
        return x

    def between(call: int) -> None:
        LOG.setLevel(logging.INFO if call % 3 else logging.ERROR)

    try:
        check(lambda: f, 1, between=between)
    finally:
        LOG.setLevel(logging.NOTSET)


def test_a_warning_that_filters_make_an_error() -> None:
    def f(x: fw.Tensor, total: fw.Tensor) -> fw.Tensor:
        total += x.sum()
        warnings.warn(f"sum {x.sum():.1f}", stacklevel=1)
        total += 100
        return total * 1

    compiled, total = fw.compile(f), fw.zeros(())
    for k in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("error" if k > 3 else "ignore")
            with pytest.raises(UserWarning, match="sum") if k > 3 else contextlib.nullcontext():
                compiled(X, total)
    assert total.item() == 4 * 101.75 + 2 * 1.75


def test_output_is_written_once_if_a_replay_gives_up() -> None:
    def f(x: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        print("before", x.sum())
        y = x[i]
        print("after")
        return y

    compiled = fw.compile(f)
    for k in (0, 1, 0, 1, 1, 5, 0, 9):
        with said() as got, pytest.raises(IndexError) if k > 1 else contextlib.nullcontext():
            compiled(X, fw.tensor(k))
        assert got[0] == "before tensor(1.7500)\n".replace("1.7500", "1.75") + "after\n" * (k < 2)
    assert compiled.stats.replays >= 4


def test_a_cached_function() -> None:
    computed = []

    @functools.lru_cache
    def scale(n: int, by: float = 1.0) -> float:
        computed.append(n)
        return n * by

    @functools.lru_cache(maxsize=2)
    def mask(n: int) -> fw.Tensor:
        return fw.tril(fw.ones(n, n))

    globals()["SCALE"] = scale

    def f(x: fw.Tensor) -> fw.Tensor:
        return (x.T @ x) * mask(x.shape[1]) * SCALE(x.shape[1], by=0.5) + 1

    compiled = fw.compile(f, fullgraph=True)
    for k in range(6):
        if k == 3:
            scale.cache_clear()
            mask.cache_clear()
        x = X[:, :2] if k == 4 else X * k
        assert_equal(compiled(x), f(x))
    assert computed == [3, 3, 2] and compiled.stats.replays >= 3


def test_a_cached_function_whose_result_changes() -> None:
    state = {"k": 2.0}

    @functools.lru_cache
    def scale() -> float:
        return state["k"]

    def f(x: fw.Tensor) -> fw.Tensor:
        return x * scale()

    compiled = fw.compile(f, fullgraph=True)
    for k in range(6):
        state["k"] = 2.0 + k
        if k in (2, 4):
            scale.cache_clear()
        assert_equal(compiled(X), f(X))
    assert compiled.stats.recordings <= 3


def test_a_clock_is_read_in_each_call() -> None:
    def f(x: fw.Tensor) -> tuple[fw.Tensor, float, int]:
        start = time.perf_counter()
        y = (x @ x.T).tanh().sum()
        return y, time.perf_counter() - start, time.time_ns()

    compiled = fw.compile(f, fullgraph=True)
    times = [compiled(X)[1:] for _ in range(6)]
    assert len({t for _, t in times}) == 6 and all(0 < t < 60 for t, _ in times)
    assert [t for _, t in times] == sorted(t for _, t in times)


def test_explain_lists_messages_and_clocks() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        start = time.time()
        print(x, time.time() - start)
        LOG.info("a")
        return x

    compiled = fw.compile(f, fullgraph=True)
    with said():
        for _ in range(3):
            compiled(X)
    line, text = f.__code__.co_firstlineno, str(compiled.explain())
    for offset, what in ((1, "reads time()"), (2, "calls print"), (3, "calls Logger.info")):
        assert f"test_effect_calls.py:{line + offset} {what}" in text


def test_a_function_with_messages_cannot_be_saved(tmp_path: Any) -> None:
    compiled = fw.compile(in_a_branch)
    with said():
        compiled(X), compiled(X)
    with pytest.raises(ExportError, match="calls print, and a saved function calls no Python"):
        compiled.save(tmp_path / "f.fw")


def test_functions_are_put_back() -> None:
    before = print, sys.stdout, sys.stderr, logging.Logger.info, warnings.warn, time.time

    def f(x: fw.Tensor) -> fw.Tensor:
        print("a")
        f.kept = print  # type: ignore[attr-defined]
        return x

    with said():
        compiled = fw.compile(f)
        for _ in range(3):
            compiled(X)
        with pytest.raises(ZeroDivisionError):
            fw.compile(lambda x: x / 0 if x.sum() > 9 else 1 // 0)(X)
    after = print, sys.stdout, sys.stderr, logging.Logger.info, warnings.warn, time.time
    assert all(a is b for a, b in zip(before, after))
    assert f.kept is print  # type: ignore[attr-defined]


REFUSED: dict[str, Callable[..., Any]] = {
    "a set has no order": lambda x: print({x.sum().item(), 2}) or x,
    "is made in the call": lambda x: print("a", file=io.StringIO()) or x,
    "exc_info= reads the running code": lambda x: LOG.error("a", exc_info=True) or x,
    "changes how messages are logged": lambda x: LOG.setLevel(logging.NOTSET) or x,
    "cached functions with plain arguments": lambda x: CACHED(x) or x,
}
SCALE: Any = None
CACHED = functools.lru_cache(lambda value: None)


@pytest.mark.parametrize("why", REFUSED)
def test_what_a_replay_cannot_say_breaks_the_graph(why: str) -> None:
    compiled = fw.compile(REFUSED[why])
    with said(), pytest.warns(CaptureWarning, match=why):
        compiled(X)
    with said():
        for k in range(8):
            assert_equal(compiled(X * k), X * k)
