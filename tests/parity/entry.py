"""What an entry of the table is: a function of ours beside PyTorch's, and the inputs of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from inputs import Input, path

import fusewire as fw

# Letters of `Entry.kinds`: the dtypes that an entry's values are compared in.
KINDS = {"f": ("float32", "float64"), "h": ("float16", "bfloat16"),
         "c": ("complex64", "complex128"), "i": ("int64", "int32", "int16", "int8"),
         "u": ("uint8",), "b": ("bool",)}


@dataclass(frozen=True, eq=False)
class Entry:
    """A way of calling the public function `name`, and how PyTorch says the same."""

    name: str  # as in fusewire: "sin", "linalg.solve"
    family: str
    inputs: tuple[tuple[Input, ...], ...]  # each makes one call
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    label: str = ""
    kinds: str = "fh"
    grad: bool = True  # gradients are compared, of all inputs of the dtype that is run
    loose: float = 1.0  # how much larger differences may be than usually
    differs: Mapping[str, str] = field(default_factory=dict)  # "dtype" or a column: why
    only: tuple[str, ...] = ()  # columns, where another entry of the function has the others
    each: bool = False  # differences are shares of each element, not of the largest

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


class Table(list[Entry]):
    """Entries of one family, entered by calls."""

    def __init__(self, family: str) -> None:
        self.family = family

    def __call__(self, name: str, *inputs: Any, ours: Any = None, theirs: Any = None,
                 label: str = "", also: Any = (), more: Mapping[str, Any] | None = None,
                 **how: Any) -> None:
        """Enters `name` called with `inputs`.

        `ours` and `theirs` are functions of the tensors, or nothing where the name (for `theirs` a
        string: another name in torch) and the keywords `more` say it. `also`: further inputs.
        """
        more = dict(more or {})
        every = tuple(tuple(i) for i in (inputs, *also))
        how["differs"] = how.get("differs") or {}
        self.append(Entry(name, self.family, every, ours or named(fw, name, more),
                          theirs if callable(theirs) else named(torch, theirs or name, more),
                          label or ", ".join(f"{k}={v}" for k, v in more.items()), **how))


def named(root: Any, name: str, more: Mapping[str, Any]) -> Callable[..., Any]:
    """root.name(*tensors, **more), looked up when it is called."""
    return lambda *xs: path(root, name)(*xs, **more)
