"""Who runs an op: NumPy directly, or an interpreter that an upper layer has installed here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from .fork_safety import held_while_forking, in_child


class Interpreter(Protocol):
    """What an upper layer (a recorder, a graph builder) provides; all ops pass through it."""

    @property
    def can_read_values(self) -> bool:
        """Whether Python may ask what a value is: not where one graph is made for all values."""

    @property
    def keeps_layers(self) -> bool:
        """Whether a recurrent layer is to stay one op: where what runs becomes a model."""

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

    def reads_values(self, tensor: Any, how: str) -> Any:
        """The values of a tensor are about to be read by Python code; an array that is to be read
        in their place, or None."""

    def item(self, tensor: Any, value: Any) -> Any:
        """What `item()` gives for `value`, the one element: it, or something that stands for it."""

    def apply_data_dependent(self, op: Any, x: Any) -> Any:
        """The tensor that `op` gives for `x`, whose size only its values tell (`ops/measured.py`);
        None where that cannot be followed."""


class Symbol:
    """A number that an interpreter has made of `item()`, and what was computed from it."""

    __slots__ = ()

    def __tensor__(self, dtype: Any = None) -> Any:
        """The tensor of this number, by default in the dtype of its kind; None where it has to
        become a plain number first."""
        raise NotImplementedError

    def __cos__(self) -> Any:
        """Its cosine."""
        raise NotImplementedError

    def as_index(self) -> Any:
        """What stands for it in the brackets of x[...]: itself, or a tensor."""
        raise NotImplementedError


# While a function is recorded for export: the rows of a tensor that a frame begins to go through,
# or None where Python counts them.
rows: Callable[[Any, Any], Any] | None = None
in_use = 0  # how many threads have an interpreter or an autocast, and 1 once tensors may be on a
# GPU: while 0, ops need not ask
devices = 0  # that 1
_LOCK = held_while_forking(threading.Lock())


class _State(threading.local):
    """The interpreter and the autocast of each thread."""

    _active: Interpreter | None = None
    _casting: Any = None
    _casts = False  # also while the autocast is put aside, beneath an op that has passed it
    _limiting: Any = None
    _limits = False  # likewise
    _counted = 0  # what this thread adds to `in_use`

    def _count(self) -> None:
        """Counts this thread anew: Ctrl-C may have come in between the last time."""
        global in_use
        with _LOCK:
            now = (self._active is not None) + self._casts + self._limits
            in_use, self._counted = in_use + now - self._counted, now  # both or none

    @property
    def active(self) -> Interpreter | None:
        """None: plain eager."""
        return self._active

    @active.setter
    def active(self, value: Interpreter | None) -> None:
        self._active = value
        self._count()

    @property
    def casting(self) -> Any:
        """The Casting (see `casting.py`) that every op passes before the interpreter, or None."""
        return self._casting

    @casting.setter
    def casting(self, value: Any) -> None:
        self._casting, self._casts = value, value is not None
        self._count()


    @property
    def limiting(self) -> Any:
        """What every op passes first, which refuses those that take too much; or None."""
        return self._limiting

    @limiting.setter
    def limiting(self, value: Any) -> None:
        self._limiting, self._limits = value, value is not None
        self._count()


STATE = _State()


def count_devices() -> None:
    """From now on tensors may be on a GPU, so ops have to ask where theirs are."""
    global in_use, devices
    with _LOCK:
        in_use, devices = in_use + 1 - devices, 1


@in_child
def _forget_other_threads() -> None:
    global in_use
    STATE._counted = (STATE.active is not None) + STATE._casts + STATE._limits
    in_use = STATE._counted + devices


def set_casting(value: Any) -> Any:
    """Puts an autocast in force in this thread, or none; the one that was."""
    before = STATE._casting
    if value is not before:
        STATE.casting = value
    return before


def can_read_values() -> bool:
    """Whether code may look at values, to raise an error say: not where they stand for others."""
    return STATE.active is None or STATE.active.can_read_values


def keeps_layers() -> bool:
    """Whether a recurrent layer is to stay one op."""
    return STATE.active is not None and STATE.active.keeps_layers


def source(tensor: Any) -> Any:
    """Tells the interpreter of a tensor made from Python values, and returns it."""
    if STATE.active is not None:
        STATE.active.source(tensor)
    return tensor
