"""Calls of compiled code: native reading of Python's objects beside the way through Python."""

import multiprocessing
import os
import sys
import threading

import numpy as np
import pytest

import fusewire as fw
from fusewire.codegen.program import native_call
from fusewire.codegen.runtime.cpython import object_layout


def warm(call, times=5):
    for _ in range(times):
        call()


def add(x, y):
    return x + y


def executable_of(compiled):
    return compiled.programs[0].segments()[0].executable


def made(monkeypatch, layout):
    """The executable of `add` as it is where objects are laid out like this."""
    monkeypatch.setattr(native_call, "LAYOUT", layout)
    compiled = fw.compile(add)
    warm(lambda: compiled(fw.ones((4, 6)), fw.ones((4, 6))))
    return executable_of(compiled)


BASE = np.arange(96, dtype=np.float32)
ARRAYS = [BASE[:24].reshape(4, 6), BASE[:24].reshape(6, 4).T, BASE.reshape(8, 12)[::2, ::2],
          np.frombuffer(bytes(97), np.uint8)[1:].view(np.float32).reshape(4, 6),
          np.broadcast_to(BASE[:6], (4, 6))]


@pytest.mark.parametrize("array", ARRAYS, ids=["plain", "turned", "strided", "unaligned", "rows"])
def test_the_native_way_gives_what_the_way_through_python_gives(monkeypatch, array):
    native, python = made(monkeypatch, object_layout.LAYOUT), made(monkeypatch, None)
    results = [e([array, ARRAYS[0]])[0] for e in (native, python)]
    assert np.array_equal(*results) and np.array_equal(results[0], array + ARRAYS[0])


@pytest.mark.skipif(object_layout.LAYOUT is None, reason="objects are read by Python alone here")
def test_a_list_of_another_length_is_refused():
    compiled = fw.compile(add)
    warm(lambda: compiled(fw.ones(2), fw.ones(2)))
    launch = executable_of(compiled)._launch
    given, result = np.ones(2, np.float32), np.zeros(2, np.float32)
    assert not launch([given], [result], None)
    assert not launch([given, given], [], None)
    assert not launch([given, 1.0], [result], None)
    assert launch([given, given], [result], None) and result.tolist() == [2.0, 2.0]


def test_on_unknown_interpreters_calls_go_through_python(monkeypatch):
    monkeypatch.setattr(object_layout.sys.implementation, "name", "another")
    assert object_layout._probe() is None


class Counter:
    def __init__(self):
        self.value = fw.zeros(3)

    def add(self, x):
        self.value += x


@pytest.mark.parametrize("layout", [object_layout.LAYOUT, None], ids=["native", "python"])
def test_only_what_nobody_else_holds_is_written_over(monkeypatch, layout):
    monkeypatch.setattr(native_call, "LAYOUT", layout)
    counter = Counter()
    compiled = fw.compile(counter.add)
    warm(lambda: compiled(fw.ones(3)))
    held, tensor = counter.value._data, counter.value
    compiled(fw.ones(3))
    assert held.tolist() == [5.0] * 3 and tensor.tolist() == [6.0] * 3


def test_threads_call_one_function_at_once():
    compiled = fw.compile(add)
    warm(lambda: compiled(fw.ones(5), fw.ones(5)))
    wrong = []

    def work(number):
        x = fw.full((5,), float(number))
        for i in range(300):
            if compiled(x, fw.full((5,), float(i))).tolist() != [number + i] * 5:
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_function_may_be_called_while_it_is_called():
    """A property that is read before each run calls the compiled function again."""
    class Nested:
        inside = False

        @property
        def scale(self):
            if not self.inside:
                self.inside = True
                again.append(compiled(fw.ones(2)).tolist())
                self.inside = False
            return 2.0

    again, nested = [], Nested()
    plain = fw.compile(lambda x: x * nested.scale)
    compiled = fw.compile(add_one)
    warm(lambda: plain(fw.ones(2)))
    assert all(found == [2.0, 2.0] for found in again)


def add_one(x):
    return x + 1


compiled_add = fw.compile(add)


def in_child(queue):
    queue.put(compiled_add(fw.ones(2), fw.ones(2)).tolist())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_other_processes_call_it_too(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system does not {method}")
    warm(lambda: compiled_add(fw.ones(2), fw.ones(2)))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=in_child, args=(queue,))
    process.start()
    found = queue.get(timeout=60)
    process.join()
    assert found == [2.0, 2.0] and os.getpid() != process.pid


@pytest.mark.skipif(object_layout.LAYOUT is None, reason="objects are read by Python alone here")
def test_native_functions_keep_no_references():
    compiled = fw.compile(add)
    x = fw.ones(2)
    warm(lambda: compiled(x, x))
    before = sys.getrefcount(x._data), sys.getrefcount(x)
    warm(lambda: compiled(x, x), 100)
    assert (sys.getrefcount(x._data), sys.getrefcount(x)) == before
