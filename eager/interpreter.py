"""Holds the interpreter of each thread, to which ops go in the place of NumPy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from .fork_safety import held_while_forking, in_child


class Interpreter(Protocol):
    """The protocol of an interpreter, such as a tracer, that receives all ops of a thread."""

    @property
    def can_read_values(self) -> bool:
        """True if Python may read values; False if one graph stands for all values."""

    @property
    def keeps_layers(self) -> bool:
        """True if a recurrent layer stays one op, so that an exported model has it."""

    def apply(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The result of `op`."""

    def shape(self, tensor: Any) -> tuple[Any, ...]:
        """The shape that user code sees; sizes may be symbolic."""

    def note_constant(self, tensor: Any) -> None:
        """Announces a tensor made from Python values."""

    def changed(self, tensor: Any) -> None:
        """Announces that a tensor is about to get a new array."""

    def reads_grad(self, tensor: Any) -> None:
        """Announces that the gradient of a tensor is about to be read."""

    def sets_grad(self, tensor: Any) -> None:
        """Announces that the gradient of a tensor is about to be set."""

    def reads_values(self, tensor: Any, how: str) -> Any:
        """Announces that Python is about to read the values of a tensor.

        It returns an array to read in their place, or None.
        """

    def item(self, tensor: Any, value: Any) -> Any:
        """The result of `item()` on a tensor with the element `value`: it, or a symbol for it."""

    def apply_data_dependent(self, op: Any, x: Any) -> Any:
        """The result of `op`, whose size depends on the values of `x`; None if unsupported."""


class Symbol:
    """A number that an interpreter made of `item()`, or that was computed from one."""

    __slots__ = ()

    @property
    def is_stale(self) -> bool:
        """True for a number of an earlier iteration of a loop, which later ones cannot read."""
        return False

    def __tensor__(self, dtype: Any = None) -> Any:
        """This number as a tensor, by default in the dtype of its kind.

        None if it must become a plain number first.
        """
        raise NotImplementedError

    def __cos__(self) -> Any:
        """The cosine of this number."""
        raise NotImplementedError

    def as_index(self, size: Any) -> Any:
        """This number as an index into an axis of this size: itself, or a tensor if it is in range.
        """
        raise NotImplementedError

    def as_size(self) -> Any:
        """This number as a size: a symbolic size, or itself if it is no whole number."""
        raise NotImplementedError


class Rows:
    """A sequence of tensors of one type that an interpreter holds as one tensor."""

    size: Any  # the number of tensors, which may be symbolic

    def joined(self) -> Any:
        """The tensor with these tensors as rows; None if they are to be taken one by one."""
        raise NotImplementedError

    def give_up(self) -> list[Any]:
        """The tensors one by one, from now on."""
        raise NotImplementedError


# The number of interpreters, autocasts and limits of all threads, plus `devices`. While it is 0, an
# op goes straight to NumPy.
in_use = 0
devices = 0  # 1 once tensors may be on other devices than the CPU
_LOCK = held_while_forking(threading.Lock())


class _State(threading.local):
    """Holds the interpreter, the autocast and the limits of each thread."""

    _active: Interpreter | None = None
    _casting: Any = None
    _casts = False  # stays True beneath an op that has passed the autocast
    _limiting: Any = None
    _limits = False  # likewise
    _counted = 0  # the share of this thread in `in_use`

    def _count(self) -> None:
        """Updates the count of this thread in `in_use`, also after a Ctrl-C in between."""
        global in_use
        with _LOCK:
            now = (self._active is not None) + self._casts + self._limits
            in_use, self._counted = in_use + now - self._counted, now  # one statement: both or none

    @property
    def active(self) -> Interpreter | None:
        """The interpreter of this thread; None for plain eager."""
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
        """The object that every op passes first, to refuse ops above its limits; or None."""
        return self._limiting

    @limiting.setter
    def limiting(self, value: Any) -> None:
        self._limiting, self._limits = value, value is not None
        self._count()


STATE = _State()


def count_devices(some: bool = True) -> None:
    """Notes if tensors may be on other devices than the CPU, so that ops check their device."""
    global in_use, devices
    with _LOCK:
        in_use, devices = in_use + some - devices, int(some)


@in_child
def _forget_other_threads() -> None:
    global in_use
    STATE._counted = (STATE.active is not None) + STATE._casts + STATE._limits
    in_use = STATE._counted + devices


def set_casting(value: Any) -> Any:
    """Activates an autocast, or none, in this thread; returns the one before."""
    before = STATE._casting
    if value is not before:
        STATE.casting = value
    return before


def outside(fn: Callable[..., Any], /, *args: Any) -> Any:
    """fn(*args) without the active interpreter."""
    before, STATE.active = STATE.active, None
    try:
        return fn(*args)
    finally:
        STATE.active = before


def as_size(number: Any) -> Any:
    """A number as a size of a tensor or a limit of a slice: symbolic where it is symbolic."""
    return number.as_size() if isinstance(number, Symbol) else number


def can_read_values() -> bool:
    """True if code may read values, for example to raise an error about them."""
    return STATE.active is None or STATE.active.can_read_values


def keeps_layers() -> bool:
    """True if a recurrent layer stays one op."""
    return STATE.active is not None and STATE.active.keeps_layers


def note_constant(tensor: Any) -> Any:
    """Announces a tensor made from Python values to the interpreter, and returns it."""
    if STATE.active is not None:
        STATE.active.note_constant(tensor)
    return tensor
