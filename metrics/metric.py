"""Defines the base of metrics: a state in tensors that updates add to and processes merge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fusewire as fw

State = fw.Tensor | list[fw.Tensor]


class Metric:
    """Base class of metrics: define `update` and `compute`.

    The state consists of attributes. A tensor is a sum; a list of tensors has an entry for each
    update. `merge` adds sums and joins lists, so the result is that of all samples at once. The
    state moves to the device of the first inputs.

    All other attributes are settings, which two metrics must share to be merged.

    Args:
        initial: the initial value of each part of the state: a tensor, or an empty list.

    Example:
        >>> import fusewire as fw
        >>> class Mean(fw.metrics.Metric):
        ...     def __init__(self):
        ...         super().__init__(total=fw.zeros((), dtype=fw.float64),
        ...                          count=fw.zeros((), dtype=fw.int64))
        ...     def update(self, x):
        ...         self.move(x.device)
        ...         self.total = self.total + x.sum()
        ...         self.count = self.count + x.size
        ...     def compute(self):
        ...         return self.total / self.needed(self.count)
        >>> first, second = Mean(), Mean()
        >>> first.update(fw.tensor([1.0, 2.0]))
        >>> second.update(fw.tensor([6.0]))
        >>> first.merge(second)
        >>> first.compute()
        tensor(3., dtype=float64)
    """

    def __init__(self, **initial: State) -> None:
        self._initial = initial
        self.reset()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch to the state."""
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def compute(self) -> Any:
        """The metric of all batches so far."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute")

    def reset(self) -> None:
        """Forgets all batches."""
        self._set({name: list(value) if isinstance(value, list) else value
                   for name, value in self._initial.items()})

    def merge(self, *others: Metric) -> None:
        """Adds the batches of other metrics, for example of other processes.

        A metric pickles, so a process can return it. `state_dict` also fits into `fw.save`.

        Raises:
            ArgumentError: another class, or other settings.
        """
        for other in others:
            self._check_mergeable(other)
            self._set({name: self._joined(name, other) for name in self._initial})

    def state_dict(self) -> dict[str, State]:
        """The parts of the state by their names."""
        return {name: getattr(self, name) for name in self._initial}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Replaces the state by a result of `state_dict`.

        Raises:
            StateError: a part is missing or unknown.
            ShapeError: a sum has another shape.
        """
        if set(state_dict) != set(self._initial):
            raise fw.StateError(f"{type(self).__name__}: the state has the keys "
                                f"{sorted(state_dict)}, expected {sorted(self._initial)}",
                                "pass a result of its state_dict()")
        for name, value in self._initial.items():
            new = state_dict[name]
            if isinstance(value, fw.Tensor) and new.shape != value.shape:
                raise fw.ShapeError(f"{type(self).__name__}: {name} has shape {value.shape}, the "
                                    f"state has {new.shape}", "make it with the same settings")
        self._set({name: list(new) if isinstance(new, (list, tuple)) else new
                   for name, new in state_dict.items()})

    def move(self, device: str) -> None:
        """Moves the sums to a device; the entries of lists stay where they are."""
        for name in self._initial:
            value = getattr(self, name)
            if isinstance(value, fw.Tensor) and value.device != device:
                setattr(self, name, value.to(device))

    def needed(self, count: fw.Tensor) -> fw.Tensor:
        """The count of samples, which must not be zero.

        Raises:
            StateError: it is zero, so there is nothing to compute.
        """
        if not bool((count > 0).any()):
            raise fw.StateError(f"{type(self).__name__}: there is no sample yet",
                                "call update before compute")
        return count

    def _set(self, state: Mapping[str, State]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def _joined(self, name: str, other: Metric) -> State:
        mine, theirs = getattr(self, name), getattr(other, name)
        if isinstance(mine, list):
            return [*mine, *theirs]
        return mine + theirs.to(mine.device)

    def _check_mergeable(self, other: Metric) -> None:
        if type(other) is not type(self) or other._settings() != self._settings():
            raise fw.ArgumentError(f"cannot merge {other!r} into {self!r}",
                                   "both need the same class and the same settings")

    def _settings(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items()
                if name != "_initial" and name not in self._initial}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        return f"{type(self).__name__}({settings})"


def counts(*shape: int) -> fw.Tensor:
    """Counts that begin at zero, int64 of the given shape."""
    return fw.zeros(shape, dtype=fw.int64)
