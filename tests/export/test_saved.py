"""Saved programs run in another process, without their source, bit for bit as the original goes on.

A script defines functions, calls them, saves them, and notes what further calls give; then it is
deleted, and another process makes the same calls of what it loads, where nothing can be recorded or
compiled.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "a model": """
model = fw.nn.Sequential(fw.nn.Linear(3, 16), fw.nn.ReLU(), fw.nn.Linear(16, 2)).eval()
@fw.compile
def f(x):
    with fw.no_grad():
        return model(x)
calls = [(x,), (x * 2,)]
""",
    "a model's forward": """
class Model(fw.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = fw.nn.Linear(3, 8)
        self.norm = fw.nn.BatchNorm1d(8)
    def forward(self, x):
        return self.norm(self.first(x)).tanh()
model = fw.compile(Model().train())
f, save = fw.no_grad()(model.forward), model.forward.save
calls = [(x,), (x * 2,), (x,)]
""",
    "decisions": """
@fw.compile
def f(x):
    if x.sum() > 0:
        if x.max() > 3: return x - 1
        return x * 2
    return x - 1, "below"
calls = [(x,), (-x,), (x * 4,), (-x * 4,)]
""",
    "a loop": """
@fw.compile
def f(x, limit):
    turns = 0
    while x.sum() < limit:
        x = x * 2 + 1
        turns += 1
    return x, turns
calls = [(x, 50), (x, 100), (x, 2000.0), (x, 3)]
""",
    "structures": """
from collections import OrderedDict, deque
@fw.compile
def f(d, *, k=2, flag=True):
    made = {"a": d["x"] * k, "b": (d["y"][0] + 1, [d["y"][1], k, None, "text"])}
    return OrderedDict(made) if flag else deque(made.values(), maxlen=3)
calls = [({"x": x, "y": [x * 2, x + 1]},), ({"x": -x, "y": [x - 1, x / 3]},)]
""",
    "numbers": """
@fw.compile
def f(x, lr, name):
    return x * lr if name == "mul" else x + lr
calls = [(x, 0.5, "mul"), (x, 0.7, "mul"), (x, 0.9, "mul"), (x, 2, "add")]
""",
    "numbers outside": """
count = 0
class C:
    def __init__(self): self.total = 0.0
    def go(self, x):
        global count
        count += 1
        self.total += 0.5
        return x * count + self.total
c = C()
f = fw.compile(c.go)
calls = [(x,)] * 3
""",
    "an object that changes": """
class Average:
    def __init__(self):
        self.mean, self.seen, self.last = fw.zeros(3), 0, []
    def take(self, x):
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        self.seen += 1
        self.last.append(self.mean)
        return self.mean, self.seen
f = fw.compile(Average().take)
calls = [(x,), (x + 1,), (x - 1,)]
""",
    "a closure that changes": """
def make():
    state = {"n": 0, "h": fw.ones(3)}
    scale = 1.0
    @fw.compile
    def f(x):
        nonlocal scale
        state["h"] = state["h"] + x[0]
        state["n"] += 2
        scale = scale * 0.5
        return state["h"] * scale, state["n"]
    return f
f = make()
calls = [(x,), (x + 1,), (x - 1,)]
""",
    "an argument that changes": """
@fw.compile
def f(x, cache):
    cache["seen"] = x * 2
    cache["h"][0] = cache["h"][0] + x.sum()
    return cache["seen"]
calls = [(x, {"seen": x - 1, "h": [x[0]]})]
""",
    "writes through views": """
@fw.compile
def f(x, rows):
    for row in x:
        row.mul_(2)
    x.T[0].add_(1)
    part = rows[1:]
    part[0] = x.sum()
    return part, x[1:].T, rows
calls = [(x * 1, x * 3), (x * 2, x + 1)]
""",
    "a varying size": """
@fw.compile(dynamic={"x": [0]})
def f(x):
    return fw.softmax(x, -1).sum(1) * x.shape[0]
calls = [(fw.ones(n, 3) * x[0],) for n in (4, 9, 2, 33, 70, 300)]
""",
    "a size found on the way": """
@fw.compile
def f(x):
    found = x[x > 0]
    return found * found.shape[0]
calls = [(x,), (x + 1,), (x - 0.5,)]
""",
    "parts by NumPy": """
@fw.compile
def f(x):
    return fw.linalg.svd(x @ x.T + 1)[1] * 2 + fw.linalg.inv(x.T @ x + fw.eye(3)).sum()
calls = [(x,), (x + 1,)]
""",
    "other dtypes": """
@fw.compile
def f(x):
    return x.astype(fw.bfloat16) * 3, x.astype(fw.complex128) * (1 + 2j), x > 0, fw.argmax(x, 1)
calls = [(x,), (x + 1,)]
""",
    "gradients inside": """
@fw.compile
def f(x):
    w = x.detach().requires_grad_()
    (w * w).sum().backward()
    return w.grad
calls = [(x,), (x + 1,)]
""",
}
for name in ("SGD", "Adam", "RMSprop"):
    CASES[f"training with {name}"] = f"""
model = fw.nn.Sequential(fw.nn.Linear(3, 8), fw.nn.BatchNorm1d(8), fw.nn.ReLU(),
                         fw.nn.Dropout(0.1), fw.nn.Linear(8, 1))
optimizer = fw.optim.{name}(model.parameters(), lr=0.01)
@fw.compile
def f(x, y):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()
calls = [(x, x.sum(1, keepdims=True))] * 20
"""

COMMON = """
import hashlib, json, sys, warnings
import fusewire as fw

def bits(value):
    if isinstance(value, fw.Tensor):
        return [str(value.dtype), list(value.shape), value.numpy().tobytes().hex()]
    if isinstance(value, dict):
        return [type(value).__name__, [[k, bits(v)] for k, v in value.items()]]
    if isinstance(value, (list, tuple)) or hasattr(value, "maxlen"):
        return [type(value).__name__, [bits(v) for v in value]]
    return repr(value)
"""

SAVE = COMMON + """
warnings.simplefilter("error")
for name, (source, path) in json.loads(sys.argv[1]).items():
    scope = {"__name__": "__main__", "fw": fw, "x": fw.arange(12.0).reshape(4, 3) / 7 - 0.5}
    exec(compile(source, name, "exec"), scope)
    f, calls = scope["f"], scope["calls"]
    fw.manual_seed(1)
    for call in calls * 3:
        f(*call)
    print(name)
    (scope.get("save") or f.save)(path)
    given = [fw.save(list(call), f"{path}.{i}") for i, call in enumerate(calls)]
    fw.manual_seed(2)
    with open(path + ".bits", "w") as file:
        json.dump([bits([f(*call), list(call)]) for call in calls], file)
"""

LOAD = COMMON + """
from fusewire.capture.replay import compiled_function
from fusewire.codegen import compile

def never(*args, **kwargs):
    raise AssertionError("something is recorded or compiled")

compiled_function.record = compile.lower_graph = never
found = {}
for name, path in json.loads(sys.argv[1]).items():
    loaded = fw.load_compiled(path)
    with open(path + ".bits") as file:
        noted = json.load(file)
    fw.manual_seed(2)
    results, shared = [], {}
    for i in range(len(noted)):
        call = fw.load(f"{path}.{i}")
        results.append(bits([loaded(*call), call]))
    found[name] = json.loads(json.dumps(results)) == noted
print(json.dumps(found))
"""


def run(source: str, folder: Path, given: object) -> str:
    """What a script prints; it is deleted."""
    script = folder / "script.py"
    script.write_text(source)
    done = subprocess.run([sys.executable, script.name, json.dumps(given)], cwd=folder,
                          capture_output=True, text=True, timeout=240)
    script.unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Whether each loaded function gives what the original gave, and leaves its arguments so."""
    folder = tmp_path_factory.mktemp("saved")
    paths = {name: str(folder / f"{i}.fw") for i, name in enumerate(CASES)}
    run(SAVE, folder, {name: (CASES[name], path) for name, path in paths.items()})
    found: dict[str, bool] = json.loads(run(LOAD, folder, paths))
    return found


@pytest.mark.parametrize("name", CASES)
def test_it_goes_on_as_the_original(name: str, same: dict[str, bool]) -> None:
    assert same[name]
