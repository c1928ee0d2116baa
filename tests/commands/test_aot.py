"""`fusewire aot`: models and functions as libraries; tests/aot calls such libraries from C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_a_model(call: Any, model: Any) -> None:
    Path("build").mkdir()
    done = call("aot", model[0], "--out", "build/scorer", "--no-library")
    assert done.status == 0 and "in   rows: float32[batch, 4]" in done.out
    assert {p.name for p in Path("build").iterdir()} == {"scorer.o", "scorer.h"}
    assert "scorer" in Path("build/scorer.h").read_text(encoding="utf-8")


def test_a_function_of_a_file(call: Any, net: Path) -> None:
    found = call("aot", "net.py:Net", "--out", "net", "--input", "x=float32[batch,4]", "--beside",
                 "--no-library", "--sizes", "batch=1", "--max", "batch=16", "--json").json
    assert found["inputs"] == ["x: float32[batch, 4]"]
    assert found["sizes"] == ["for batch = 1", "for batch from 1 to 16"]
    assert {"net.o", "net.h", "net.weights"} == found["files"].keys()
    assert all(Path(file).stat().st_size == size for file, size in found["files"].items())


def test_for_another_processor(call: Any, model: Any) -> None:
    done = call("aot", model[0], "--out", "arm", "--target", "aarch64", "--no-library")
    assert done.status == 0 and "(aarch64-" in done.out
    assert Path("arm.o").read_bytes()[18:20] == b"\xb7\x00"  # EM_AARCH64 of an ELF file


@pytest.mark.parametrize(("arguments", "status", "says"), [
    (["--target", "sparc"], 1, "no code is generated for 'sparc'"),
    (["--out", "a-b"], 1, "'a-b' cannot be the prefix of C functions"),
    (["--sizes", "rows=3"], 2, "no argument has a size 'rows'\n  help: the sizes are batch"),
    (["--max", "rows=3"], 1, "max_sizes names rows"),
    (["--sizes", "3"], 2, "write it like batch=8"),
])
def test_what_makes_no_sense(call: Any, model: Any, arguments: list[str], status: int, says: str
                             ) -> None:
    done = call("aot", model[0], "--out", "x", *arguments)
    assert (done.status, done.out) == (status, "") and says in done.err
