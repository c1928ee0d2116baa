"""A wrong call returns a code that says what is wrong, and never crashes."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import c_calls
import numpy as np
import pytest
from c_calls import Array, Call, Library, aligned
from c_programs import HERE, STRICT, command

import fusewire as fw
from fusewire.export.aot.abi import MESSAGES, UNKNOWN, Code
from house.pages import TEXTS

pytestmark = pytest.mark.skipif(bool(HERE.missing), reason=f"not here: {HERE.missing}")


def build(folder: Path, **options: Any) -> fw.aot.Built:
    """The library that `c_calls` knows."""
    fw.manual_seed(0)
    weight, table = fw.randn(4, 3), fw.randn(5, 3)
    args = (fw.randn(3, 4), fw.tensor([0, 4, 2]))
    spec = {"x": {0: "batch"}, "index": {0: "batch"}}
    return fw.aot.build(lambda x, index: fw.tanh(x @ weight) @ weight.T @ weight + table[index],
                        args, folder / "model", dynamic_shapes=spec,
                        max_sizes={"batch": c_calls.LARGEST}, library=True, **options)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    build(folder)
    return folder / "model.so"


@pytest.fixture
def library(path: Path) -> Library:
    return Library(str(path))


def first(call: Call) -> Array:
    """The first input."""
    return call.held[2][0]


def output(call: Call) -> Array:
    return call.held[3][0]


def moved(call: Call, array: Array, by: int) -> None:
    array.data += by


def over(call: Call) -> None:
    output(call).data = first(call).data


def outside(call: Call) -> None:
    call.held[4].memory[1].view(np.int64)[0] = 5


WRONG: dict[str, tuple[Code, Callable[[Call], Any]]] = {
    "no version": (Code.VERSION, lambda c: setattr(c, "abi", 0)),
    "too few inputs": (Code.COUNT, lambda c: setattr(c, "input_count", 1)),
    "too many inputs": (Code.COUNT, lambda c: setattr(c, "input_count", 3)),
    "too many outputs": (Code.COUNT, lambda c: setattr(c, "output_count", 2)),
    "no outputs": (Code.COUNT, lambda c: setattr(c, "output_count", 0)),
    "no sizes": (Code.COUNT, lambda c: setattr(c, "size_count", 0)),
    "negative counts": (Code.COUNT, lambda c: setattr(c, "input_count", -2)),
    "no list of inputs": (Code.NULL, lambda c: setattr(c, "inputs", None)),
    "no list of outputs": (Code.NULL, lambda c: setattr(c, "outputs", None)),
    "no list of sizes": (Code.NULL, lambda c: setattr(c, "sizes", None)),
    "an input of nothing": (Code.NULL, lambda c: setattr(first(c), "data", None)),
    "no shape": (Code.NULL, lambda c: setattr(first(c), "shape", None)),
    "an output of nothing": (Code.NULL, lambda c: setattr(output(c), "data", None)),
    "a size of 0": (Code.SIZE, lambda c: c.held[0].__setitem__(0, 0)),
    "a negative size": (Code.SIZE, lambda c: c.held[0].__setitem__(0, -3)),
    "a large size": (Code.SIZE, lambda c: c.held[0].__setitem__(0, c_calls.LARGEST + 1)),
    "another size": (Code.SHAPE, lambda c: c.held[0].__setitem__(0, 4)),
    "another shape": (Code.SHAPE, lambda c: first(c).shape.__setitem__(1, 5)),
    "another shape of the output": (Code.SHAPE, lambda c: output(c).shape.__setitem__(1, 4)),
    "another rank": (Code.RANK, lambda c: setattr(first(c), "rank", 3)),
    "another dtype": (Code.DTYPE, lambda c: setattr(first(c), "dtype", 13)),
    "an input not aligned": (Code.ALIGNMENT, lambda c: moved(c, first(c), 2)),
    "an output not aligned": (Code.ALIGNMENT, lambda c: moved(c, output(c), 1)),
    "a workspace not aligned": (Code.ALIGNMENT, lambda c: setattr(c, "workspace", c.workspace + 8)),
    "a small workspace": (Code.WORKSPACE, lambda c: setattr(c, "workspace_bytes", 63)),
    "an output over an input": (Code.OVERLAP, over),
    "an output in the workspace": (Code.OVERLAP, lambda c: setattr(c, "workspace", output(c).data)),
    "an index out of range": (Code.INDEX, outside),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_returns_its_code(name: str, library: Library) -> None:
    code, change = WRONG[name]
    call = library.call()
    call.held = (*call.held, library)
    assert library.run(call) == Code.OK
    change(call)
    assert library.run(call) == code
    assert library.native.model_error(code).decode() == MESSAGES[code]


def test_no_call_at_all(library: Library) -> None:
    assert library.run(None) == Code.NULL
    assert library.native.model_workspace(None, 1) == -Code.NULL
    assert library.native.model_workspace(None, 0) == -Code.COUNT
    assert library.native.model_shapes(None, 1, None) == Code.NULL


@pytest.mark.parametrize("code", [-1, len(Code), 1 << 30])
def test_other_codes_have_a_message_too(code: int, library: Library) -> None:
    assert library.native.model_error(code).decode() == UNKNOWN


def test_every_code_is_on_the_page() -> None:
    page = TEXTS["docs/how_to/deploy/native_library.md"]
    assert [code for code in Code if f"`FUSEWIRE_{code.name}`" not in page] == []


def test_every_code_is_met_here() -> None:
    elsewhere = {Code.OK, Code.MEMORY, Code.WEIGHTS, Code.FILE, Code.NUMBER}
    assert {code for code, _ in WRONG.values()} | elsewhere == set(Code)


def test_many_wrong_calls_never_crash(path: Path) -> None:
    done = subprocess.run([sys.executable, c_calls.__file__, path, "1", "20000"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout)
    assert set(found) <= set(map(int, Code)) and len(found) > 8
    assert found[Code.OK] < 0.3 * sum(found.values())


def test_weights_of_others_are_refused(tmp_path: Path) -> None:
    build(tmp_path, weights="beside")
    raw = (tmp_path / "model.weights").read_bytes()
    weights = aligned(len(raw))
    weights[:] = np.frombuffer(raw, np.uint8)
    library = Library(str(tmp_path / "model.so"), weights)

    def check(bytes: int = len(raw), moved: int = 0) -> int:
        return int(library.native.model_check_weights(
            c_calls._P(weights.ctypes.data + moved), c_calls._N(bytes)))

    assert library.run(library.call()) == check() == Code.OK
    assert check(bytes=len(raw) - 1) == Code.WEIGHTS
    assert check(moved=8) == Code.ALIGNMENT
    weights[-1] ^= 1  # a call trusts what is behind the beginning
    assert library.run(library.call()) == Code.OK and check() == Code.WEIGHTS
    weights[-1] ^= 1
    for place in (0, 20, 33, 50):
        weights[place] ^= 1
        assert library.run(library.call()) == check() == Code.WEIGHTS
        weights[place] ^= 1
    call = library.call()
    call.weights = None
    assert library.run(call) == Code.NULL


def test_files_of_weights_that_are_not_there_or_damaged(tmp_path: Path) -> None:
    build(tmp_path, weights="beside")
    (tmp_path / "opens.c").write_text("""
        #include "model.h"
        int main(int argc, char **argv) {
          const void *weights = NULL;
          int64_t bytes = 0;
          int code = model_map_weights(argc > 1 ? argv[1] : NULL, &weights, &bytes);
          if (code == FUSEWIRE_OK && bytes != MODEL_WEIGHTS) return 99;
          model_unmap_weights(weights, bytes);
          return code;
        }""")
    command("cc", *STRICT, "opens.c", "model.o", "-lm", "-o", "opens", folder=tmp_path)
    raw = (tmp_path / "model.weights").read_bytes()
    (tmp_path / "short").write_bytes(raw[:-1])
    (tmp_path / "changed").write_bytes(raw[:-9] + b"x" + raw[-8:])
    (tmp_path / "empty").write_bytes(b"")

    def code(*words: str) -> int:
        return subprocess.run([tmp_path / "opens", *words], cwd=tmp_path).returncode

    assert code("model.weights") == Code.OK
    assert code() == Code.NULL
    assert code("nowhere") == Code.FILE
    assert {code(name) for name in ("short", "changed", "empty", "model.h")} == {Code.WEIGHTS}
