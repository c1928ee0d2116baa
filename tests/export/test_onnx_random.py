"""Random programs of decisions and loops are the same as models, whichever way inputs take.

More programs: `FUSEWIRE_TEST_PROGRAMS=1000 pytest tests/export/test_onnx_random.py`.
"""

from __future__ import annotations

import linecache
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "30"))
ASKED = ["a.sum() > 0", "b.max() < 1", "(a * b).mean() > 0.3", "a[0] < b[1]", "n < 2",
         "(a > b).any()", "a.sum().item() + n < 3"]
DONE = ["a = a * 0.5 + b", "b = b - 1", "a, b = b, a", "a = a + n", "b = fw.tanh(a) * 2", "n += 1",
        "a = b + 1", "b = b * 1.5"]
REFUSED = ("more than 64 paths", "change different variables on each path", "earlier iteration",
           "read outside of it")


def block(r: random.Random, depth: int, loops: int, indent: int) -> list[str]:
    """Some lines, with others inside; loops end after five turns."""
    out, space = [], "    " * indent
    for _ in range(r.randint(1, 3)):
        kind = r.random()
        if kind < 0.5 or depth == 0:
            out.append(space + r.choice(DONE))
        elif kind < 0.78:
            out += [f"{space}if {r.choice(ASKED)}:", *block(r, depth - 1, loops, indent + 1)]
            if r.random() < 0.5:
                out += [f"{space}else:", *block(r, depth - 1, loops, indent + 1)]
        elif kind < 0.92 and loops < 2:
            turns = f"turns_{indent}_{len(out)}"
            out += [f"{space}{turns} = 0", f"{space}while {r.choice(ASKED)}:",
                    f"{space}    {turns} += 1", f"{space}    if {turns} > 4:",
                    f"{space}        break", *block(r, depth - 1, loops + 1, indent + 1)]
        else:
            return [*out, space + (r.choice(["break", "continue"]) if loops else "return a - b, b")]
    return out


def program(seed: int) -> tuple[str, Callable[..., Any]]:
    lines = ["def f(a, b):", "    n = 0", *block(random.Random(seed), 3, 0, 1),
             "    return a, b + n", ""]
    source, name, scope = "\n".join(lines), f"<program {seed}>", {"fw": fw}
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), scope)
    return source, scope["f"]  # type: ignore[return-value]


@pytest.mark.parametrize("first", range(0, PROGRAMS, 10))
def test_programs(first: int, tmp_path: Path) -> None:
    written = 0
    for seed in range(first, first + 10):
        source, f = program(seed)
        rng = np.random.default_rng(seed)
        pairs = [tuple(fw.from_numpy((rng.standard_normal(3) * scale).astype(np.float32))
                       for _ in "ab") for scale in (1, 0.3, 1, 4) * 4]
        path = tmp_path / f"{seed}.onnx"
        try:
            export(f, pairs[0], path)
        except fw.ExportError as error:
            assert any(words in str(error) for words in REFUSED), f"{error}\n{source}"
            continue
        written += 1
        run = compare.runner(path.read_bytes()).run
        for a, b in pairs:
            have = run({"a": a.numpy(), "b": b.numpy()})
            for x, want in zip(have, f(a, b), strict=True):
                np.testing.assert_allclose(x, want.numpy(), 1e-4, 1e-4, err_msg=source)
    assert written >= 6
