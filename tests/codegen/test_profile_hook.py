"""The native profile function notes the same code objects as the one in Python."""

from __future__ import annotations

import gc
import math
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fusewire as fw
from fusewire.capture.heap import code_tracker
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.codegen.runtime.cpython.profile_hook import NativeObserver
from fusewire.eager.upper_layer import UPPER

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="objects do not lie as in this CPython")


@pytest.fixture(params=["native", "python"])
def observer_kind(request: Any, monkeypatch: Any) -> Iterator[str]:
    monkeypatch.setattr(UPPER, "observer", NativeObserver
                        if request.param == "native" else None)
    yield request.param
    assert sys.getprofile() is None


def watched(fn: Callable[[], Any], outside: Callable[[str], None] = lambda why: None
            ) -> code_tracker.CodeTracker:
    """The hook after fn() has run under it."""
    found = code_tracker.CodeTracker(lambda code, names: None, outside)
    found.start()
    try:
        fn()
    finally:
        found.stop()
    return found


def helper(x: Any) -> Any:
    return x.shape_of_it if hasattr(x, "shape_of_it") else math.cos(1.0)


def twice() -> Any:
    return [helper(i) for i in range(3)] + [inner() for inner in (lambda: helper(2),) * 2]


@pytest.mark.usefixtures("observer_kind")
def test_code_that_ran_is_seen() -> None:
    found = watched(twice)
    names = {code.co_name for code in found.seen}
    assert {"twice", "helper", "<lambda>"} <= names


@pytest.mark.usefixtures("observer_kind")
def test_a_call_of_c_code_that_matters_is_told_each_time() -> None:
    import time

    told: list[str] = []
    watched(lambda: [time.perf_counter() for _ in range(3)], told.append)
    assert len(told) == 3 and all("perf_counter" in why for why in told)


@pytest.mark.usefixtures("observer_kind")
def test_the_collectors_callbacks_are_no_part_of_the_function() -> None:
    def callback(phase: str, info: Any) -> None:
        beside_it()

    def beside_it() -> None:
        pass

    gc.callbacks.append(callback)
    try:
        found = watched(lambda: (gc.collect(), helper(1)))
    finally:
        gc.callbacks.remove(callback)
    names = {code.co_name for code in found.seen}
    assert "helper" in names and not names & {"callback", "beside_it"}


@pytest.mark.usefixtures("observer_kind")
def test_nothing_is_noted_in_between() -> None:
    def compiling() -> None:
        pass

    def run() -> None:
        with code_tracker.unobserved():
            compiling()
        helper(1)

    names = {code.co_name for code in watched(run).seen}
    assert "helper" in names and "compiling" not in names


@pytest.mark.usefixtures("observer_kind")
def test_other_threads_are_not_noted() -> None:
    def other() -> None:
        helper(1)

    def start() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert "other" not in {code.co_name for code in watched(start).seen}


@pytest.mark.usefixtures("observer_kind")
def test_what_is_raised_while_it_is_told_reaches_the_function() -> None:
    def stop(code: types.CodeType, names: Any) -> None:
        raise ArithmeticError("told")

    found = code_tracker.CodeTracker(stop, lambda why: None)
    with pytest.raises(ArithmeticError, match="told"):
        found.start()
        try:
            helper(1)
        finally:
            found.stop()


@pytest.mark.usefixtures("observer_kind")
def test_recordings_depend_on_the_same() -> None:
    class Box:
        factor = 2.0

    box = Box()

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        return x * box.factor if math.cos(0.0) == 1.0 else x

    for factor in (2.0, 2.0, 3.0, 4.0):
        box.factor = factor
        assert f(fw.ones(2)).tolist() == [factor, factor]
    assert f.stats.recordings == 2


@pytest.mark.usefixtures("observer_kind")
def test_code_may_put_the_profile_function_aside_and_back() -> None:
    def aside() -> None:
        before = sys.getprofile()
        sys.setprofile(None)
        sys.setprofile(before)
        helper(1)

    assert "helper" in {code.co_name for code in watched(aside).seen}


def test_contexts_in_which_nothing_is_noted_may_stand_inside_of_each_other(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """As when code is made for an op while code is made."""
    monkeypatch.setattr(UPPER, "observer", None)
    noting = code_tracker.CodeTracker(lambda code, names: None, lambda why: None)
    noting.start()
    try:
        with noting:
            with noting:
                pass
            inside = sys.getprofile()
        after = sys.getprofile()
    finally:
        noting.stop()
    assert inside is None and after is not None
