"""A function assigns a part of its state, and code that is entered later in the call reads it."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from programs.running import differs, freeze

import fusewire as fw

LIBRARY = """
scale, table = 1.0, {"a": 2.0}
def scaled(): return scale
def entry(): return table["a"]
def assign(v):
    global table
    table = {"a": v}
"""
STATE = """
import sys
import assigned_library as lib
class Meta(type):
    registry = {"a": 1.0}
class Base:
    shared = {"a": 3.0}
class Thing(Base, metaclass=Meta):
    table = {"a": 1.0}
    def __init__(self): self.own, self._t = {"a": 2.0}, {"a": 1.5}
    def method(self): return self.table["a"]
    @property
    def prop(self): return self._t["a"]
    @prop.setter
    def prop(self, v): self._t = {"a": v}
class Slotted:
    __slots__ = ("table",)
    def __init__(self): self.table = {"a": 1.0}
class Layer(fw.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.w = {"a": 1.0}, fw.nn.Buffer(fw.ones(2))
    def forward(self, y): return y * self.table["a"] + self.w.sum()
def closure():
    settings = {"a": 1.0}
    def read(): return settings["a"]
    def put(v):
        nonlocal settings
        settings = {"a": v}
    return read, put
def default(d={"a": 1.0}): return d["a"]
def keyword(*, d={"a": 1.0}): return d["a"]
def function(): pass
function.table = {"a": 1.0}
read, put = closure()
thing, slotted, layer = Thing(), Slotted(), Layer()
G, ROWS, ROW, INDEX = {"a": 1.0}, [{"a": 1.0}, {"a": 2.0}], {"k": {"a": 1.0}}, 0
"""
WRITES = (
    "put(v)", "lib.table = {'a': v}", "lib.scale = v", "lib.assign(v)", "G = {'a': v}",
    "globals()['G'] = {'a': v}", "globals().update(G={'a': v})", "import assigned_library as q; "
    "q.table = {'a': v}", "sys.modules['assigned_library'].table = {'a': v}",
    "setattr(lib, 'table', {'a': v})", "vars(lib)['table'] = {'a': v}",
    "lib.__dict__['table'] = {'a': v}", "Thing.table = {'a': v}", "Base.shared = {'a': v}",
    "Thing.shared = {'a': v}", "type(thing).table = {'a': v}", "setattr(Thing, 'table', {'a': v})",
    "del Thing.table; Base.table = {'a': v}", "Meta.registry = {'a': v}",
    "thing.table = {'a': v}", "thing.own = {'a': v}", "thing.prop = v", "thing._t = {'a': v}",
    "vars(thing)['own'] = {'a': v}", "slotted.table = {'a': v}", "layer.table = {'a': v}",
    "layer.w = v * fw.ones(2)", "function.table = {'a': v}",
    "default.__defaults__ = ({'a': v},)", "keyword.__kwdefaults__ = {'d': {'a': v}}",
    "keyword.__kwdefaults__['d'] = {'a': v}", "ROWS[0] = {'a': v}", "ROWS[INDEX] = {'a': v}",
    "ROWS.append({'a': v})", "ROWS.insert(0, {'a': v})", "ROWS[0], ROWS[1] = ROWS[1], ROWS[0]",
    "ROWS.reverse()", "ROW['k'] = {'a': v}", "ROW.update(k={'a': v})", "ROW.clear(); ROW['k'] = G",
)
READS = (
    "read()", "lib.table['a']", "lib.entry()", "lib.scaled()",
    "sys.modules['assigned_library'].table['a']", "G['a']", "thing.table['a']", "Thing.table['a']",
    "thing.method()", "Thing.shared['a']", "thing.shared['a']", "Thing.registry['a']",
    "thing.own['a']", "thing.prop", "vars(thing)['own']['a']", "slotted.table['a']",
    "layer(fw.ones(2)).sum()", "layer.w.sum()", "function.table['a']", "default()", "keyword()",
    "ROWS[0]['a']", "ROWS[INDEX]['a']", "sum(d['a'] for d in ROWS)", "ROW['k']['a']",
    "[d['a'] for d in ROW.values()][0]", "max(d['a'] for d in ROWS)",
)
BETWEEN = ("", "", "lib.table['a'] = G['a'] = Thing.table['a'] = 5.0", "",
           "lib.scale = 3.0; put(4.0)", "")
BEFORE = "sum(d['a'] for d in ROWS) * 0 + (thing.table['a'] + G['a']) * 0"  # before the write


def world(write: str, read: str, reads_before: bool) -> dict[str, Any]:
    """The variables of a program that writes a part of its state and then reads one."""
    library = types.ModuleType("assigned_library")
    exec(LIBRARY, vars(library))
    sys.modules["assigned_library"] = library
    body = [f"x = x + {BEFORE}"] * reads_before + [
        "v = x.sum()", *write.split("; "),
        "return (x * 0 + late()).detach()"]
    lines = [f"def late(): return {read}", "def f(x):", "    global G",
             *(f"    {line}" for line in body)]
    scope: dict[str, Any] = {"fw": fw, "__name__": "program"}
    exec(compile(STATE + "\n".join(lines), "<program>", "exec", dont_inherit=True), scope)
    return scope


def seen(scope: dict[str, Any]) -> list[Any]:
    """The state of a program that can be compared."""
    thing, layer, lib = scope["thing"], scope["layer"], scope["lib"]
    names = ("G", "ROWS", "ROW")
    return [*(scope[n] for n in names), lib.table, lib.scale, vars(thing), scope["Thing"].table,
            scope["Thing"].shared, scope["Meta"].registry, scope["slotted"].table, layer.table,
            layer.w, scope["function"].table, scope["default"](), scope["keyword"](),
            scope["read"]()]


def difference(write: str, read: str, reads_before: bool) -> str:
    """The first call in which the compiled function differs from the plain one, or ""."""
    plain, traced = world(write, read, reads_before), world(write, read, reads_before)
    compiled = fw.compile(traced["f"])
    for number, change in enumerate(BETWEEN):
        results = []
        for f, scope in ((compiled, traced), (plain["f"], plain)):
            sys.modules["assigned_library"] = scope["lib"]
            exec(change, scope)
            try:
                result = f(fw.tensor([1.0, 2.0]) * (number % 3 + 1))
            except (LookupError, AttributeError) as error:
                result = type(error).__name__
            results.append([result, seen(scope)])
        found = differs(*map(freeze, results))
        if found:
            return f"{write} then {read}, call {number}: {found}"
    return ""


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_code_that_runs_later_reads_assigned_state(
        write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "assigned_library", None)
    found = [text for i, read in enumerate(READS)
             if (text := difference(write, read, bool((WRITES.index(write) + i) % 2)))]
    assert not found, "\n".join(found)
