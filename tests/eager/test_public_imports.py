"""Import statements of the public modules work in a fresh process, in any order."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fusewire.eager.front.hints import spaces

MODULES = [path.replace("fw", "fusewire", 1) for path in spaces()]


@pytest.mark.parametrize("reverse", [False, True])
def test_import_statements(reverse: bool) -> None:
    lines = [f"import {name}; assert {name}.__name__" for name in sorted(MODULES, reverse=reverse)]
    lines.append("assert sys.modules['fusewire.onnx'] is fusewire.onnx")
    subprocess.run([sys.executable, "-c", "import sys\n" + "\n".join(lines)], check=True)


def run(code: str) -> None:
    """Runs code in a fresh process, which fails if the code does."""
    subprocess.run([sys.executable, "-c", code], check=True)


NO_SECOND_RUN = """
by_file = {}
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "fusewire":
        by_file.setdefault(module.__file__, set()).add(id(module))
assert [file for file, modules in by_file.items() if len(modules) > 1] == []
"""


@pytest.mark.parametrize("statement", [
    "from fusewire.onnx import load; assert load is sys.modules['fusewire'].onnx.load",
    "from fusewire import onnx; assert onnx.__name__ == 'fusewire.export.onnx'",
    "import fusewire.aot as aot; assert callable(aot.build)",
    "import fusewire.onnx.verify; assert fusewire.onnx.verify is fusewire.export.onnx.verify",
    "import fusewire.onnx.load.backend; import fusewire.export.onnx.load.backend",
    "import fusewire.export.onnx.load.load, fusewire.onnx",
    "from fusewire.aot.build import Built",
    "from fusewire.nn.functional import *; from fusewire.utils.data.dataloader import DataLoader",
])
def test_no_module_runs_twice(statement: str) -> None:
    """Whether the first import has the public name, the name at home, or a deeper one."""
    run(f"import sys; {statement}{NO_SECOND_RUN}")


@pytest.mark.parametrize("module", ["onnx.export", "onnx.load", "aot.build"])
def test_a_function_hides_the_module_of_its_name(module: str) -> None:
    """`import fusewire.onnx.load` is for the module, and leaves the function in its place."""
    run(f"""import sys, types, fusewire.{module}
assert isinstance(sys.modules["fusewire.{module}"], types.ModuleType)
assert isinstance(fusewire.{module}, types.FunctionType)
assert sys.modules["fusewire.{module}"] is sys.modules["fusewire.export.{module}"]
""")


def test_specs_of_modules_that_are_not_loaded() -> None:
    run("""
import sys, fusewire
from importlib.util import find_spec
assert find_spec("fusewire.onnx").origin.endswith("__init__.py")
assert find_spec("fusewire.no_such_module") is None
assert "fusewire.export.onnx" not in sys.modules
assert find_spec("fusewire.onnx.no_such_module") is None
try:
    import fusewire.onnx.no_such_module
except ModuleNotFoundError as error:
    assert error.name == "fusewire.onnx.no_such_module"
""")


def test_a_deferred_module_gives_hints() -> None:
    run("""
import fusewire as fw
for read, hint in ((lambda: fw.onnx.exprt, "fw.onnx.export"), (lambda: fw.onx, "fw.onnx"),
                   (lambda: fw.aot.buidl, "fw.aot.build"), (lambda: fw.Limits, "fw.onnx.Limits")):
    try:
        read()
    except AttributeError as error:
        assert hint in str(error), error
    else:
        raise AssertionError(hint)
assert dir(fw.onnx) == sorted({*dir(fw.onnx)}) and "export" in dir(fw.onnx)
""")


def test_pickles_name_modules_by_either_name() -> None:
    """Pickles of a version that has a class at another home have the public name of its module."""
    run(r"""
import pickle, fusewire as fw
public = b"cfusewire.onnx.load.runtime.limits\nLimits\n."
assert pickle.loads(public) is fw.onnx.Limits
assert pickle.loads(pickle.dumps(fw.onnx.export)) is fw.onnx.export
""")


@pytest.mark.parametrize("first", ["fw.onnx.load", "fw.load_compiled", "fw.aot.build",
                                   "__import__('fusewire.onnx.load').onnx.load"])
def test_threads_use_a_deferred_name_at_once(first: str) -> None:
    run(f"""
import sys, threading, types
import fusewire as fw
sys.setswitchinterval(1e-5)
start, found = threading.Barrier(8), []
def use():
    start.wait()
    found.append({first})
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(map(id, found))) == 1, found
assert isinstance(found[0], types.FunctionType)
{NO_SECOND_RUN}""")
