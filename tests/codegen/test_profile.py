"""`fw.profile`: what compiled functions did, by function, by kernel, and as a trace."""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn, optim
from fusewire.capture.replay.replay import _none
from fusewire.capture.replay.trace_tree import TraceTree
from fusewire.capture.runtime import profiling_spans as watching
from fusewire.capture.runtime.warnings import CaptureWarning
from fusewire.codegen.report.profile import Profile
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.eager.errors import ArgumentError, CaptureError

HERE = Path(__file__).name


def line_of(function: Any) -> int:
    return int(getattr(function, "original", function).__code__.co_firstlineno)


def ramp(*shape: int) -> fw.Tensor:
    return fw.linspace(-1, 1, int(np.prod(shape))).reshape(shape)


# ---- values

def training() -> Iterator[Any]:
    """Losses and, at the end, parameters of a step with dropout and Adam."""
    fw.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.05)

    @fw.compile
    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(8):
        yield step(ramp(5, 6)), *model.parameters()


def decision() -> Iterator[Any]:
    @fw.compile
    def choose(x: fw.Tensor) -> fw.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    for sign in (1, 1, -1, 1, -1, -1, 1, 1):
        yield (choose(fw.ones(3) * sign),)


def loop() -> Iterator[Any]:
    @fw.compile
    def newton(a: fw.Tensor) -> fw.Tensor:
        root = a
        while fw.abs(root * root - a).max() > 1e-4:
            root = (root + a / root) * 0.5
        return root

    for top in range(2, 10):
        yield (newton(fw.linspace(1, top, 7)),)


def backward_outside() -> Iterator[Any]:
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        return (x.tanh() * x).sum()

    for n in range(8):
        x = (ramp(9) * n).requires_grad_()
        y = f(x)
        y.backward()
        yield y, x.grad


def changing_sizes() -> Iterator[Any]:
    f = fw.compile(lambda x: (x.exp() @ x.T).softmax(-1), dynamic=True)
    for n in (3, 4, 3, 4, 3, 4, 5, 3):
        yield (f(ramp(n, 2)),)


PROGRAMS = [training, decision, loop, backward_outside, changing_sizes]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("profiled", [range(8), range(3, 6)], ids=["all", "some"])
def test_values_are_those_of_other_calls(program: Callable[[], Iterator[Any]], profiled: range
                                         ) -> None:
    expected = [[t.numpy().copy() for t in values] for values in program()]
    calls, p = program(), Profile()
    for number, want in enumerate(expected):
        if number in profiled:
            with p:
                values = next(calls)
        else:
            values = next(calls)
        for got, wanted in zip(values, want, strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted)
    assert len([s for s in p.spans if s.kind == "call"]) == len(profiled)


def test_what_is_donated_is_written_over_also_under_a_profile() -> None:
    weight = ramp(1000)

    @fw.compile
    def step() -> None:
        weight.mul_(0.5)

    for _ in range(3):
        step()
    address = weight._data.ctypes.data
    with fw.profile():
        step()
    assert weight._data.ctypes.data == address
    held = weight._data
    before = held.copy()
    with fw.profile():
        step()
    np.testing.assert_array_equal(held, before)  # somebody else's is left alone


# ---- what it tells

def products() -> Any:
    @fw.compile
    def layer(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        return (x @ w).tanh().sum(0)

    return layer


def test_it_tells_where_the_time_of_a_function_went() -> None:
    layer = products()
    with fw.profile() as p:
        for _ in range(5):
            layer(ramp(64, 32), ramp(32, 16))
    row, = p.calls()
    assert (row["name"], row["line"]) == ("layer", f"{HERE}:{line_of(layer)}")
    assert (row["calls"], row["recordings"], row["compiled"], row["from_disk"]) == (5, 1, 1, 0)
    parts = [row[k] for k in ("python", "kernels", "recording", "compiling")]
    assert all(s > 0 for s in parts)
    assert sum(parts) == pytest.approx(row["seconds"]) and row["seconds"] < p.seconds


def test_it_tells_what_kernels_moved_and_computed_and_for_which_line() -> None:
    layer = products()
    x, w = ramp(64, 32), ramp(32, 16)
    layer(x, w)
    with fw.profile() as p:
        for _ in range(3):
            layer(x, w)
    rows = p.kernels()
    assert all(row["calls"] == 3 for row in rows)
    assert all(re.search(rf"{HERE}:{line_of(layer) + 2}", row["line"]) for row in rows)
    product = max(rows, key=lambda row: row["flops"])
    assert product["flops"] >= 2 * 64 * 32 * 16
    assert product["bytes"] >= 4 * (32 * 16 + 64 * 16) and product["limit"] > 0
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds, reverse=True)


def test_bytes_are_those_that_are_touched() -> None:
    """Not the whole of a table of which a few rows are read."""
    table = ramp(10_000, 8)

    @fw.compile
    def look_up(i: fw.Tensor) -> fw.Tensor:
        return table.take(i, 0) * 2

    with fw.profile() as p:
        for _ in range(2):
            look_up(fw.asarray([3, 5, 7] * 100))
    row = next(row for row in p.kernels() if "multiply" in row["name"])
    assert row["bytes"] == 300 * (8 * 4 * 2 + 8)


@pytest.mark.parametrize("shape", [(5_000,), (1_000_000,), (300, 2_000), (100_000, 3)])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_a_sum_reads_its_input_once(shape: tuple[int, ...], axis: int | None) -> None:
    total = fw.compile(lambda x: (x * x).sum(axis))
    for _ in range(2):
        total(fw.ones(shape))
    moved = sum(kernel["bytes"] for kernel in total.kernels())
    size = 4 * math.prod(shape)
    assert size <= moved <= 4 * size  # results, and sums of parts, may be large, too


def test_it_prints_tables_with_the_users_lines() -> None:
    layer = products()
    with fw.profile() as p:
        for _ in range(2):
            layer(ramp(8, 4), ramp(4, 2))
    lines = str(p).splitlines()
    assert re.fullmatch(r"2 calls of compiled functions took \d+\.\d\d ms of \d+\.\d\d ms",
                        lines[0])
    assert lines[2].split()[:5] == ["function", "calls", "all", "Python", "kernels"]
    assert lines[3].split()[:2] == ["layer", "2"]
    assert sum(f"{HERE}:{line_of(layer) + 2}" in line for line in lines) >= 1
    assert re.fullmatch(r"memory of the largest program: .* \(inputs .*, results .*, arena .*\)",
                        lines[-1])
    assert "<table" in p._repr_html_()
    assert str(fw.profile()) == "no compiled function was called"


def test_calls_of_libraries_and_pieces_are_shown() -> None:
    @fw.compile
    def ordered(x: fw.Tensor) -> fw.Tensor:
        return x.sort() * 2

    @fw.compile
    def shown(x: fw.Tensor) -> fw.Tensor:
        y = fw.asarray((x * 2).exp().sum(1, keepdims=True).numpy() + 1)
        return x + y

    x = ramp(200, 200)
    with pytest.warns(CaptureWarning):
        shown(x)
    for _ in range(6):
        shown(x)
    with fw.profile() as p:
        for _ in range(2):
            ordered(x)
        shown(x)
    call = next(row for row in p.kernels() if row["name"] == "call of sort")
    assert "does not support sort" in call["why"] and call["limit"] == 0
    assert {row["name"]: row["calls"] for row in p.calls()} == {"ordered": 2, "shown": 1}
    row = next(row for row in p.calls() if row["name"] == "shown")
    assert row["kernels"] > 0


def test_a_way_back_is_a_row_of_its_own() -> None:
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        return (x * x).sum()

    with fw.profile() as p:
        for _ in range(3):
            f(ramp(9).requires_grad_()).backward()
    rows = {row["name"]: row for row in p.calls()}
    assert rows["backward"]["line"] == rows["f"]["line"] == f"{HERE}:{line_of(f)}"
    assert rows["backward"]["compiled"] == 1


# ---- the trace

def events(p: Profile, path: Path) -> list[dict[str, Any]]:
    p.save(path)
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return found


def assert_nested(spans: list[dict[str, Any]]) -> None:
    """Of any two on a track, one lies in the other, or beside it."""
    open_until: list[float] = []
    for event in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
        end = event["ts"] + event["dur"]
        while open_until and open_until[-1] <= event["ts"] + 1e-6:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + 1e-6
        open_until.append(end)


def test_a_trace_has_what_viewers_ask_for(tmp_path: Path) -> None:
    layer = products()
    with fw.profile() as p:
        for _ in range(4):
            layer(ramp(64, 32), ramp(32, 16))
        list(backward_outside())
    found = events(p, tmp_path / "trace.json")
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    own = threading.current_thread().name
    assert list(names.values()) == [f"{own}: calls", f"{own}: kernels"]
    spans = [e for e in found if e["ph"] == "X"]
    assert len(spans) + len(names) + 1 == len(found)
    for event in spans:
        assert event["name"] and event["dur"] >= 0 and event["pid"] == os.getpid()
        assert 0 <= event["ts"] <= event["ts"] + event["dur"] <= p.seconds * 1e6 + 1e-3
        assert isinstance(event["args"], dict)
    kernels = [e for e in spans if names[e["tid"]].endswith("kernels")]
    assert kernels and all({"bytes", "flops", "line"} <= e["args"].keys() for e in kernels)
    for track in names:
        assert_nested([e for e in spans if e["tid"] == track])
    assert_nested(spans)  # each kernel runs within its program
    kinds = [e["cat"] for e in spans if e not in kernels]
    assert {"call", "recording", "compiling", "program", "backward"} == set(kinds)


def test_each_thread_has_its_tracks(tmp_path: Path) -> None:
    layer = products()
    layer(ramp(8, 4), ramp(4, 2))

    def work() -> None:
        for _ in range(20):
            layer(ramp(8, 4), ramp(4, 2))

    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
    with fw.profile() as p:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    row, = p.calls()
    assert row["calls"] == 60
    found = events(p, tmp_path / "trace.json")
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert {n for n in names.values() if "calls" in n} == {f"worker {i}: calls" for i in range(3)}
    for track in names:
        assert_nested([e for e in found if e["ph"] == "X" and e["tid"] == track])


# ---- opening and closing

def test_profiles_nest() -> None:
    layer = products()
    with fw.profile() as outer:
        layer(ramp(8, 4), ramp(4, 2))
        with fw.profile() as inner:
            layer(ramp(8, 4), ramp(4, 2))
    assert [p.calls()[0]["calls"] for p in (outer, inner)] == [2, 1]


def test_an_error_leaves_everything_as_before() -> None:
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        return x + fw.ones(3)

    f(ramp(3))
    p = fw.profile()
    with pytest.raises(fw.ShapeError), p:
        f(ramp(4))
    assert not watching.on and p.calls()[0]["calls"] == 1
    with fw.profile() as after:
        f(ramp(3))
    assert after.calls()[0]["calls"] == 1


def test_one_profile_is_opened_once_at_a_time() -> None:
    with fw.profile() as p, pytest.raises(ArgumentError, match="open already"), p:
        pass
    assert not watching.on
    with p:
        products()(ramp(8, 4), ramp(4, 2))
    assert p.calls()[0]["calls"] == 1


def test_it_is_not_opened_inside_of_a_compiled_function() -> None:
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        with fw.profile():
            return x + 1

    with pytest.raises(CaptureError, match="open it around the call"):
        f(ramp(3))
    assert not watching.on


@pytest.mark.skipif(LAYOUT is None, reason="objects do not lie as in this CPython")
def test_calls_go_the_fast_path_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = products()
    given = ramp(8, 4), ramp(4, 2)
    for _ in range(3):
        layer(*given)
    long: list[Any] = []
    run = TraceTree.run

    def noted(self: TraceTree, *args: Any, **options: Any) -> Any:
        long.append(self)
        return run(self, *args, **options)

    monkeypatch.setattr(TraceTree, "run", noted)
    layer(*given)
    assert not long
    with fw.profile():
        layer(*given)
    assert len(long) == 1
    layer(*given)
    assert len(long) == 1


@pytest.mark.skipif(LAYOUT is None, reason="objects do not lie as in this CPython")
def test_the_fast_path_is_made_after_the_profile_not_in_its_time() -> None:
    layer = products()
    with fw.profile():
        for _ in range(5):
            layer(ramp(8, 4), ramp(4, 2))
    program, = layer.programs
    assert program.direct is _none
    for _ in range(2):
        layer(ramp(8, 4), ramp(4, 2))
    assert program.direct is not _none


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_not_profiled() -> None:
    with fw.profile():
        child = os.fork()
        if not child:
            os._exit(watching.on)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
