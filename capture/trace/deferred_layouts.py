"""Defers questions about the layout of tensors until a write depends on the answer."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ref

from ...eager.core.tensor import Tensor
from ...eager.core.views import root_of


class _Reshape(NamedTuple):
    """A reshape that is a view of a root for sizes of 0 or 1, and perhaps a copy for others."""

    root: ref[Tensor]
    out: ref[Tensor]
    size: Any


class DeferredLayouts:
    """The reshapes of a run that may be views or copies. Values do not depend on that until one of
    the two tensors changes."""

    def __init__(self) -> None:
        self._reshapes: list[_Reshape] = []

    def add(self, x: Tensor, out: Tensor, size: Any) -> None:
        """Notes that `out` is a reshape of `x`, and a view if this symbolic size is 0 or 1."""
        self._reshapes.append(_Reshape(ref(root_of(x)), ref(out), size))

    def before_change(self, tensor: Tensor) -> None:
        """Guards the layout of the reshapes that share elements with `tensor`, or would."""
        if self._reshapes:
            root, reshapes = root_of(tensor), self._reshapes
            self._reshapes = []
            for reshape in reshapes:
                out = reshape.out()
                if root is reshape.root() or (out is not None and root is root_of(out)):
                    bool(reshape.size < 2)  # the comparison becomes a condition
                else:
                    self._reshapes.append(reshape)
