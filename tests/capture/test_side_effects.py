"""Small programs whose Python state changes between calls: compiled they do what they do eagerly.

A program defines `f`; maybe `call(run, x, n)`, how it is called; `between(n)`, what happens before
call `n`; `seen()`, what can be seen of its state; `check(result)`, what a user asks of a result.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from python_programs import changes, outside, reads

import fusewire as fw
from fusewire.capture.replay.compiled_function import CaptureWarning

X = fw.tensor([1.0, 2.0, 3.0])
PROGRAMS = {**reads.PROGRAMS, **changes.PROGRAMS, **outside.PROGRAMS}
CALLS = 5
OBJECTS = [type("Thing", (), {})() for _ in range(CALLS)]
# What a replay cannot repeat: the call runs in another way, which is said.
SAID = ("datetime now", "uuid", "secrets", "random through map", "partial of time",
        "thread local ident", "weakref", "contextvar", "globals()", "id",
        "generator partly consumed", "iterator attribute", "array module", "mappingproxy")


def shown(value: Any, seen: dict[int, int]) -> Any:
    """A value as plain data; an object that was shown before as the number it had then."""
    if id(value) in seen:
        return "again", seen[id(value)]
    if isinstance(value, fw.Tensor):
        seen[id(value)] = len(seen)
        return str(value.dtype), value.tolist()
    if isinstance(value, (list, tuple, set)) or type(value).__name__ == "deque":
        if not isinstance(value, tuple):
            seen[id(value)] = len(seen)
        return type(value), [shown(v, seen) for v in value]
    if isinstance(value, dict):
        seen[id(value)] = len(seen)
        return type(value), [(repr(k), shown(v, seen)) for k, v in value.items()]
    if callable(value) or isinstance(value, BaseException) or hasattr(type(value), "__next__"):
        return type(value).__name__
    fields = {**getattr(value, "__dict__", {}),
              **{n: getattr(value, n) for n in getattr(type(value), "__slots__", ())}}
    if fields:
        seen[id(value)] = len(seen)
        return type(value).__name__, [(k, shown(v, seen)) for k, v in fields.items()]
    return type(value).__name__, repr(value)


def run(text: str, compiled: bool) -> list[Any]:
    """What the calls of a program give and leave behind, in a world of their own."""
    world: dict[str, Any] = {"fw": fw, "__name__": "program", "OBJS_ALL": OBJECTS}
    exec(compile(text, "<program>", "exec", dont_inherit=True), world)
    f = fw.compile(world["f"]) if compiled else world["f"]
    call = world.get("call", lambda f, x, n: f(x))
    told = []
    for n in range(CALLS):
        if n and "between" in world:
            world["between"](n)
        result, seen = call(f, X * (n % 3 + 1), n), dict[int, int]()
        told.append([shown(v, seen) for v in (
            result, world.get("check", type)(result), world.get("seen", int)())])
    return told


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:hello")
def test_a_program_does_what_it_does_eagerly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FW_T", "0")
    expected = [list(map(str, row)) for row in run(PROGRAMS[name], False)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        got = [list(map(str, row)) for row in run(PROGRAMS[name], True)]
    assert got == expected
    said = [w for w in warned if issubclass(w.category, CaptureWarning)]
    assert len(said) == 1 or name not in SAID


def test_warnings_are_given_on_every_call() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        run(PROGRAMS["warnings"], True)
    assert sum(str(w.message) == "hello" for w in warned) == CALLS
