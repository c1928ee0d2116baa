"""Saves the state of a module as a dict of names to tensors, and loads it."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...autograd.hooks import RemovableHandle
from ...core.in_place import replace
from ...core.tape import no_grad
from ...core.tensor import Tensor, tensor, value_of
from ...errors import DTypeError, FusewireError, StateError
from ...tensor_methods.dlpack import from_dlpack
from ...tensor_methods.methods import update
from ...uninterrupted import Uninterrupted
from .parameter import Parameter, is_lazy

_EXTRA = "_extra_state"
MAX_PAIRS_TO_COMPARE = 1 << 14  # of names: with more, errors name no nearest ones


class Loaded(NamedTuple):
    """The names that a state dict lacked, and the names in it that the model lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"Loaded(missing_keys={self[0]}, unexpected_keys={self[1]})"


class StateHooks:
    """Functions called around saving and loading the state of one module."""

    def __init__(self) -> None:
        self.before_save: dict[int, Any] = {}
        self.after_save: dict[int, Any] = {}
        self.before_load: dict[int, Any] = {}
        self.after_load: dict[int, Any] = {}


class Stateful:
    """The methods of `Module` that save and load its state."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_hooks: StateHooks | None = None
    _version = 1  # of the names and meanings of a class's state, for its _load_from_state_dict

    # ---- what a class may define
    def get_extra_state(self) -> Any:
        """The state of this module beside its tensors; a class may define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Restores the state that `get_extra_state` returned; a class defines both or neither."""
        raise NotImplementedError(f"{type(self).__name__} does not define set_extra_state")

    # ---- saving
    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
                   ) -> dict[str, Any]:
        """A dict of dotted names to views of all parameters and persistent buffers, off the tape.

        The views change with the model: `copy.deepcopy` keeps the values of now.
        `_metadata` of the result holds the versions of the modules' classes.

        Args:
            destination: a dict to fill and return. Default None: a new one.
            prefix: precedes each name. Default "".
            keep_vars: True returns the parameters and buffers themselves. Default False.
        """
        state: Any = OrderedDict() if destination is None else destination
        if destination is None:
            state._metadata = {}
        metadata = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = metadata
        for hook in _each(self, "before_save"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in _each(self, "after_save"):
            hook(self, state, prefix, metadata)
        return state  # type: ignore[no-any-return]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Stores the state of this module, without its children, in `destination`."""
        for name, value in self._own_state():
            destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
        if _has_extra(self):
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _own_state(self) -> list[tuple[str, Any]]:
        persistent = [(name, value) for name, value in self._buffers.items()
                      if name not in self._non_persistent_buffers_set]
        return [(name, x) for name, x in (*self._parameters.items(), *persistent) if x is not None]

    # ---- loading
    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Loaded:
        """The names that did not match, after all parameters and buffers took their new values.

        After an error the model is unchanged.

        Args:
            state_dict: a dict of dotted names to tensors, arrays or numbers.
            strict: missing and unexpected names are errors. Default True.
            assign: True replaces the model's tensors by the new ones; False copies the values and
                casts them to the dtypes of the model. Default False.

        Raises:
            DTypeError: state_dict is not a dict.
            StateError: a value has another shape, or with strict a name does not match.
        """
        if not isinstance(state_dict, Mapping):
            raise DTypeError(f"load_state_dict takes a dict of names to tensors, not "
                             f"{type(state_dict).__name__}", _whole_object(state_dict))
        before, load = SavedValues(self), _Load(state_dict, assign)
        with Uninterrupted() as section:
            try:
                section.open = True
                with no_grad():
                    load.into(self, "", dict(state_dict))
                load.check(type(self).__name__, strict)
                section.open = False
            except BaseException:
                section.open = False
                before.restore()
                raise
        return load.loaded

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        """Loads the state of this module, without its children; adds mismatches to the lists.

        A class that reads older names changes `state_dict` and calls this. `local_metadata` holds
        the "version" of the class that saved the state, if the state has it, and as
        "assign_to_params_buffers" the `assign` of load_state_dict.
        """
        for hook in _each(self, "before_load"):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self._own_state())
        for name, old in own.items():
            if prefix + name in state_dict:
                self._load_one(name, old, state_dict[prefix + name], prefix, assign, error_msgs)
            elif strict:
                missing_keys.append(prefix + name)
        if _has_extra(self) and prefix + _EXTRA in state_dict:
            self.set_extra_state(state_dict[prefix + _EXTRA])
        elif _has_extra(self) and strict:
            missing_keys.append(prefix + _EXTRA)
        if strict:
            unexpected_keys += _unexpected_names(self, own, state_dict, prefix)

    def _load_one(self, name: str, old: Tensor, value: Any, prefix: str, assign: bool,
                  error_msgs: list[str]) -> None:
        try:
            new = as_tensor(value)
        except FusewireError:
            error_msgs.append(f"{prefix}{name}: {type(value).__name__} in the state dict, a tensor "
                              "in the model")
            return
        if is_lazy(old) or is_lazy(new):  # a lazy module took its shapes from the state before this
            if is_lazy(old) is not is_lazy(new):
                where = "model" if is_lazy(old) else "state dict"
                error_msgs.append(f"{prefix}{name}: it has no shape yet in the {where}")
            return
        if old.shape == () and new.shape == (1,):
            new = new.reshape(())  # as older versions of PyTorch saved single numbers
        if new.shape != old.shape:
            error_msgs.append(_other_shape(prefix + name, new, old))
        elif assign:
            self._assign(name, old, new)
        else:
            update(old, new)

    def _assign(self, name: str, old: Tensor, new: Tensor) -> None:
        if name in self._buffers:
            self._buffers[name] = new
        elif isinstance(new, Parameter):
            self._parameters[name] = new
        else:
            self._parameters[name] = Parameter(new, requires_grad=old.requires_grad)

    # ---- hooks
    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The handle of hook(module, prefix, keep_vars), called before the state is saved."""
        return RemovableHandle(self._with_state_hooks().before_save, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The handle of hook(module, state_dict, prefix, local_metadata), called after saving.

        It may change the state dict in place.
        """
        return RemovableHandle(self._with_state_hooks().after_save, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The handle of a function called before this module itself is loaded.

        hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs) may change the state dict, a copy of the one given, and the lists.
        """
        return RemovableHandle(self._with_state_hooks().before_load, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The handle of hook(module, names), called after this module and all below were loaded.

        names.missing_keys and names.unexpected_keys are lists that it may change.
        """
        return RemovableHandle(self._with_state_hooks().after_load, hook)

    def _with_state_hooks(self) -> StateHooks:
        if self._state_hooks is None:
            object.__setattr__(self, "_state_hooks", StateHooks())
        return self._state_hooks  # type: ignore[return-value]


class _Load:
    """One call of load_state_dict: collects the mismatches."""

    def __init__(self, state_dict: Any, assign: bool) -> None:
        self.assign = assign
        self._metadata = getattr(state_dict, "_metadata", {})
        self._state = state_dict
        self.loaded = Loaded([], [])
        self.errors: list[str] = []

    def into(self, module: Any, prefix: str, state: dict[str, Any]) -> None:
        """Loads `module` and all modules below from `state`, whose names begin with `prefix`."""
        metadata = dict(self._metadata.get(prefix[:-1], {}))
        if self.assign:
            metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(state, prefix, metadata, True, *self.loaded, self.errors)
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                self.into(child, below, {k: v for k, v in state.items() if k.startswith(below)})
        for hook in _each(module, "after_load"):
            hook(module, self.loaded)

    def check(self, model: str, strict: bool) -> None:
        """Raises a StateError that lists the mismatches, if there are any."""
        missing, unexpected = self.loaded
        problems = list(self.errors)
        if strict:
            problems += listed("missing", missing, unexpected)
            problems += listed("unexpected", unexpected, missing)
        if problems:
            help = _advice(missing, unexpected if strict else [], self._state)
            raise StateError(f"the state dict does not fit {model}:\n    "
                             + "\n    ".join(problems), help)


class SavedValues:
    """The tensors of a model and their values, for a later `restore`: arrays never change."""

    def __init__(self, model: Any) -> None:
        self._tables = [(table, dict(table)) for module in model.modules()
                        for table in (module._parameters, module._buffers)]
        self._values = [(x, value_of(x)) for _, held in self._tables for x in held.values()
                        if x is not None and not is_lazy(x)]

    def restore(self) -> None:
        """Restores all tensors and their values."""
        for table, held in self._tables:
            table.clear()
            table.update(held)
        with no_grad():
            for x, value in self._values:
                if x._data is not value._data:
                    replace(x, value)


def as_tensor(value: Any) -> Tensor:
    """`value` as a tensor: itself, or a copy of an array, a number or a foreign tensor."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        return from_dlpack(value.detach() if hasattr(value, "detach") else value, copy=True)
    return tensor(value)


def _each(module: Any, kind: str) -> list[Any]:
    hooks = module._state_hooks
    return [] if hooks is None else list(getattr(hooks, kind).values())


def _has_extra(module: Any) -> bool:
    return type(module).get_extra_state is not Stateful.get_extra_state


def _unexpected_names(module: Any, own: Any, state: Any, prefix: str) -> list[str]:
    """The names below `prefix` that belong neither to this module nor to its children."""
    unexpected = []
    for key in state:
        name = key[len(prefix):]
        if not key.startswith(prefix) or (name == _EXTRA and _has_extra(module)):
            continue
        first, dot, _ = name.partition(".")
        if name not in own and not (dot and module._modules.get(first) is not None):
            unexpected.append(key)
    return unexpected


# ---- texts of errors
def _other_shape(name: str, new: Tensor, old: Tensor) -> str:
    text = f"shape of {name}: {new.shape} in the state dict, {old.shape} in the model"
    differ = [i for i, (a, b) in enumerate(zip(new.shape, old.shape)) if a != b]
    if len(new.shape) == len(old.shape) and len(differ) == 1 and len(old.shape) > 1:
        text += f", which differ in axis {differ[0]}"
    elif tuple(new.shape) == tuple(old.shape[::-1]):
        text += "; is it transposed?"
    return text


def listed(kind: str, names: list[str], others: Iterable[str]) -> list[str]:
    """A line for each name, with the nearest of the `others` as a suggestion."""
    others = list(others)
    few = len(names) * len(others) <= MAX_PAIRS_TO_COMPARE
    lines = []
    for name in names:
        near = difflib.get_close_matches(name, others, n=1) if few else []
        lines.append(f"{kind}: {name}" + (f" (nearest: {near[0]})" if near else ""))
    return lines


def _advice(missing: list[str], unexpected: list[str], state: Any) -> str:
    """The help for a state dict that does not fit: it is part of a checkpoint, its names have a
    superfluous or missing prefix, or the model has other settings."""
    path = _inside(state, missing)
    if path:
        return f"this is a whole checkpoint: load its part state{path}"
    for names, others, change in ((unexpected, missing, "k.removeprefix({0!r}): v"),
                                  (missing, unexpected, "{0!r} + k: v")):
        prefix = _common_prefix(names)
        if prefix and {n.removeprefix(prefix) for n in names} & {*others}:
            source = "in the state dict" if names is unexpected else "of the model"
            changed = "{" + change.format(prefix) + " for k, v in state.items()}"
            return f"the names {source} begin with {prefix!r}: load {changed}"
    help = "create the model with the settings of the saved one"
    return f"{help}; strict=False leaves out names that do not match" if missing or unexpected \
        else f"{help}, or leave these names out of the state and pass strict=False"


def _inside(state: Any, names: list[str]) -> str:
    """The keys, as code, to a dictionary inside of `state` with one of the names; or no text."""
    for key, inner in state.items() if names else ():
        if isinstance(inner, dict):
            below = "" if names[0] in inner else _inside(inner, names)
            if below or names[0] in inner:
                return f"[{key!r}]{below}"
    return ""


def _common_prefix(names: list[str]) -> str:
    """The first part that all names share, with its dot, or an empty text."""
    first = {name.partition(".")[0] for name in names if "." in name}
    return f"{first.pop()}." if len(first) == 1 and all("." in n for n in names) else ""


def _whole_object(value: Any) -> str:
    if hasattr(value, "state_dict"):
        return "pass its state_dict()"
    return "fw.load(path) reads one from a file" if isinstance(value, str) else ""
