"""The page docs/torch_ops.md: the ops that PyTorch tests, and fusewire's names of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch
from inputs import path
from torch.testing._internal.common_methods_invocations import op_db

import fusewire as fw

HEAD = """# The ops of PyTorch by fusewire's names

Written by `PYTHONPATH=tests python -m parity docs`. The rows are the {count} ops of `op_db`, the
list of ops that torch {version} tests: {same} have the same name in fusewire, {other} another one,
and {absent} are absent. [parity.md](parity.md) compares values and derivatives.

`fw.amax` and other names that are not ours raise an error that says which one is.
"""


def tables() -> list[ModuleType]:
    """The modules that hold the rows: SPELLED, ABSENT and perhaps NOTES, by names of `op_db`."""
    files = sorted(Path(__file__).parent.glob("op_db_*.py"))
    return [importlib.import_module(f"parity.{file.stem}") for file in files]


SPELLED: dict[str, str] = {}
ABSENT: dict[str, str] = {}
NOTES: dict[str, str] = {}
for _table in tables():
    SPELLED.update(_table.SPELLED)
    ABSENT.update(_table.ABSENT)
    NOTES.update(getattr(_table, "NOTES", {}))
OPS = sorted({op.name for op in op_db}, key=lambda name: (name.count("."), name.lower(), name))


def exists(name: str) -> bool:
    """True if fusewire has that name."""
    try:
        return path(fw, name) is not None
    except AttributeError:
        return False


def row(op: str) -> str:
    if op in ABSENT:
        return f"| `{op}` | – | {ABSENT[op]} |"
    return f"| `{op}` | `fw.{SPELLED[op]}` | {NOTES.get(op, '')} |"


def lines(ops: list[str]) -> Iterator[str]:
    yield "| torch | fusewire | |"
    yield "|---|---|---|"
    yield from (row(op) for op in ops)


def text() -> tuple[str, list[str]]:
    """The page, and the ops without a row or with a name that does not exist."""
    wrong = [op for op in OPS if op not in ABSENT and not exists(SPELLED.get(op, "-"))]
    ops = [op for op in OPS if op not in wrong]
    absent = [op for op in ops if op in ABSENT]
    spelled = [op for op in ops if op not in ABSENT]
    same = [op for op in spelled if SPELLED[op].removeprefix("Tensor.") == op]
    version = torch.__version__.partition("+")[0]
    head = HEAD.format(count=len(OPS), version=version, same=len(same), absent=len(absent),
                       other=len(spelled) - len(same))
    return "\n".join([head, "## Present", "", *lines(spelled), "", "## Absent", "",
                      *lines(absent), ""]), wrong
