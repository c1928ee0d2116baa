"""`import fusewire` loads nothing that it may not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("onnx", "onnxruntime", "cupy", "tqdm", "hypothesis", "safetensors", "subprocess",
         "importlib.metadata", "importlib.abc", "statistics")
DEFERRED = {"aot": "fusewire.export.aot", "onnx": "fusewire.export.onnx",
            "torch": "fusewire.frontends.torch",
            "load_compiled": "fusewire.export.saved"}
"""Names of the package that load on first use, each with the module that it needs."""


def run(code: str) -> str:
    """What a fresh interpreter prints when it runs `code`."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_nothing_heavy_is_loaded() -> None:
    """Beyond what the packages load that it builds on."""
    before = run("import sys, numpy, llvmlite.binding; print(*sys.modules)").split()
    loaded = set(run("import sys, fusewire; print(*sys.modules)").split()).difference(before)
    assert [name for name in HEAVY if name in loaded] == []


def test_nothing_of_the_top_layer_is_loaded() -> None:
    """Few programs export or save, so the modules that do so load on first use."""
    loaded = run("import sys, fusewire; print(*sys.modules)").split()
    upper = (["export"], ["frontends"], *map(list, DEFERRED))
    assert [name for name in loaded if name.split(".")[1:2] in upper
            and name.startswith("fusewire.")] == []


@pytest.mark.parametrize("use", ["fw.{}", "from fusewire import {}", "from fusewire import *; {}"])
def test_a_deferred_name_loads_on_first_use(use: str) -> None:
    uses = "\n".join(use.format(name) for name in DEFERRED)
    assert run(f"""
import sys, fusewire as fw
for name, module in {DEFERRED}.items():
    assert name in dir(fw) and name not in vars(fw) and module not in sys.modules
{uses}
for name, module in {DEFERRED}.items():
    assert module in sys.modules and vars(fw)[name] is getattr(fw, name)
print("loaded")""") == "loaded"


def test_what_looks_at_the_package_loads_nothing() -> None:
    """Its names, its missing names, and calls of functions that were compiled before."""
    assert run("""
import sys, fusewire as fw
f = fw.compile(lambda x: 2 * fw.abs(x))
for _ in range(3): f(fw.ones(2))
dir(fw); hasattr(fw, "no_such_name"); vars(fw)
print([name for name in sys.modules if name.startswith("fusewire.export")])""") == "[]"


def test_a_compiled_function_is_saved_before_anything_is_loaded() -> None:
    assert run("""
import fusewire as fw, os, tempfile
path = os.path.join(tempfile.mkdtemp(), "double.fw")
double = fw.compile(lambda x: 2 * x)
double(fw.ones(2))
double.save(path)
print(fw.load_compiled(path)(fw.ones(2)))""") == "tensor([2., 2.])"


def test_a_module_that_loads_leaves_recordings_valid() -> None:
    """Whether a trace loads it or another program part: one recording serves all calls."""
    assert run("""
import sys, fusewire as fw
traced = fw.compile(lambda x: x + 1 if callable(fw.onnx.export) else x, fullgraph=True)
other = fw.compile(lambda x: 2 * fw.abs(x), fullgraph=True)
print(other(fw.ones(1)), *(traced(fw.ones(1)) for _ in range(3)), "fusewire.onnx" in sys.modules)
fw.aot, fw.load_compiled
print(other(fw.ones(1)), len(traced.programs), len(other.programs))""").splitlines() == [
        "tensor([2.]) tensor([2.]) tensor([2.]) tensor([2.]) True", "tensor([2.]) 1 1"]


def test_nothing_is_printed_or_warned() -> None:
    assert run("import fusewire") == ""


def test_names_that_no_module_has_are_looked_for_in_vain() -> None:
    """As pickle does for a function that does not say where it is from, in all modules there are:
    torch.compile does so for its cache."""
    assert run("""
import pickle, sys, fusewire as fw
f = fw.compile(lambda x: fw.nn.functional.softmax(x @ x, -1))
for _ in range(3): f(fw.ones(2, 2))
for name in ("no_such_name", "_no_such_name", "__no_such_name__"):
    print(*[m for m in list(sys.modules.values()) if hasattr(m, name)])
print(pickle.whichmodule(type("lost", (), {"__module__": None}), "lost"), "cupy" in sys.modules)
""").split() == ["__main__", "False"]
