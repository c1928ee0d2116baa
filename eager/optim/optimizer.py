"""What all optimizers share: groups of parameters, state in tensors, saving and loading."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..dispatch import replace
from ..dtypes import float32
from ..errors import ArgumentError, DTypeError, GradientError, StateError
from ..methods import update
from ..nn.module import clear_gradients
from ..nn.state import as_tensor
from ..tape import enable_grad, no_grad
from ..tensor import Tensor, tensor
from ..utils.arguments import check_at_least

Group = dict[str, Any]


class Optimizer:
    """Changes `params` (tensors, or dicts of them with settings of their own) by their gradients.

    `param_groups` holds the settings, "lr" as a 0-d tensor; assigning a number to it works as well.
    `state[p]` holds the tensors that belong to parameter p, all made at once and never replaced.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        check_at_least(type(self).__name__, "lr", _number(defaults["lr"]), 0)
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        given: list[Any] = [params] if isinstance(params, Tensor) else list(params)
        if not given:
            raise ArgumentError(f"{type(self).__name__}: got no parameters",
                                "pass model.parameters(); a generator can be used up only once")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters, with settings that differ from the defaults, and makes their state."""
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        for p in params:
            self._check_parameter(p)
        if len({*params, *self.state}) < len(params) + len(self.state):
            raise ArgumentError(f"{type(self).__name__}: a parameter is given twice",
                                "each parameter belongs to one group; parameters() gives each once")
        group = {**self.defaults, **param_group, "params": params}
        if not isinstance(group["lr"], Tensor):
            group["lr"] = tensor(group["lr"], dtype=float32)
        self.param_groups.append(group)
        for p in params:
            self.state[p] = self._new_state(p, group)

    def _check_parameter(self, p: Any) -> None:
        name = type(self).__name__
        if not isinstance(p, Tensor):
            raise DTypeError(f"{name}: can change tensors, not {type(p).__name__}",
                             "pass model.parameters(), or a list of tensors or of dicts")
        if not p.is_leaf:
            raise GradientError(f"{name}: a parameter of shape {p.shape} was computed from others",
                                "optimize the leaves it was computed from")

    # ---- what an optimizer defines
    def _new_state(self, p: Tensor, group: Group) -> dict[str, Tensor]:
        """The tensors that belong to `p`, as they are before the first step."""
        raise NotImplementedError

    def _update(self, group: Group) -> None:
        """Makes one step with the parameters of `group` that have a gradient."""
        raise NotImplementedError

    # ---- what users call
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes every parameter that has a gradient; what `closure` returned, if there is one.

        `closure` computes the loss and calls backward; it runs first, with the tape on.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                self._update(group)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradient of every parameter: to None, or to zeros."""
        for group in self.param_groups:
            clear_gradients(group["params"], set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number of a parameter: its tensors}, "param_groups": settings}, as of now."""
        number = {p: i for i, p in enumerate(self.state)}
        state = {i: {k: v.detach() for k, v in self.state[p].items()} for p, i in number.items()}
        groups = [{k: [number[p] for p in v] if k == "params" else _value(v)
                   for k, v in group.items()} for group in self.param_groups]
        return {"state": {i: s for i, s in state.items() if s}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over settings and state; StateError where groups, parameters or shapes differ."""
        saved = state_dict["param_groups"]
        ours = [len(g["params"]) for g in self.param_groups]
        theirs = [len(g["params"]) for g in saved]
        if ours != theirs:
            raise StateError(f"{type(self).__name__}: the state was saved for groups of {theirs} "
                             f"parameters, this optimizer has groups of {ours}")
        for group, old in zip(self.param_groups, saved, strict=True):
            states = [state_dict["state"].get(i, {}) for i in old["params"]]
            for p, state in zip(group["params"], states, strict=True):
                _check_shapes(p, state)
        with no_grad():
            for group, old in zip(self.param_groups, saved, strict=True):
                _load_settings(group, old)
                for p, i in zip(group["params"], old["params"], strict=True):
                    self._load_state(p, group, state_dict["state"].get(i, {}))

    def _load_state(self, p: Tensor, group: Group, saved: dict[str, Any]) -> None:
        """Sets the state of `p` to what was saved, in place; to its beginning where nothing was."""
        state = self.state[p]
        for name, fresh in self._new_state(p, group).items():
            value = saved.get(name)
            value = fresh if value is None else as_tensor(value)
            update(state.setdefault(name, fresh), value)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {_shown(group[k])}" for k in sorted(group) if k != "params"]
        return "\n".join([*lines, ")"])


def settings(p: Tensor, *values: Any) -> tuple[Any, ...]:
    """`values` for arithmetic with `p`: numbers as they are, 0-d tensors in the dtype of `p`."""
    return tuple([v if not isinstance(v, Tensor) or v.dtype == p.dtype else v.to(p.dtype)
                  for v in values])


def put(x: Tensor, new: Tensor) -> Tensor:
    """`x` changed in place to `new`; straight away in the usual case of equal shapes and dtypes."""
    if new.data.shape == x.data.shape and new.data.dtype is x.data.dtype:
        return replace(x, new)
    return update(x, new)


def directed(p: Tensor, group: Group) -> Tensor:
    """The gradient of `p`, turned round where the group is to maximize."""
    assert p.grad is not None
    return -p.grad if group["maximize"] else p.grad  # type: ignore[operator,no-any-return]


def _number(lr: Any) -> Any:
    return 0 if isinstance(lr, Tensor) else lr  # a tensor's value may not be known yet


def _value(setting: Any) -> Any:
    return setting.detach() if isinstance(setting, Tensor) else setting


def _shown(setting: Any) -> Any:
    return f"{setting.item():g}" if isinstance(setting, Tensor) else setting


def _check_shapes(p: Tensor, saved: dict[str, Any]) -> None:
    for name, value in saved.items():
        shape = tuple(getattr(value, "shape", ()))
        if shape not in ((), p.shape):
            raise StateError(f"{name} of a parameter of shape {p.shape} has shape {shape} in the "
                             "state dict", "parameters must come in the order they were saved in")


def _load_settings(group: Group, saved: Group) -> None:
    for name, value in saved.items():
        if name == "params":
            continue
        if isinstance(group.get(name), Tensor):
            update(group[name], value)
        else:
            group[name] = value
