"""Saves and loads the state of optimizers under PyTorch's names and shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ... import interpreter
from ...autograd.hooks import RemovableHandle
from ...core.tape import no_grad
from ...core.tensor import Tensor, value_of
from ...errors import DTypeError, StateError
from ...nn.base.state import as_tensor, listed
from ...tensor_methods.methods import update
from ...uninterrupted import Uninterrupted
from .groups import stored
from .step_numbers import number

State = dict[str, Any]


class ParameterState(NamedTuple):
    """A parameter, its number in the state dict, its saved state and its first state."""

    p: Tensor
    number: Any
    saved: State
    first: State


class Calls:
    """Tells schedulers if a step was made. It is not part of the state, so traces ignore it."""

    __slots__ = ("stepped",)
    __captured__ = ()

    def __init__(self) -> None:
        self.stepped = False


class StateDictMixin:
    """Saves and loads the state of an optimizer, and calls its hooks."""

    counts: tuple[str, ...]
    hidden: tuple[str, ...]
    param_groups: list[Any]
    state: dict[Tensor, State]

    def __init__(self) -> None:
        self._hooks: dict[str, dict[int, Any]] = {}  # by kind, then by the id of their handle
        self.calls = Calls()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_hooks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        StateDictMixin.__init__(self)
        self.__dict__.update(state)

    # ---- defined by optimizers
    def _first_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of `p` before the first step: names, with the number that fills each tensor."""
        return {}

    def _shape_of(self, p: Tensor, name: str) -> Any:
        return () if name in self.counts else p.shape

    def _begin(self, group: Any) -> None:
        """Creates the state that parameters lack."""

    # ---- saving
    def state_dict(self) -> dict[str, Any]:
        """A snapshot: {"state": {number of a parameter: its tensors}, "param_groups": settings}.

        Settings are Python numbers. A parameter has an entry after its first step.
        """
        for hook in self._hooks_of("before_save"):
            hook(self)
        groups: list[Any] = []
        states: dict[int, State] = {}
        for group in self.param_groups:
            settings = {k: number(v, False) for k, v in group.items() if k != "params"}
            numbers = range(len(states), len(states) + len(group["params"]))
            states |= {i: self._saved(p, settings) for i, p in zip(numbers, group["params"])}
            groups.append({**settings, "params": list(numbers)})
        saved = {"state": {i: s for i, s in states.items() if s}, "param_groups": groups}
        for hook in self._hooks_of("after_save"):
            saved = hook(self, saved) or saved
        return saved

    def _saved(self, p: Tensor, settings: dict[str, Any]) -> State:
        """A snapshot of the state of a parameter."""
        state = self.state.get(p, {})
        if isinstance(state.get("step"), Tensor) and state["step"].item() == 0:
            return {}
        names = self._first_state(p, settings) or state
        return {k: _snapshot(state[k]) for k in names if k in state and k not in self.hidden}

    # ---- loading
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads settings and state; state dicts of PyTorch's optimizers fit as well.

        If it raises, the optimizer is unchanged.

        Raises:
            DTypeError: not a dict.
            StateError: groups, names or shapes differ from those of this optimizer.
        """
        if not isinstance(state_dict, Mapping):
            raise DTypeError(f"load_state_dict takes a result of state_dict(), not "
                             f"{type(state_dict).__name__}", "fw.load(path) reads one from a file")
        loaded = dict(state_dict)
        for hook in self._hooks_of("before_load"):
            loaded = hook(self, loaded) or loaded
        matches = self._match_parameters(loaded)
        _check(type(self).__name__, [line for match in matches for line in self._problems(match)])
        with Uninterrupted(), no_grad():
            for group, old in zip(self.param_groups, loaded["param_groups"]):
                _load_settings(group, old)
                self._begin(group)
            shared: dict[Any, Any] = {}
            for match in matches:
                self._load_state(match, shared)
        for hook in self._hooks_of("after_load"):
            hook(self)

    def _match_parameters(self, loaded: dict[str, Any]) -> list[ParameterState]:
        """Pairs each parameter with its entry in a state dict."""
        saved = loaded["param_groups"]
        ours = [len(g["params"]) for g in self.param_groups]
        theirs = [len(g["params"]) for g in saved]
        if ours != theirs:
            raise StateError(f"{type(self).__name__}: the state was saved for groups of {theirs} "
                             f"parameters, this optimizer has groups of {ours}")
        matches = []
        for group, old in zip(self.param_groups, saved):
            settings = {k: number(v, False) for k, v in {**group, **old}.items() if k != "params"}
            for p, i in zip(group["params"], old["params"]):
                state = {k: v for k, v in loaded["state"].get(i, {}).items() if v is not None}
                if state:  # only a parameter that has stepped has a state
                    state = dict.fromkeys(self.hidden, 1.0) | state
                matches.append(ParameterState(p, i, state, self._first_state(p, settings)))
        return matches

    def _problems(self, one: ParameterState) -> list[str]:
        """A line for each saved name or shape that does not fit."""
        p, i, saved, first = one
        if not saved or not first:
            return []
        missing = [name for name in first if name not in saved]
        unexpected = [name for name in saved if name not in first]
        lines = listed("missing", missing, unexpected) + listed("unexpected", unexpected, missing)
        for name in first:
            shape, expected = tuple(getattr(saved.get(name), "shape", ())), self._shape_of(p, name)
            if name in saved and shape != expected:
                lines.append(f"{name} has shape {shape}, it needs {tuple(expected)}")
        return [f"parameter {i} of shape {p.shape}: {line}" for line in lines]

    def _load_state(self, one: ParameterState, shared: dict[Any, Any]) -> None:
        """Sets the state of a parameter, in place, to the saved one, or else to the first state.

        Equal counts share an array, so a trace computes once what depends on them.
        """
        state = self.state[one.p]
        for name, value in (one.first or one.saved).items():
            value = one.saved.get(name, value)
            if not isinstance(state.get(name), Tensor):
                state[name] = Tensor(value._data) if isinstance(value, Tensor) else _snapshot(value)
                continue
            update(state[name], as_tensor(value))
            if name in self.counts and interpreter.STATE.active is None:
                array = state[name]._data
                state[name]._data = shared.setdefault((name, array.item()), array)

    # ---- hooks
    def _hooks_of(self, kind: str) -> list[Any]:
        return list(self._hooks[kind].values()) if kind in self._hooks else []

    def _add_hook(self, kind: str, hook: Any, prepend: bool = False) -> RemovableHandle:
        return RemovableHandle(self._hooks.setdefault(kind, {}), hook, prepend)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Registers `hook(optimizer, args, kwargs)` to run before each step; returns its handle.

        The arguments are those of `step`, the optimizer first. The hook may return another pair
        (args, kwargs).
        """
        return self._add_hook("before_step", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Registers `hook(optimizer, args, kwargs)` to run after each step; returns its handle."""
        return self._add_hook("after_step", hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Registers `hook(optimizer)` to run before the state is saved; returns its handle."""
        return self._add_hook("before_save", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Registers `hook(optimizer, state_dict)` to run after the state is saved.

        The hook may return another dict. Returns its handle.
        """
        return self._add_hook("after_save", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Registers `hook(optimizer, state_dict)` to run before a state is loaded.

        The hook may return another dict to load. Returns its handle.
        """
        return self._add_hook("before_load", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Registers `hook(optimizer)` to run after a state was loaded; returns its handle."""
        return self._add_hook("after_load", hook, prepend)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step`, a method of an optimizer, with the hooks called around it."""

    @functools.wraps(step)
    def hooked(self: StateDictMixin, *args: Any, **kwargs: Any) -> Any:
        self.calls.stepped = True
        if not self._hooks:
            return step(self, *args, **kwargs)
        for hook in self._hooks_of("before_step"):
            replacement = hook(self, (self, *args), kwargs)
            if replacement is not None:
                (_, *args), kwargs = replacement  # type: ignore[assignment]
        out = step(self, *args, **kwargs)
        for hook in self._hooks_of("after_step"):
            hook(self, (self, *args), kwargs)
        return out

    return hooked


def _snapshot(value: Any) -> Any:
    """A copy of `value` that later steps leave alone: tensors change, and lists of them grow."""
    if isinstance(value, (list, tuple)):
        return type(value)(_snapshot(v) for v in value)
    return value_of(value) if isinstance(value, Tensor) else value


def _check(owner: str, problems: list[str]) -> None:
    if problems:
        raise StateError(f"the state dict does not fit {owner}:\n    " + "\n    ".join(problems),
                         "it must come from an optimizer of this class, with its parameters in the "
                         "same order")


def _load_settings(group: Any, saved: dict[str, Any]) -> None:
    for name, value in saved.items():
        old = stored(group).get(name)
        if isinstance(old, Tensor):
            update(old, value)
        elif name != "params":
            group[name] = tuple(value) if isinstance(old, tuple) else value
