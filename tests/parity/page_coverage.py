"""The page docs/appendix/coverage.md: PyTorch's public names, and those of `fusewire.torch`."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch
from parity.torch_ops import ABSENT, NOTES, SPELLED

import fusewire.torch as ours
from fusewire.eager.front import hints
from fusewire.eager.front.spellings.tables import SPELLINGS

HEAD = """# PyTorch's names in `fusewire.torch`

Written by `PYTHONPATH=tests python -m parity --only coverage.md` beside torch {version}. The
rows are the public names of PyTorch's modules of functions and classes. A name without a comment is
a function or class of plain fusewire with the same name. An expression of `fw` says which
function of plain fusewire computes it. Absent names raise an error that names the nearest one, and
so do PyTorch's names on plain `fw`. [Coming from PyTorch](../how_to/port/from_pytorch.md)
is about programs, [parity.md](parity.md) compares values and derivatives.

| space | names | present |
|---|---|---|
"""

REASONS = {  # a part of a name -> why names with it are absent
    "sparse": "there are no sparse tensors", "quantiz": "fw.quantize makes int8 models",
    "q_": "fw.quantize makes int8 models", "cudnn": "a part of PyTorch itself",
    "miopen": "a part of PyTorch itself", "mkldnn": "a part of PyTorch itself",
    "fbgemm": "a part of PyTorch itself", "_copy": "x.clone() of the view",
    "strided": "a tensor has no strides", "jit": "torch.compile traces functions",
    "Script": "torch.compile traces functions", "Storage": "memory has no object of its own",
    "storage": "memory has no object of its own", "sym_": "sizes are numbers",
    "Sym": "sizes are numbers", "batch_norm_": "a part of PyTorch itself",
    "autocast": "torch.autocast is a context", "resize": "sizes of memory are fixed",
    "vulkan": "devices are cpu and cuda", "mtia": "devices are cpu and cuda",
    "ipu": "devices are cpu and cuda", "xla": "devices are cpu and cuda",
    "maia": "devices are cpu and cuda", "xpu": "devices are cpu and cuda",
    "lu_": "torch.linalg.solve takes the matrix itself", "_ex": "errors are raised, without codes",
    "qr": "torch.linalg.qr has Q as a matrix", "Type": "a part of TorchScript",
    "parse_": "a part of TorchScript", "import_ir": "a part of TorchScript",
    "anomaly": "torch.autograd.set_detect_anomaly", "native_": "a part of PyTorch itself",
    "rnn": "torch.nn.RNN and its relatives", "gru": "torch.nn.GRU", "lstm": "torch.nn.LSTM",
    "nested": "there are no nested tensors", "cuda": "see torch.cuda",
    "foreach": "a part of PyTorch itself", "ldl": "NumPy's LAPACK has no LDL factors",
}
SPACES = ("", "nn", "nn.functional", "optim", "distributions", "linalg", "fft", "special",
          "Tensor")


def at(root: Any, path: str) -> Any:
    for part in path.split(".") if path else ():
        root = getattr(root, part)
    return root


def names(space: Any) -> list[str]:
    """The public names of a module or class of PyTorch."""
    listed = dir(space) if isinstance(space, type) else getattr(space, "__all__", dir(space))
    return sorted({n for n in listed if not n.startswith("_") and n[-2:] != "__"
                   and not isinstance(getattr(space, n, None), types.ModuleType)})


def has(space: Any, name: str) -> bool:
    try:
        return hasattr(space, name)
    except RuntimeError:
        return True


def reason(path: str, name: str) -> str:
    """Why a name is absent."""
    tested = ABSENT.get(f"{path}.{name}".removeprefix(".").removeprefix("Tensor."))
    if tested:
        return tested
    if name in hints.ABSENT:
        return hints.ABSENT[name]
    return next((why for part, why in REASONS.items() if part in name), "not ported")


def other_name(path: str, name: str) -> str:
    """The name in plain fusewire of an op that PyTorch tests, if it is another one."""
    op = f"{path}.{name}".removeprefix(".").removeprefix("Tensor.")
    plain = SPELLED.get(op, op)
    if path == "Tensor" or plain == op:
        return ""
    return f"`fw.{plain}`" + (f": {NOTES[op]}" if op in NOTES else "")


def rows(path: str) -> Iterator[tuple[str, bool, str]]:
    """The names of a space: whether they are there, and a comment."""
    kind = "m" if path == "Tensor" else "f"
    spelled = {s.name: s for s in SPELLINGS if kind in s.kinds and path in ("", "Tensor")}
    space, own = at(torch, path), at(ours, path)
    for name in names(space):
        if not has(own, name):
            yield name, False, reason(path, name)
        elif name in spelled:
            s = spelled[name]
            yield name, True, f"`{s.expression}`" + (f": {s.note}" if s.note else "")
        else:
            yield name, True, other_name(path, name)


def section(path: str) -> Iterator[str]:
    title = f"torch.{path}".rstrip(".")
    found = list(rows(path))
    same = [f"`{name}`" for name, there, comment in found if there and not comment]
    yield from (f"## {title}", "", "Same: " + ", ".join(same) + ".", "")
    spelled = [(name, comment) for name, there, comment in found if there and comment]
    if spelled:
        yield from ("| name | computed by |", "|---|---|")
        yield from (f"| `{name}` | {comment.replace('|', chr(92) + '|')} |"
                    for name, comment in spelled)
        yield ""
    absent: dict[str, list[str]] = {}
    for name, there, comment in found:
        if not there:
            absent.setdefault(comment, []).append(f"`{name}`")
    if absent:
        yield from ("| absent | reason |", "|---|---|")
        yield from (f"| {', '.join(them)} | {why} |" for why, them in sorted(absent.items()))
        yield ""


def text() -> tuple[str, list[str]]:
    """The page, and nothing that is wrong."""
    counts = [f"| `torch.{path}` | {len(found)} | {sum(there for _, there, _ in found)} |".replace(
        "torch.`", "torch`") for path in SPACES for found in [list(rows(path))]]
    head = HEAD.format(version=torch.__version__.partition("+")[0]) + "\n".join(counts)
    return "\n".join([head, "", *[line for path in SPACES for line in section(path)]]), []
