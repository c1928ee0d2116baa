"""A section that signals do not interrupt: they are handled after it, or while it is open."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fusewire.eager.uninterrupted import Uninterrupted


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also after the test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_signal_is_handled_after_the_section() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        ctrl_c()
        ctrl_c()
        done.append(1)
    assert done == [1]


def test_sections_nest() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        with Uninterrupted() as inner:
            inner.open = True
            ctrl_c()  # the outer one does not listen
        done.append(1)
    assert done == [1]


def test_while_it_is_open_the_first_signal_closes_it() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted() as section:
        section.open = True
        try:
            ctrl_c()
            done.append("never")
        finally:
            ctrl_c()
            done.append("in order")
    assert done == ["in order"]


def test_what_came_before_is_handled_as_it_opens() -> None:
    with Uninterrupted() as section:
        ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            section.open = True
        section.listen()  # nothing is left


def test_every_handler_of_pythons_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[Any] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        with Uninterrupted() as section:
            signal.raise_signal(signal.SIGTERM)
            assert not came
            section.open = True
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            assert section.open  # the handler did not raise
            assert came == [signal.SIGTERM] * 3
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_that_is_set_within_stays() -> None:
    with Uninterrupted():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_section_that_was_never_left_disturbs_nobody() -> None:
    """An error at the first instruction of `__exit__`, as a debugger may raise."""
    Uninterrupted.__enter__(section := Uninterrupted())

    def elsewhere() -> None:
        ctrl_c()

    section._code = (lambda: None).__code__
    with pytest.raises(KeyboardInterrupt):
        elsewhere()


def test_other_threads_have_nothing_to_do() -> None:
    def work() -> None:
        with Uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[Any] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
