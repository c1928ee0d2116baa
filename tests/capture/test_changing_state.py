"""State that changes between calls: a compiled function gives what plain Python gives.

Each program reads and writes a few parts of its state. Between calls, parts of the state change:
globals, class attributes, closures, containers, modules, functions. More programs, for a night:
`FUSEWIRE_TEST_STATES=20000 pytest tests/capture/test_changing_state.py`.
"""

from __future__ import annotations

import os
import random
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from programs.running import differs, freeze

import fusewire as fw
from fusewire.capture.runtime.warnings import CaptureWarning

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_STATES", "150"))
CHUNK = 50
CALLS = 8
STATE = """
import collections, copy, functools, operator
import state_library as lib
K, KEY, INDEX, NAME = 2.0, "a", 0, "k"
CONFIG = {"a": 1.5, "b": 0.5, "deep": {"lr": 0.25, "more": [1.0]}, "unread": [{"z": 1}]}
ROWS, TABLE, LOG, NAMES = [1.0, 2.0, 3.0], [{"lr": 0.5}, {"lr": 1.5}], [], {"a"}
NUMBERS, TENSORS = {"u": 1.0, "v": 2.0}, {"w": fw.ones(3), "u": fw.zeros(3)}
Pair = collections.namedtuple("Pair", "x y")
PAIR = Pair(1.0, 2.0)

class Inner:
    def __init__(self, k):
        self.k = k

class Base:
    shared = 0.5
    scale = 1.0
    @classmethod
    def make(cls): return cls.shared * 2
    @staticmethod
    def static(y): return y + K

class Thing(Base):
    table = {"lr": 0.75}
    def __init__(self, k):
        self.k, self.m, self.n, self.inner = k, 3.0, 0, Inner(0.5)
        self.parts, self.w, self.last = [Inner(1.0), Inner(2.0)], fw.ones(3), None
        self.config = CONFIG
    def method(self, y): return y * self.k + self.inner.k
    @property
    def prop(self): return self.inner.k * 2
    def __getitem__(self, i): return self.parts[i].k
    def reset(self): self.n, self.inner = 0, Inner(0.25)
    def own(self): return self

class Layer(fw.nn.Module):
    def __init__(self):
        super().__init__()
        self.rate, self.w = 0.5, fw.nn.Buffer(fw.ones(3))
        self.inner = fw.nn.Identity()
    def forward(self, y): return self.inner(y * self.rate) + self.w

thing, layer = Thing(2.0), Layer()
callback = thing.method
THINGS = {"a": thing, "b": Inner(4.0)}

class Child(Thing):
    def method(self, y): return super().method(y) + self.cached
    @functools.cached_property
    def cached(self): return self.inner.k + CONFIG["b"]
    def __call__(self, d): return d["deep"]["lr"]

class Box:
    def __init__(self, c): self.c = c

def wrapped(g):
    def call(*args, **kwargs): return g(*args, **kwargs) + K
    return call

@wrapped
def decorated(d): return d["a"]

def outer(d):
    inside = d["deep"]
    def inner(): return inside["lr"]
    return inner()

def caught(d):
    try:
        return d["maybe"]
    except KeyError:
        return 0.125

def recursive(d, n): return d["a"] if n == 0 else recursive(d, n - 1) + d["b"]
child = Child(1.0)
OPS = [lambda d: d["a"], lambda d: d["b"]]

def helper(d, y=1.0): return d["a"] * y
def deep(d): return d["deep"]
def pick(d, key): return d[key]
def default(y=0.5, *, z=0.25): return y + z
def rows():
    for row in TABLE:
        yield row["lr"]
def closure():
    count, settings = 1.0, {"c": 1.0}
    def read(): return count + settings["c"]
    def bump():
        nonlocal count
        count = count + 1
    def put(v): settings["c"] = v
    return read, bump, put
read, bump, put = closure()
"""
LIBRARY = """
import types
scale, table, other = 1.0, {"a": 2.0}, None
def fn(y): return y * scale
sub = types.ModuleType("state_library.sub")
sub.scale = 4.0
"""
READS = (
    "type(thing).shared", "thing.__class__.shared", "float(isinstance(thing, Thing))",
    "child(CONFIG)", "child.method(2.0)", "child.cached", "Box(CONFIG).c['a']",
    "decorated(CONFIG)", "outer(CONFIG)",
    "caught(CONFIG)", "OPS[INDEX](CONFIG)", "recursive(CONFIG, 2)", "type(child).make()",
    "callback(2.0)", "(CONFIG['deep'] or NUMBERS)['lr']",
    "K", "CONFIG['a']", "CONFIG['deep']['lr']", "CONFIG.get('a', 1.5)", "CONFIG.get('maybe', .5)",
    "CONFIG[KEY]", "ROWS[0]", "ROWS[-1]", "ROWS[INDEX]", "len(ROWS)", "sum(ROWS)", "sum(ROWS[1:])",
    "thing.k", "thing.inner.k", "getattr(thing, 'k')", "getattr(thing, NAME)", "thing.shared",
    "(thing.extra if hasattr(thing, 'extra') else 0.5)", "Thing.shared", "thing.method(2.0)",
    "thing.prop", "Thing.make()", "thing.make()", "Thing.static(0.5)", "helper(CONFIG)",
    "deep(CONFIG)['lr']", "pick(CONFIG, KEY)", "pick(d=CONFIG, key='b')", "lib.scale",
    "lib.sub.scale", "lib.table['a']", "lib.fn(1.0)", "(2.0 if 'a' in CONFIG else 1.0)",
    "(2.0 if 'maybe' in CONFIG else 1.0)", "(1.0 if 'n' in NAMES else 2.0)", "vars(thing)['k']",
    "thing.__dict__['k']", "sum(d['lr'] for d in TABLE)", "[d['lr'] for d in TABLE][0]",
    "sum(NUMBERS.values())", "sum(v for k, v in NUMBERS.items() if k != 'v')", "PAIR[1]", "PAIR.y",
    "default()", "default(2.0)", "(lambda d: d['lr'])(CONFIG['deep'])", "thing.parts[0].k",
    "max(TABLE, key=lambda d: d['lr'])['lr']", "THINGS[KEY].k", "THINGS['b'].k", "thing[1]",
    "functools.partial(helper, CONFIG)()", "operator.attrgetter('k')(thing)", "copy.copy(thing).k",
    "float(bool(LOG))", "TENSORS['w']", "thing.w", "layer(x)", "layer.forward(x)", "layer.rate",
    "read()", "sum(rows())", "thing.config['a']", "thing.own().k", "(K if K is not None else 1.0)",
    "list(map(float, ROWS))[0]", "thing.table['lr']", "dict(CONFIG)['b']", "{**CONFIG}['a']",
    "(ROWS + [1.0])[0]", "next(iter(TABLE))['lr']", "sorted(ROWS)[0]",
    "(CONFIG if K > 1 else NUMBERS).get('a', 9.0)", "str(CONFIG['deep']).count('1')",
    "[t.k for t in THINGS.values()][1]", "first(*ROWS)", "named(**NUMBERS)", "float(ROWS == [1.0])",
)
WRITES = (
    "CONFIG['count'] = CONFIG.get('count', 0) + 1", "thing.n = thing.n + 1", "ROWS.append(1.0)",
    "ROWS[0] = ROWS[0] + 1", "LOG.append(x.sum())", "Thing.shared = 1.25", "K = K * 1.5",
    "thing.last = x", "lib.scale = lib.scale + 1", "NAMES.add('n')", "CONFIG['deep'] = {'lr': .75}",
    "thing.inner = Inner(2.0)", "THINGS['b'], THINGS['a'] = THINGS['a'], THINGS['b']",
    "CONFIG.update(a=CONFIG['a'] + 1)", "setattr(thing, 'k', thing.k + 1)", "bump()",
    "thing.reset()", "CONFIG['tmp'] = 1; del CONFIG['tmp']", "thing.inner = THINGS['b']",
    "TABLE.append({'lr': K})", "ROWS.sort()", "x.add_(1)", "thing.parts = thing.parts[::-1]",
    "CONFIG['b'] = 0.5", "NUMBERS['u'] += 1", "TENSORS['w'] = TENSORS['u'] + 1", "LOG.clear()",
    "vars(thing).update(m=1.0)", "layer.rate = layer.rate * 2", "ROWS[INDEX] = 7.0",
    "TENSORS['u'].add_(1)", "del TABLE[:-1]", "thing.made = Inner(K)", "put(K)",
    "lib.other = thing",
)
CONDITIONS = ("x.sum() > 9", "float(x.mean()) > 4.0", "int(x.sum()) % 2 == 0", "(x > 5).all()",
              "float(x.max()) > K", "len(ROWS) > 3")
CHANGES = (
    "child.k = v", "child.__dict__.pop('cached', None)", "OPS[0] = lambda d: v", "callback = float",
    "Child.shared = v", "child.inner = Inner(v)", "OPS.reverse()",
    "K = v", "CONFIG['a'] = v", "CONFIG['maybe'] = v", "CONFIG.pop('maybe', None)", "KEY = 'b'",
    "CONFIG['deep']['lr'] = v", "CONFIG['deep'] = dict(CONFIG['deep'])", "ROWS.insert(0, v)",
    "ROWS[-1] = v", "ROWS[:] = [v, 1.0, 2.0]", "thing.k = v", "thing.inner.k = v", "thing.m = v",
    "thing.inner = Inner(v)", "Thing.shared = v", "thing.shared = v", "Base.shared = v",
    "thing.__dict__.pop('shared', None)",
    "Thing.__dict__.get('shared') and delattr(Thing, 'shared')", "thing.extra = v",
    "thing.__dict__.pop('extra', None)", "Thing.extra = v", "NAME = 'm'",
    "Thing.method = lambda self, y: y * v", "thing.method = lambda y: y * v", "INDEX = 1",
    "thing.__dict__.pop('method', None)", "Thing.prop = property(lambda self: v)", "lib.scale = v",
    "lib.sub.scale = v", "lib.sub = copy.copy(lib.sub) if 0 else lib", "lib.table['a'] = v",
    "lib.fn = lambda y: y + v", "helper = lambda d, y=1.0: d['b'] * v",
    "helper.__defaults__ = (v,)", "default.__kwdefaults__ = {'z': v}", "put(v)", "bump()",
    "TABLE[0]['lr'] = v", "LOG.append(v)", "TABLE.append({'lr': v})", "TABLE.reverse()",
    "THINGS['a'] = THINGS['b']", "thing = Thing(v)", "CONFIG = dict(CONFIG)",
    "CONFIG = {'b': 1.0, **CONFIG}", "NAMES.add('n')", "NAMES.discard('n')",
    "TENSORS['w'] = fw.full(3, v)", "TENSORS['w'] = TENSORS['u']", "PAIR = Pair(v, v)",
    "NUMBERS['v'] = v", "NUMBERS['t'] = v", "layer.rate = v", "layer.w = fw.full(3, v)",
    "layer.inner = fw.nn.ReLU()", "layer.forward = lambda y: y * v",
    "layer.__dict__.pop('forward', 0)", "thing.config = {'a': v}", "thing.parts[0] = Inner(v)",
    "thing.parts[0].k = v", "thing.table = {'lr': v}", "Base.table = {'lr': v}",
    "deep = lambda d: {'lr': v}", "Thing.__getitem__ = lambda self, i: v", "len = lambda a: v",
    "globals().pop('len', None)", "deep.__code__ = (lambda d: NUMBERS and {'lr': K}).__code__",
    "CONFIG['unread'] = v",
)


def world(source: str) -> dict[str, Any]:
    """The variables of a program, with a library of its own."""
    library = types.ModuleType("state_library")
    exec(LIBRARY, vars(library))
    sys.modules["state_library"] = library
    scope: dict[str, Any] = {"fw": fw, "__name__": "program"}
    exec(compile(STATE + source, "<program>", "exec", dont_inherit=True), scope)
    return scope


def written(rng: random.Random) -> str:
    """The source of a function of x that reads and writes parts of the state."""
    reads = iter(rng.sample(READS, 8))
    parts = [statement(rng, reads) for _ in range(rng.randint(1, 4))]
    for write in rng.sample(WRITES, rng.choice((0, 0, 1, 1, 2))):
        parts.insert(rng.randint(0, len(parts)), [write])
    helpers = []
    for i, part in enumerate(parts):
        if rng.random() < 0.25:
            helpers += [f"def part{i}(x):", "    global K", *(f"    {line}" for line in part),
                        "    return x"]
            parts[i] = [f"x = part{i}(x)"]
    return "\n".join([
        "def first(a, *rest): return a + len(rest)", "def named(**numbers): return numbers['u']",
        *helpers, "def f(x):", "    global K", *(f"    {line}" for part in parts for line in part),
        "    return x.detach()"])


def statement(rng: random.Random, reads: Iterator[str]) -> list[str]:
    """The lines of a statement that computes x from a part of the state; some are branches, whose
    paths merge."""
    first, second = (f"x = x {rng.choice('**+')} {next(reads)}" for _ in range(2))
    condition = f"if {rng.choice(CONDITIONS)}:"
    return rng.choice([[first], [first], [first], [condition, f"    {first}"],
                       [condition, f"    {first}", "else:", f"    {second}"],
                       ["for _ in range(2):", f"    {first}"]])


def called(f: Any, x: fw.Tensor) -> Any:
    """The result of a call, or the type of its error."""
    try:
        return f(x)
    except (TypeError, LookupError, AttributeError, ValueError) as error:
        return type(error).__name__


def seen(scope: dict[str, Any]) -> list[Any]:
    """The state of a program that can be compared."""
    thing, lib = scope["thing"], scope["lib"]
    plain = [scope[n] for n in ("K", "CONFIG", "ROWS", "TABLE", "LOG", "NUMBERS", "TENSORS")]
    fields = {k: v for k, v in vars(thing).items() if not callable(v)}
    names = sorted(scope["NAMES"])
    return [*plain, names, fields, scope["Thing"].shared, lib.scale, scope["layer"].rate,
            scope["read"](), lib.other is thing]


def difference(seed: int) -> str:
    """The first difference between the compiled and the plain program of this number, or ""."""
    rng = random.Random(seed)
    source = written(rng)
    plain, traced = world(source), world(source)
    compiled, told = fw.compile(traced["f"]), [source]
    for number in range(CALLS):
        for _ in range(rng.choice((0, 0, 1, 1, 2)) if number else 0):
            change, value = rng.choice(CHANGES), rng.choice((0.5, 2.0, 3.0))
            told.append(f"# v = {value}; {change}")
            for scope in (plain, traced):
                scope["v"] = value
                exec(change, scope)
        told.append(f"# call {number}")
        results = [(called(f, fw.tensor([1.0, 2.0, 3.0]) * (number % 3 + 1)), seen(scope))
                   for f, scope in ((compiled, traced), (plain["f"], plain))]
        found = differs(*map(freeze, map(list, results)))
        if found:
            return "\n".join([f"seed {seed}: {found}", *told])
    return ""


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "state_library", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        found = [text for seed in range(first, min(first + CHUNK, PROGRAMS))
                 if (text := difference(seed))]
    assert not found, "\n".join([f"{len(found)} programs differ", found[0]])


class Settings:
    """Settings of a function."""

    def __init__(self, k: float) -> None:
        self.k, self.parts = k, {"a": [k]}


def compared(x: fw.Tensor, settings: Settings, *, other: Settings) -> fw.Tensor:
    if float(x.sum()) > settings.k:
        return x * settings.parts["a"][0]
    return x + other.k


def test_code_with_symbolic_conversions_reads_its_arguments() -> None:
    """Such code runs as a copy of the function."""
    f, settings, other = fw.compile(compared), Settings(1.0), Settings(2.0)
    changes = (lambda: None, lambda: vars(settings).update(k=9.0), lambda: None,
               lambda: settings.parts.update(a=[3.0]), lambda: vars(other).update(k=5.0),
               lambda: vars(settings).update(k=0.5))
    for change in changes:
        change()
        for x in (fw.tensor([1.0, 2.0]), fw.tensor([3.0, -9.0]), fw.tensor([30.0, 5.0])):
            assert f(x, settings, other=other).tolist() == compared(
                x, settings, other=other).tolist()
    assert f.stats.replays
