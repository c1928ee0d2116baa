"""Who runs an op: NumPy directly, or an interpreter that an upper layer has installed here."""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Interpreter(Protocol):
    """What an upper layer (a recorder, a graph builder) provides; all ops pass through it."""

    def apply(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The tensor that `op` gives."""

    def shape(self, tensor: Any) -> tuple[Any, ...]:
        """The shape to show to user code: sizes may be symbolic."""

    def source(self, tensor: Any) -> None:
        """A tensor was made from Python values."""

    def changed(self, tensor: Any) -> None:
        """A tensor is about to get a new array."""

    def reads_grad(self, tensor: Any) -> None:
        """The gradient of a tensor is about to be read."""

    def sets_grad(self, tensor: Any) -> None:
        """The gradient of a tensor is about to be set."""

    def leaves(self, tensor: Any, how: str) -> None:
        """The values of a tensor are about to be read by Python code."""


in_use = 0  # how many threads have an interpreter: while 0, ops need not ask for theirs
_LOCK = threading.Lock()


class _State(threading.local):
    """The interpreter of each thread."""

    _active: Interpreter | None = None

    @property
    def active(self) -> Interpreter | None:
        """None: plain eager."""
        return self._active

    @active.setter
    def active(self, value: Interpreter | None) -> None:
        global in_use
        with _LOCK:
            in_use += (value is not None) - (self._active is not None)
        self._active = value


STATE = _State()


def source(tensor: Any) -> Any:
    """Tells the interpreter of a tensor made from Python values, and returns it."""
    if STATE.active is not None:
        STATE.active.source(tensor)
    return tensor
