"""Programs that read Python state which changes between calls."""

from __future__ import annotations

PROGRAMS = {
    "class attribute read through the class": """
class C: rate = 2.0
def f(x): return x * C.rate
def between(n): C.rate = 2.0 + n
""",
    "module attribute": """
import types
config = types.ModuleType("config"); config.rate = 2.0
def f(x): return x * config.rate
def between(n): config.rate = 2.0 + n
""",
    "function attribute": """
def helper(x): return x * helper.k
helper.k = 2.0
def f(x): return helper(x)
def between(n): helper.k = 2.0 + n
""",
    "global that appears later": """
def f(x):
    try: return x * K
    except NameError: return x
def between(n):
    global K
    if n == 1: K = 5.0
""",
    "builtin shadowed later": """
def f(x): return x * max(2, 3)
def between(n):
    global max
    if n == 1: max = min
""",
    "order of dict": """
d = {"a": 1.0, "b": 2.0}
def f(x):
    for v in d.values(): x = x * 2 + v
    return x
def between(n):
    if n == 1:
        v = d.pop("a"); d["a"] = v
""",
    "order of keyword arguments": """
def g(x, **k):
    for v in k.values(): x = x * 2 + v
    return x
def call(run, x, n): return run(x, a=1.0, b=2.0) if n % 2 else run(x, b=2.0, a=1.0)
f = g
""",
    "key types": """
def f(x, d):
    for k in d: x = x * 2 + k
    return x + (fw.arange(3) * list(d)[0]) * 0.5
def call(run, x, n): return run(x, {1: 0} if n % 2 else {1.0: 0} if n % 3 else {True: 0})
""",
    "cached_property": """
import functools
class C:
    def __init__(self): self.k = 2.0
    @functools.cached_property
    def kk(self): return self.k * 10
c = C()
def f(x): return x * c.kk
def between(n):
    c.k = 3.0 + n
    if n == 2: del c.kk
""",
    "bound iterator method": """
nxt = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).__next__
def f(x): return x * nxt()
""",
    "iterator attribute": """
class C: pass
c = C(); c.it = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
def f(x): return x * next(c.it)
""",
    "itertools count in default": """
import itertools
def f(x, it=itertools.count(1)): return x * next(it)
""",
    "generator partly consumed": """
def gen():
    k = 0
    while True:
        k += 1
        yield k
g = gen()
def f(x): return x * next(g)
""",
    "generator in closure of partial": """
import functools
def gen():
    k = 0
    while True:
        k += 1
        yield k
g = functools.partial(next, gen())
def f(x): return x * g()
""",
    "bound get": """
d = {"k": 2.0}
get = d.get
def f(x): return x * get("k")
def between(n): d["k"] = 3.0 + n
""",
    "descriptor with state": """
class D:
    def __init__(self): self.v = 2.0
    def __get__(self, o, t=None): return self.v
d = D()
class C: k = d
c = C()
def f(x): return x * c.k
def between(n): d.v = 3.0 + n
""",
    "descriptor with private state": """
class D:
    def __init__(self): self.v = 2.0
    def __get__(self, o, t=None): return self.v
class C: k = D()
c = C()
def f(x): return x * c.k
def between(n): C.__dict__["k"].v = 3.0 + n
""",
    "metaclass attribute": """
class M(type): rate = 2.0
class C(metaclass=M): pass
def f(x): return x * C.rate
def between(n): M.rate = 3.0 + n
""",
    "metaclass getattr": """
class M(type):
    table = {"rate": 2.0}
    def __getattr__(cls, name): return cls.table[name]
class C(metaclass=M): pass
def f(x): return x * C.rate
def between(n): M.table["rate"] = 3.0 + n
""",
    "getattr of object": """
class C:
    def __init__(self): self.__dict__["table"] = {"rate": 2.0}
    def __getattr__(self, name): return self.table[name]
c = C()
def f(x): return x * c.rate
def between(n): c.table["rate"] = 3.0 + n
""",
    "getattribute": """
class C:
    def __init__(self): object.__setattr__(self, "k", 2.0)
    def __getattribute__(self, name): return object.__getattribute__(self, name)
c = C()
def f(x): return x * c.k
def between(n): c.k = 3.0 + n
""",
    "private slots": """
class C:
    __slots__ = ("__k",)
    def __init__(self): self.__k = 2.0
    def get(self): return self.__k
    def put(self, k): self.__k = k
c = C()
def f(x): return x * c.get()
def between(n): c.put(3.0 + n)
""",
    "list subclass with attribute": """
class L(list): pass
l = L([1.0]); l.k = 2.0
def f(x): return x * l.k
def between(n): l.k = 3.0 + n
""",
    "dict subclass missing": """
class L(dict):
    def __missing__(self, k): return self.base
l = L(a=1.0); l.base = 2.0
def f(x): return x * l["zz"]
def between(n): l.base = 3.0 + n
""",
    "dict get default": """
d = {}
def f(x): return x * d.get("k", 2.0)
def between(n):
    if n == 1: d["k"] = 5.0
""",
    "in list": """
l = [1, 2]
def f(x): return x * 2 if 3 in l else x
def between(n):
    if n == 1: l.append(3)
""",
    "len of list": """
l = [1, 2]
def f(x): return x * len(l)
def between(n): l.append(3)
""",
    "mutable default argument": """
def f(x, log=[]):
    log.append(1)
    return x * len(log)
""",
    "kw only default changed": """
def f(x, *, k=2.0): return x * k
def between(n): f.__kwdefaults__["k"] = 3.0 + n
""",
    "vars of module": """
import types
config = types.ModuleType("config"); config.rate = 2.0
def f(x): return x * vars(config)["rate"]
def between(n): config.rate = 3.0 + n
""",
    "getattr of module": """
import types
config = types.ModuleType("config"); config.rate = 2.0
name = "rate"
def f(x): return x * getattr(config, name)
def between(n): config.rate = 3.0 + n
""",
    "getattr of class": """
class C: rate = 2.0
name = "rate"
def f(x): return x * getattr(C, name)
def between(n): C.rate = 3.0 + n
""",
    "ndarray attribute": """
import numpy as np
class C: pass
c = C(); c.a = np.ones(3, np.float32)
def f(x): return x * float(c.a[0])
def between(n): c.a[0] = 3.0 + n
""",
    "deque read": """
import collections
q = collections.deque([2.0], maxlen=3)
def f(x): return x * q[-1]
def between(n): q.append(3.0 + n)
""",
    "deque of objects": """
import collections
class C: pass
c = C(); c.k = 2.0
q = collections.deque([c])
def f(x): return x * q[0].k
def between(n): c.k = 3.0 + n
""",
    "set order": """
s = set()
def f(x):
    for v in s: x = x * 2 + v
    return x
def between(n):
    s.clear(); s.update([1, 9, 17, 25, 33][:3] if n % 2 else [17, 9, 1])
""",
    "frozenset of objects": """
class C: pass
c = C(); c.k = 2.0
q = frozenset([c])
def f(x): return x * sum(o.k for o in q)
def between(n): c.k = 3.0 + n
""",
    "dict keyed by objects": """
class C:
    def __init__(self, k): self.k = k
c = C(2.0)
d = {c: 1.0}
def f(x):
    for o in d: x = x * o.k
    return x
def between(n): c.k = 3.0 + n
""",
    "dict keyed by tuples of numbers": """
d = {(1, 2): 2.0}
def f(x):
    for a, b in d: x = x * a + b
    return x
def between(n):
    if n == 2: d.clear(); d[(1.0, 2.0)] = 2.0
""",
    "object with eq in dict keys": """
class K:
    def __init__(self, k, w): self.k, self.w = k, w
    def __eq__(self, o): return self.k == o.k
    def __hash__(self): return hash(self.k)
d = {K(1, 2.0): 0}
def f(x):
    for o in d: x = x * o.w
    return x
def between(n):
    d.clear(); d[K(1, 3.0 + n)] = 0
""",
    "closure cell counted": """
def make():
    n = 0
    def g(x):
        nonlocal n
        n += 1
        return x * n
    return g, lambda: n
f, seen = make()
""",
    "two closures share a cell": """
def make():
    k = 1.0
    def a(x):
        nonlocal k
        k = k + 1
        return x
    def b(x): return x * k
    return a, b, lambda: k
a, b, seen = make()
def f(x): return b(a(x))
""",
    "enumerate zip sorted fstring": """
names = ["b", "a"]
w = {"wa": 1.0, "wb": 2.0}
def f(x):
    for i, (a, b) in enumerate(zip(sorted(names), names)): x = x * w[f"w{a}"] + i * (a == b)
    return x
def between(n):
    if n == 2: names.reverse()
    if n == 3: w["wa"] = 7.0
""",
    "enum flag": """
import enum
class M(enum.Flag):
    A = 1; B = 2
mode = M.A
def f(x): return x * (2 if M.B in mode else 1)
def between(n):
    global mode
    mode = M.A | M.B if n % 2 else M.A
""",
    "numpy scalar": """
import numpy as np
k = np.float32(2.0)
def f(x): return x * k
def between(n):
    global k
    k = np.float32(3.0 + n) if n % 2 else np.float64(3.0 + n)
""",
    "method replaced in subclass": """
class A:
    def k(self): return 2.0
class B(A): pass
b = B()
def f(x): return x * b.k()
def between(n):
    if n == 2: B.k = lambda self: 5.0
""",
    "instance method shadowed": """
class A:
    def k(self): return 2.0
b = A()
def f(x): return x * b.k()
def between(n):
    if n == 2: b.k = lambda: 5.0
""",
    "subclass attribute shadows": """
class A: rate = 2.0
class B(A): pass
def f(x): return x * B.rate
def between(n):
    if n == 2: B.rate = 5.0
""",
    "object class changed": """
class A:
    def k(self): return 2.0
class B:
    def k(self): return 3.0
o = A()
def f(x): return x * o.k()
def between(n):
    if n == 2: o.__class__ = B
""",
    "code replaced": """
def h(x): return x * 2
def f(x): return h(x)
def between(n):
    if n == 2: h.__code__ = (lambda x: x * 3).__code__
""",
    "bool attr from len": """
class C:
    def __len__(self): return 0
c = C()
def f(x): return x * 2 if c else x
def between(n):
    if n == 2: C.__len__ = lambda self: 1
""",
    "staticmethod global": """
sm = staticmethod(lambda x: x * K)
K = 2.0
def f(x): return sm(x)
def between(n):
    global K
    K = 3.0 + n
""",
    "partialmethod": """
import functools
class C:
    def __init__(self): self.k = 2.0
    def m(self, a, x): return x * self.k + a
    add = functools.partialmethod(m, 1.0)
c = C()
def f(x): return c.add(x)
def between(n): c.k = 3.0 + n
""",
    "singledispatch": """
import functools
@functools.singledispatch
def g(v, x): return x
@g.register
def _(v: int, x): return x * K
K = 2.0
def f(x): return g(1, x)
def between(n):
    global K
    K = 3.0 + n
""",
    "operator attrgetter": """
import operator
class C: pass
c = C(); c.k = 2.0
get = operator.attrgetter("k")
def f(x): return x * get(c)
def between(n): c.k = 3.0 + n
""",
    "methodcaller": """
import operator
class C:
    def k(self): return self.v
c = C(); c.v = 2.0
get = operator.methodcaller("k")
def f(x): return x * get(c)
def between(n): c.v = 3.0 + n
""",
    "map getattr": """
class C: pass
c = C(); c.k = 2.0
def f(x): return x * sum(map(getattr, [c], ["k"]))
def between(n): c.k = 3.0 + n
""",
    "copy and deepcopy of state": """
import copy
class C: pass
c = C(); c.k = [2.0]
def f(x): return x * copy.deepcopy(c).k[0]
def between(n): c.k[0] = 3.0 + n
""",
    "json dumps of state": """
import json
d = {"a": 1}
def f(x): return x * len(json.dumps(d))
def between(n): d["b" * n] = n
""",
    "super chain class attr": """
class A:
    k = 2.0
    def go(self, x): return x * super().__getattribute__("k")
a = A()
def f(x): return a.go(x)
def between(n): A.k = 3.0 + n
""",
    "exception attr state": """
class E(Exception): pass
err = E("a", 2.0)
def f(x): return x * err.args[1]
def between(n): err.args = ("a", 3.0 + n)
""",
    "range and slice objects global": """
r = range(3)
def f(x):
    for i in r: x = x + i
    return x
def between(n):
    global r
    r = range(3 + n)
""",
    "datetime object": """
import datetime
d = datetime.timedelta(seconds=2)
def f(x): return x * d.total_seconds()
def between(n):
    global d
    d = datetime.timedelta(seconds=3 + n)
""",
}
