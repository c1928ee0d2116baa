"""Programs that change Python state, or return objects that they have made."""

from __future__ import annotations

PROGRAMS = {
    "class attribute counted through the class": """
class C: n = 0
def f(x):
    C.n += 1
    return x * C.n
def seen(): return C.n
""",
    "type(self) counter": """
class C:
    n = 0
    def go(self, x):
        type(self).n += 1
        return x * self.n
c = C()
def f(x): return c.go(x)
def seen(): return C.n
""",
    "module attribute written": """
import types
config = types.ModuleType("config"); config.step = 0
def f(x):
    config.step = config.step + 1
    return x * config.step
def seen(): return config.step
""",
    "function attribute counted": """
def f(x):
    f.calls += 1
    return x * 2
f.calls = 0
def seen(): return f.calls
""",
    "bound append": """
log = []
append = log.append
def f(x):
    append(1.0)
    return x * len(log)
def seen(): return log
""",
    "bound append only": """
log = []
append = log.append
def f(x):
    append(2.0)
    return x * 2
def seen(): return log
""",
    "slots": """
class C:
    __slots__ = ("k", "n")
c = C(); c.k = 2.0; c.n = 0
def f(x):
    c.n = c.n + 1
    return x * c.k
def between(n): c.k = 3.0 + n
def seen(): return c.n
""",
    "dict subclass with attribute written": """
class L(dict): pass
l = L(a=1.0); l.n = 0
def f(x):
    l.n = l.n + 1
    return x * l["a"]
def seen(): return l.n
""",
    "defaultdict read": """
import collections
d = collections.defaultdict(lambda: 3.0)
def f(x): return x * d["k"]
def seen(): return dict(d)
""",
    "defaultdict of lists": """
import collections
d = collections.defaultdict(list)
def f(x):
    d["k"].append(x.sum())
    return x * 2
def seen(): return dict(d)
""",
    "counter": """
import collections
d = collections.Counter()
def f(x):
    d["k"] += 1
    return x * 2
def seen(): return dict(d)
""",
    "ordered dict move": """
import collections
d = collections.OrderedDict(a=1.0, b=2.0)
def f(x):
    d.move_to_end("a")
    return x * 2
def seen(): return list(d)
""",
    "dict pop and reinsert": """
d = {"a": 1.0, "b": 2.0, "c": 3.0}
def f(x):
    v = d.pop("a"); d["a"] = v
    return x * v
def seen(): return list(d)
""",
    "deque append": """
import collections
q = collections.deque(maxlen=3)
def f(x):
    q.append(x.sum())
    return x * len(q)
def seen(): return list(q)
""",
    "list element counted": """
l = [0]
def f(x):
    l[0] += 1
    return x * 2
def seen(): return l
""",
    "dict counted": """
d = {"n": 0}
def f(x):
    d["n"] += 1
    return x * 2
def seen(): return d
""",
    "append global list": """
log = []
def f(x):
    y = (x * 2).sum()
    log.append(y)
    return y
def seen(): return list(log)
""",
    "append attribute list and length read": """
class C:
    def __init__(self): self.log = []
c = C()
def f(x):
    c.log.append(x.sum())
    return x * len(c.log)
def seen(): return list(c.log)
""",
    "append to list also read by other name": """
log = []
alias = log
def f(x):
    log.append(x.sum())
    return x * len(alias)
def seen(): return list(log)
""",
    "append mixed kinds": """
log = []
def f(x):
    log.append({"loss": x.sum(), "lr": 0.5, "name": "a"})
    return x
def seen(): return [dict(d) for d in log]
""",
    "list insert": """
log = []
def f(x):
    log.insert(0, x.sum())
    return x
def seen(): return list(log)
""",
    "list pop": """
log = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
def f(x): return x * log.pop()
def seen(): return list(log)
""",
    "list clear and fill": """
log = []
def f(x):
    log.clear()
    log.extend([x.sum(), x.max()])
    return x
def seen(): return list(log)
""",
    "list sort": """
l = [3.0, 1.0, 2.0]
def f(x):
    l.sort()
    return x * l[0] - l[2]
def between(n): l.append(0.5 - n)
def seen(): return list(l)
""",
    "slice assignment": """
l = [3.0, 1.0, 2.0]
def f(x):
    l[1:] = [x.sum()]
    return x
def seen(): return list(l)
""",
    "reversed in place": """
l = [3.0, 1.0, 2.0]
def f(x):
    l.reverse()
    return x * l[0]
def seen(): return list(l)
""",
    "del key": """
d = {"a": 1.0, "b": 2.0}
def f(x):
    del d["a"]
    return x
def between(n): d["a"] = 4.0
def seen(): return list(d)
""",
    "del attribute": """
class C: pass
c = C(); c.tmp = 1.0
def f(x):
    del c.tmp
    return x
def between(n): c.tmp = 4.0
def seen(): return sorted(vars(c))
""",
    "del global": """
tmp = 3.0
def f(x):
    global tmp
    del tmp
    return x
def between(n):
    global tmp
    tmp = 4.0
def seen(): return "tmp" in globals()
""",
    "global created": """
def f(x):
    global made
    made = x.sum()
    return x
def seen(): return made
""",
    "set add unread": """
s = set()
def f(x, k):
    s.add(k)
    return x
def call(run, x, n): return run(x, n % 2)
def seen(): return sorted(s)
def between(n):
    if n == 3: s.clear()
""",
    "dict filled unread constant": """
d = {}
def f(x):
    d["mode"] = "train"
    return x
def between(n): d["mode"] = "x"
def seen(): return dict(d)
""",
    "dict filled unread same tensor": """
d = {}
def f(x):
    d["x"] = x
    return x * 2
def seen(): return dict(d)
def between(n):
    if n == 3: d["x"] = 5
""",
    "setattr custom": """
class C:
    def __init__(self): object.__setattr__(self, "log", []); object.__setattr__(self, "k", 0.0)
    def __setattr__(self, name, v):
        self.log.append(name); object.__setattr__(self, name, v)
c = C()
def f(x):
    c.k = x.sum()
    return x
def seen(): return c.log, c.k
""",
    "property setter": """
class C:
    def __init__(self): self._k = None; self.sets = 0
    @property
    def k(self): return self._k
    @k.setter
    def k(self, v): self._k = v; self.sets += 1
c = C()
def f(x):
    c.k = x.sum()
    return x
def seen(): return c.sets, c.k
""",
    "exception swallowed after effect": """
log = []
def f(x):
    try:
        log.append(1)
        raise ValueError
    except ValueError: pass
    finally: log.append(2)
    return x * 2
def seen(): return log
""",
    "contextmanager state": """
import contextlib
class C: depth = 0
c = C()
@contextlib.contextmanager
def enter():
    c.depth += 1
    try: yield c.depth
    finally: c.depth -= 1
def f(x):
    with enter() as d: return x * d
def between(n):
    if n == 2: c.depth = 4
def seen(): return c.depth
""",
    "recursion with memo": """
memo = {}
def fib(n):
    if n not in memo: memo[n] = n if n < 2 else fib(n - 1) + fib(n - 2)
    return memo[n]
def f(x): return x * fib(7)
def seen(): return list(memo)
def between(n):
    if n == 2: memo.clear()
""",
    "instance made and returned": """
class R:
    def __init__(self, y, k): self.y, self.k = y, k
def f(x): return R(x * 2, "a")
""",
    "dataclass returned": """
import dataclasses
@dataclasses.dataclass(frozen=True)
class R:
    y: object
    k: str = "a"
def f(x): return R(x * 2)
""",
    "dataclass slots returned": """
import dataclasses
@dataclasses.dataclass
class R:
    __slots__ = ("y", "k")
    y: object
    k: str
def f(x): return R(x * 2, "b")
""",
    "same list twice": """
def f(x):
    a = [x * 2]
    return a, a
def check(r): return r[0] is r[1]
""",
    "object kept in attribute": """
class S:
    def __init__(self, h): self.h = h
class C: pass
c = C(); c.s = S(fw.zeros(3))
def f(x):
    c.s = S(c.s.h + x)
    return c.s.h
def seen(): return c.s.h
""",
    "cyclic result": """
def f(x):
    a = [x]; a.append(a)
    return a
def check(r): return r[1] is r
""",
    "closure returned": """
def f(x):
    y = x * 2
    return lambda: y
def check(r): return r()
""",
    "iterator returned": """
def f(x): return iter([x, x * 2])
def check(r): return list(r)
""",
    "generator function": """
def f(x):
    yield x * 2
    yield x * 3
def check(r): return list(r)
""",
    "set returned": """
def f(x): return {1, 2, 3}
""",
    "counter returned": """
import collections
def f(x):
    return (collections.Counter("hello"), collections.OrderedDict(b=x * 2, a=1),
            collections.defaultdict(int, k=x + 1), collections.deque([x * 3], maxlen=2))
def check(r): r[2]["new"]; return [type(v) for v in r], r[3].maxlen
""",
    "exception returned": """
def f(x):
    try: raise ValueError("a")
    except ValueError as e: return x, e
def check(r): return repr(r[1])
""",
    "string builder": """
class C: text = ""
c = C()
def f(x):
    c.text = c.text + "a"
    return x * len(c.text)
def seen(): return c.text
""",
    "two attributes of one new list": """
class C: pass
c = C(); c.a = c.b = None
def f(x):
    c.a = c.b = [x]
    return x
def seen(): return c.a is c.b, c.a
""",
    "new list in result and attribute": """
class C: pass
c = C(); c.a = None
def f(x):
    c.a = [x * 2]
    return c.a
def check(r): return r is c.a
""",
    "nested append into made list": """
class C: pass
c = C(); c.a = {"h": []}
def f(x):
    c.a["h"].append([x.sum(), {"k": 1}])
    return x
def seen(): return c.a
""",
}
