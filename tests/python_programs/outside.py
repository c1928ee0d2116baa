"""Programs whose result depends on what is outside of the function, or cannot be followed."""

from __future__ import annotations

PROGRAMS = {
    "weakref": """
import weakref
class C: k = 1.0
c = C(); c.k = 2.0
r = weakref.ref(c)
def f(x): return x * r().k
def between(n): c.k = 2.0 + n
""",
    "weak value dict": """
import weakref
class C: pass
c = C(); c.k = 2.0
d = weakref.WeakValueDictionary(); d["c"] = c
def f(x): return x * d["c"].k
def between(n): c.k = 2.0 + n
""",
    "lru cache": """
import functools
G = 2.0
@functools.lru_cache(None)
def scale(): return G
def f(x): return x * scale()
def between(n):
    global G
    G = 2.0 + n
    if n == 2: scale.cache_clear()
""",
    "lru cache filled before": """
import functools
G = 2.0
@functools.lru_cache(None)
def scale(): return G
scale()
def f(x): return x * scale()
def between(n):
    global G
    G = 2.0 + n
    if n == 2: scale.cache_clear()
""",
    "contextvar": """
import contextvars
v = contextvars.ContextVar("v", default=2.0)
def f(x): return x * v.get()
def between(n): v.set(3.0 + n)
""",
    "threading local": """
import threading
l = threading.local(); l.k = 2.0
def f(x): return x * l.k
def between(n): l.k = 3.0 + n
""",
    "ordered dict moved outside": """
import collections
d = collections.OrderedDict(a=1.0, b=2.0)
def f(x):
    for v in d.values(): x = x * 2 + v
    return x
def between(n): d.move_to_end("a" if n % 2 else "b")
""",
    "globals()": """
K = 2.0
def f(x): return x * globals()["K"]
def between(n):
    global K
    K = 3.0 + n
""",
    "eval": """
K = 2.0
def f(x): return x * eval("K")
def between(n):
    global K
    K = 3.0 + n
""",
    "id": """
def f(x, o): return x * (id(o) % 7)
KEEP = []
def call(run, x, n):
    return run(x, OBJS[n])
class O: pass
OBJS = OBJS_ALL
""",
    "environ": """
import os
os.environ["FW_T"] = "2.0"
def f(x): return x * float(os.environ["FW_T"])
def between(n): os.environ["FW_T"] = str(3.0 + n)
""",
    "getenv": """
import os
os.environ["FW_T"] = "2.0"
def f(x): return x * float(os.getenv("FW_T", "1"))
def between(n): os.environ["FW_T"] = str(3.0 + n)
""",
    "datetime now": """
import datetime
def f(x): return x * 0 + datetime.datetime.now().microsecond * 0 + 1
def between(n): pass
""",
    "uuid": """
import uuid
def f(x): return x * (len(uuid.uuid4().hex))
""",
    "secrets": """
import secrets
def f(x): return x * (secrets.randbelow(5) * 0 + 1)
""",
    "time through map": """
import time
def f(x): return x * (sum(fn() * 0 for fn in [time.time]) + 1)
""",
    "random through map": """
import random
def f(x): return x * (sum(map(random.uniform, [1.0], [1.0])))
""",
    "time perf through map": """
import time
def f(x):
    t = list(map(lambda g: 0, [1])); s = sorted([1], key=lambda k: 0)
    return x * (next(iter(time.perf_counter, None)) * 0 + 1)
""",
    "partial of time": """
import time, functools
now = functools.partial(time.time)
def f(x): return x * (now() * 0 + 1)
""",
    "np load": """
import numpy as np, tempfile, os
path = os.path.join(tempfile.mkdtemp(), "a.npy")
np.save(path, np.float32(2.0))
def f(x): return x * float(np.load(path))
def between(n): np.save(path, np.float32(3.0 + n))
""",
    "pathlib read": """
import pathlib, tempfile
path = pathlib.Path(tempfile.mkdtemp()) / "a"
path.write_text("2.0")
def f(x): return x * float(path.read_text())
def between(n): path.write_text(str(3.0 + n))
""",
    "path exists": """
import os, tempfile
path = os.path.join(tempfile.mkdtemp(), "a")
def f(x): return x * 2 if os.path.exists(path) else x
def between(n):
    if n == 1: open(path, "w").close()
""",
    "array module": """
import array
a = array.array("d", [2.0])
def f(x): return x * a[0]
def between(n): a[0] = 3.0 + n
""",
    "memoryview": """
b = bytearray(b"ab"); m = memoryview(b)
def f(x): return x * m[0]
def between(n): b[0] = 3 + n
""",
    "mappingproxy": """
import types
d = {"k": 2.0}; mp = types.MappingProxyType(d)
def f(x): return x * mp["k"]
def between(n): d["k"] = 3.0 + n
""",
    "append, replaced outside": """
class C:
    def __init__(self): self.log = []
c = C()
def f(x):
    c.log.append(x.sum())
    return x
def seen(): return list(c.log)
def between(n):
    if n == 2: c.log = []
""",
    "walrus and comprehension scope": """
xs = [1.0, 2.0]
def f(x): return x * sum(y for k in xs if (y := k * 2) > 2)
def between(n): xs.append(3.0 + n)
""",
    "print in untaken branch": """
DEBUG = False
import time
def f(x):
    if DEBUG: print(time.time())
    return x * 2
""",
    "warnings": """
import warnings
def f(x):
    warnings.warn("hello", UserWarning)
    return x * 2
""",
    "thread local ident": """
import threading
def f(x): return x * (threading.get_ident() * 0 + 1)
""",
    "weakkey cache on object": """
import weakref
cache = weakref.WeakKeyDictionary()
class O: pass
o = O()
def f(x):
    if o not in cache: cache[o] = x.sum()
    return x + cache[o]
""",
}
