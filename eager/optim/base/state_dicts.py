"""State dicts of optimizers: PyTorch's names and shapes, so that either can go on from the other's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ... import interpreter
from ...autograd.hooks import RemovableHandle
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import DTypeError, StateError
from ...nn.base.state import as_tensor, listed
from ...tensor_methods.methods import update
from ...uninterrupted import Uninterrupted
from .groups import stored
from .step_numbers import number

State = dict[str, Any]


class ParameterState(NamedTuple):
    """A parameter, its number in the state dict, what that has for it, and what there should be."""

    p: Tensor
    number: Any
    saved: State
    first: State


class Calls:
    """What schedulers ask of the past; no part of the state, so recordings do not look at it."""

    __slots__ = ("stepped",)
    __captured__ = ()

    def __init__(self) -> None:
        self.stepped = False


class SavableState:
    """What an optimizer can do beside steps: save and load its state, and call hooks."""

    counts: tuple[str, ...]
    hidden: tuple[str, ...]
    param_groups: list[Any]
    state: dict[Tensor, State]

    def __init__(self) -> None:
        self._hooks: dict[str, dict[int, Any]] = {}  # by kind, those that there are
        self.calls = Calls()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_hooks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        SavableState.__init__(self)
        self.__dict__.update(state)

    # ---- what an optimizer says of its state
    def _first_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The names of what belongs to `p`, with the numbers they hold before the first step."""
        return {}

    def _shape_of(self, p: Tensor, name: str) -> Any:
        return () if name in self.counts else p.shape

    def _begin(self, group: Any) -> None:
        """Makes the state that parameters lack."""

    # ---- saving
    def state_dict(self) -> dict[str, Any]:
        """{"state": {number of a parameter: its tensors}, "param_groups": settings}, as of now.

        Settings are Python's numbers. A parameter that has made no step has no state yet.
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
        known = self._first_state(p, settings) or state
        return {k: _snapshot(state[k]) for k in known if k in state and k not in self.hidden}

    # ---- loading
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over settings and state, of PyTorch's optimizers too.

        StateError, and an optimizer as it was, where groups, names or shapes differ.
        """
        if not isinstance(state_dict, Mapping):
            raise DTypeError(f"load_state_dict takes what state_dict() gave, not "
                             f"{type(state_dict).__name__}", "fw.load(path) reads one from a file")
        given = dict(state_dict)
        for hook in self._hooks_of("before_load"):
            given = hook(self, given) or given
        found = self._found(given)
        _check(type(self).__name__, [line for one in found for line in self._problems(one)])
        with Uninterrupted(), no_grad():
            for group, old in zip(self.param_groups, given["param_groups"]):
                _load_settings(group, old)
                self._begin(group)
            shared: dict[Any, Any] = {}
            for one in found:
                self._load_state(one, shared)
        for hook in self._hooks_of("after_load"):
            hook(self)

    def _found(self, given: dict[str, Any]) -> list[ParameterState]:
        saved = given["param_groups"]
        ours = [len(g["params"]) for g in self.param_groups]
        theirs = [len(g["params"]) for g in saved]
        if ours != theirs:
            raise StateError(f"{type(self).__name__}: the state was saved for groups of {theirs} "
                             f"parameters, this optimizer has groups of {ours}")
        found = []
        for group, old in zip(self.param_groups, saved):
            settings = {k: number(v, False) for k, v in {**group, **old}.items() if k != "params"}
            for p, i in zip(group["params"], old["params"]):
                state = {k: v for k, v in given["state"].get(i, {}).items() if v is not None}
                if state:  # a parameter that has a state has made a step
                    state = dict.fromkeys(self.hidden, 1.0) | state
                found.append(ParameterState(p, i, state, self._first_state(p, settings)))
        return found

    def _problems(self, one: ParameterState) -> list[str]:
        """A line for each name of a saved state that does not fit; none where any names may be."""
        p, i, saved, first = one
        if not saved or not first:
            return []
        missing = [name for name in first if name not in saved]
        unexpected = [name for name in saved if name not in first]
        lines = listed("missing", missing, unexpected) + listed("unexpected", unexpected, missing)
        for name in first:
            shape, wanted = tuple(getattr(saved.get(name), "shape", ())), self._shape_of(p, name)
            if name in saved and shape != wanted:
                lines.append(f"{name} has shape {shape}, it needs {tuple(wanted)}")
        return [f"parameter {i} of shape {p.shape}: {line}" for line in lines]

    def _load_state(self, one: ParameterState, shared: dict[Any, Any]) -> None:
        """Sets the state of a parameter to what was saved, in place; to its beginning without.

        Equal counts share an array: what follows from them is then computed once in a recording.
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
        """The handle of hook(optimizer, args, kwargs), called before each step.

        The arguments are those of `step`, the optimizer first; it may return others, as a pair.
        """
        return self._add_hook("before_step", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The handle of hook(optimizer, args, kwargs), called after each step."""
        return self._add_hook("after_step", hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """The handle of hook(optimizer), called before the state is saved."""
        return self._add_hook("before_save", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """The handle of hook(optimizer, state_dict), which may return another state dict."""
        return self._add_hook("after_save", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """The handle of hook(optimizer, state_dict), which may return another one to be loaded."""
        return self._add_hook("before_load", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """The handle of hook(optimizer), called after a state was loaded."""
        return self._add_hook("after_load", hook, prepend)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The method `step` of an optimizer, with the hooks called around it."""

    @functools.wraps(step)
    def hooked(self: SavableState, *args: Any, **kwargs: Any) -> Any:
        self.calls.stepped = True
        if not self._hooks:
            return step(self, *args, **kwargs)
        for hook in self._hooks_of("before_step"):
            given = hook(self, (self, *args), kwargs)
            if given is not None:
                (_, *args), kwargs = given  # type: ignore[assignment]
        out = step(self, *args, **kwargs)
        for hook in self._hooks_of("after_step"):
            hook(self, (self, *args), kwargs)
        return out

    return hooked


def _snapshot(value: Any) -> Any:
    """`value` as it is now: tensors change, and lists of them grow."""
    if isinstance(value, (list, tuple)):
        return type(value)(_snapshot(v) for v in value)
    return value.detach() if isinstance(value, Tensor) else value


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
