"""Defines the base class of optimizers: groups of parameters, state in tensors, and steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ... import interpreter
from ...arguments import check_at_least, check_fraction
from ...arrays.dtypes import kind
from ...core.in_place import replace, set_array
from ...core.tape import MODE, enable_grad, with_tape
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, GradientError
from ...nn.base.module import clear_gradients
from ...nn.base.parameter import is_lazy
from ...ops.create import full
from ...uninterrupted import Uninterrupted
from .foreach import batches, gradient, joined, narrowed, split_into, widened
from .formulas import axpy, scale
from .groups import ParamGroup, stored
from .state_dicts import State, StateDictMixin, with_hooks
from .step_numbers import PLAIN, as_count, is_zero, number

OptimizerSettings = dict[str, Any]


class Optimizer(StateDictMixin):
    """Updates parameters from their gradients; the base class of all optimizers.

    `param_groups` holds groups of parameters with their settings, and `state[p]` the state tensors
    of parameter p. They exist from the start and change in place, so a trace finds them by path. A
    subclass defines `step`, or `_first_state` and `_stepped`.

    Args:
        params: tensors, pairs (name, tensor), or dicts with "params" and settings of their own.
        defaults: settings of groups that do not set their own.

    Raises:
        ArgumentError: no parameters, a layer instead of its parameters, a parameter given twice,
            names for some parameters only, or a setting out of range.
        DTypeError: a single tensor, a set as "params" of a group, or an element that is not a
            tensor.
        GradientError: a parameter that was computed from others, unless `differentiable` is set.

    Example:
        >>> import fusewire as fw
        >>> class Descent(fw.optim.Optimizer):
        ...     def __init__(self, params, lr=0.25):
        ...         super().__init__(params, {"lr": lr})
        ...     def _first_state(self, p, group):
        ...         return {}
        ...     def _stepped(self, p, g, state, group):
        ...         return p - group["lr"] * g, {}
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> Descent([p]).step()
        >>> p.tolist()
        [0.5, 0.5]
    """

    counts: tuple[str, ...] = ("step",)  # state that is one number, the same for all elements
    hidden: tuple[str, ...] = ()  # counts that the state dict leaves out
    by_element = True  # True if a new element follows from its own gradient and state alone
    takes_complex = True

    def __init__(self, params: Iterable[Any], defaults: OptimizerSettings) -> None:
        super().__init__()
        self.defaults = defaults
        self.param_groups: list[ParamGroup] = []
        self.state: dict[Tensor, State] = defaultdict(dict)
        if isinstance(params, Tensor):
            raise DTypeError(f"{self._name}: takes a list of parameters, not one tensor",
                             "put it into a list: [tensor]")
        if hasattr(params, "parameters"):
            raise ArgumentError(f"{self._name}: takes a list of parameters, not a layer",
                                "pass model.parameters()")
        items = list(params)
        if not items:
            raise ArgumentError(f"{self._name}: got no parameters",
                                "pass model.parameters(); a generator can be used up only once")
        for group in items if isinstance(items[0], Mapping) else [{"params": items}]:
            self.add_param_group(group)

    def __init_subclass__(cls) -> None:
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.step)  # type: ignore[method-assign]

    @property
    def _name(self) -> str:
        return type(self).__name__

    # ---- groups
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters and creates their state.

        Args:
            param_group: a dict with "params", and the settings in which it differs from the
                defaults.

        Raises:
            DTypeError: no dict with "params".
            ArgumentError: a group with names beside one without, or a setting out of range.
        """
        if not isinstance(param_group, Mapping) or "params" not in param_group:
            raise DTypeError(f"{self._name}: a group is a dict with 'params', not "
                             f"{param_group!r:.80}", "as in {'params': tensors, 'lr': 0.1}")
        group = ParamGroup({**self.defaults, **param_group})
        names, params = self._parameters(param_group["params"])
        group["params"] = params
        if names:
            group["param_names"] = names
        if any(("param_names" in other) != bool(names) for other in self.param_groups):
            raise ArgumentError(f"{self._name}: a group with names beside one without",
                                "pass named_parameters() for all groups, or for none")
        check_settings(self._name, group)
        self.param_groups.append(group)
        self._begin(group)

    def _parameters(self, param_spec: Any) -> tuple[list[str], list[Tensor]]:
        """The names, if there are any, and the checked parameters of a group."""
        if isinstance(param_spec, set):
            raise DTypeError(f"{self._name}: parameters in a set have no order",
                             "pass a list: a state dict numbers parameters by their order")
        items = [param_spec] if isinstance(param_spec, Tensor) else list(param_spec)
        names = [item[0] for item in items if isinstance(item, tuple)]
        if names and len(names) < len(items):
            raise ArgumentError(f"{self._name}: {len(items) - len(names)} of {len(items)} "
                                "parameters have no name", "give all of them names, or none")
        params = [item[1] if isinstance(item, tuple) else item for item in items]
        owned = {id(p) for group in self.param_groups for p in group["params"]}
        for i, p in enumerate(params):
            self._check_parameter(p)
            if id(p) in owned:
                which = f"parameter {i}" + (f" ({names[i]})" if names else "")
                raise ArgumentError(f"{self._name}: {which} of shape {p.shape} is given twice",
                                    "each belongs to one group; parameters() gives each once")
            owned.add(id(p))
        return names, params

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise DTypeError(f"{self._name}: can change tensors, not {type(p).__name__}",
                             "pass model.parameters(), or a list of tensors or of dicts")
        if not p.is_leaf and not self.defaults.get("differentiable"):
            raise GradientError(f"{self._name}: a parameter of shape {p.shape} was computed from "
                                "others", "optimize the leaves it was computed from")
        if kind(p.dtype) == "c" and not self.takes_complex:
            raise DTypeError(f"{self._name}: takes real parameters, not {p.dtype.name}",
                             "optimize real and imaginary parts as parameters of their own")

    # ---- defined by subclasses
    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        """The parameter and its state after one step with the gradient `g`.

        Counts and settings are Python numbers, or 0-d tensors of float64 in a trace. `p` may hold
        several parameters in a row if the optimizer works by element.
        """
        raise NotImplementedError(f"{self._name} does not define step")

    # ---- state
    def _begin(self, group: ParamGroup) -> None:
        """Creates the state that parameters lack; equal counts share an array."""
        settings = self._settings(group, False)
        counters: dict[str, Any] = {}
        for p in group["params"]:
            if is_lazy(p):  # its shape is unknown until the first forward
                continue
            held = self.state[p]  # creates the entry, even if it stays empty
            for name, value in self._first_state(p, settings).items():
                if name in held:
                    continue
                if name in self.counts:
                    shared = counters.setdefault(name, as_count(value))
                    held[name] = interpreter.note_constant(Tensor(shared._data))
                else:
                    both = 1 + 1j if kind(p.dtype) == "c" else 1  # fills real and imaginary part
                    held[name] = full(self._shape_of(p, name), value * both, p.dtype, p.device)

    def _settings(self, group: ParamGroup, recorded: bool) -> OptimizerSettings:
        return {k: v if type(v) in PLAIN else number(v, recorded)
                for k, v in stored(group).items() if k != "params"}

    # ---- called by users
    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the result of `closure`.

        Args:
            closure: computes the loss and calls backward; runs first, with the tape on. Default
                None.

        Raises:
            ShapeError: a gradient whose shape is not that of its parameter.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with Uninterrupted():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    with_tape(bool(group.get("differentiable")), self._step_group, group, params)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradient of every parameter to None, or to zeros if not `set_to_none`."""
        for group in self.param_groups:
            clear_gradients(group["params"], set_to_none)

    # ---- a step
    def _step_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        recorded = interpreter.STATE.active is not None
        settings = self._settings(group, recorded)
        first = self._first_state(params[0], settings)
        for p in params:
            if not self.by_element:
                first = self._first_state(p, settings)
            if not first.keys() <= self.state[p].keys():
                self._begin(group)  # a setting has changed, or p had no shape before
        if recorded or MODE.enabled:
            self._step_each(params, settings, recorded)
            return
        for members, counts in batches(params, self.state, self.counts, self.by_element):
            self._step_together(members, counts, settings)

    def _step_together(self, members: list[Tensor], counts: dict[str, float],
                       settings: OptimizerSettings
                       ) -> None:
        """Steps `members` as one long parameter, with their common counts."""
        names = self._first_state(members[0], settings)
        held = {name: [self.state[m][name] for m in members] for name in names}
        state = {name: joined([x._data for x in held[name]])
                 for name in names if name not in counts}
        p = joined([m._data for m in members])
        g = joined([gradient(m)._data for m in members])
        p, new = self._stepped(p, g, state | counts, settings)
        split_into(p, members)
        for name, value in new.items():
            if name in counts:
                shared = as_count(value)
                for x in held[name]:
                    set_array(x, shared._data)
            else:
                split_into(value, held[name])

    def _step_each(self, params: list[Tensor], settings: OptimizerSettings, recorded: bool) -> None:
        """Steps each parameter by itself, in ops that a tracer or the tape sees."""
        shared: dict[Any, Any] = {}  # counts that share an array still share one afterwards
        for p in params:
            dtype, held = p._data.dtype, self.state[p]
            held = {name: held[name] for name in self._first_state(p, settings)}
            state = {name: number(x, recorded) if name in self.counts else widened(x)
                     for name, x in held.items()}
            changed, new = self._stepped(widened(p), widened(gradient(p)), state, settings)
            replace(p, narrowed(changed, dtype))
            arrays = [held[name]._data for name in self.counts if name in held]
            key = tuple(map(id, arrays))
            if key not in shared:
                shared[key] = arrays, {n: as_count(x) for n, x in new.items() if n in self.counts}
            for name, value in (new | shared[key][1]).items():
                replace(held[name], value if name in self.counts else narrowed(value, dtype))

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {i}"]
            settings = self._settings(group, False)
            lines += [f"    {name}: {settings[name]}" for name in sorted(settings)]
        return "\n".join([f"{self._name} (" + lines[0], *lines[1:], ")"])


def apply_weight_decay(p: Tensor, g: Tensor, group: OptimizerSettings) -> tuple[Tensor, Tensor]:
    """The parameter and the gradient after weight decay, decoupled or not."""
    keep = decay_factor(group)
    return p if is_zero(1.0 - keep) else scale(p, keep), regularized_gradient(p, g, group)


def decay_factor(group: OptimizerSettings) -> Any:
    """The factor of the parameter in decoupled decay; 1.0 if the decay is not decoupled."""
    decay = group["weight_decay"]
    return 1.0 - group["lr"] * decay if group.get("decoupled_weight_decay") else 1.0


def regularized_gradient(p: Tensor, g: Tensor, group: OptimizerSettings) -> Tensor:
    """The gradient, negated if the group maximizes, plus weight_decay * p if not decoupled."""
    decay = group["weight_decay"]
    if group.get("maximize"):
        g = -g  # type: ignore[operator]
    return g if is_zero(decay) or group.get("decoupled_weight_decay") else axpy(g, decay, p)


def constructor_settings(arguments: dict[str, Any]) -> OptimizerSettings:
    """The settings among the arguments of a constructor, from its `locals()`."""
    return {k: v for k, v in arguments.items() if k not in ("self", "params", "__class__")}


# Lower bounds of settings of all optimizers, and settings that are fractions (True: below 1).
_LOWER_BOUNDS = {"lr": 0.0, "eps": 0.0, "weight_decay": 0.0, "momentum": 0.0, "lr_decay": 0.0,
                 "initial_accumulator_value": 0.0, "momentum_decay": 0.0, "d": 1.0}
_FRACTIONS = {"betas": True, "rho": False}


def check_settings(owner: str, group: Mapping[str, Any]) -> None:
    """Raises an ArgumentError for a setting out of range; values of tensors are not checked."""
    for name, value in group.items():
        if name == "lr" and isinstance(value, Tensor) and value.size != 1:
            raise ArgumentError(f"{owner}: lr is one number, got a tensor of shape {value.shape}",
                                "groups of parameters can have a learning rate each")
        several = isinstance(value, (tuple, list))
        if name == "betas" and (not several or len(value) != 2):
            raise ArgumentError(f"{owner}: betas are two numbers, got {value!r}",
                                "one for the mean of gradients, one for that of their squares")
        for i, x in enumerate(value if several else [value]):
            which = f"{name}[{i}]" if several else name
            if name in _LOWER_BOUNDS and x is not None and not isinstance(x, Tensor):
                check_at_least(owner, which, x, _LOWER_BOUNDS[name])
            elif name in _FRACTIONS and not isinstance(x, Tensor):
                check_fraction(owner, which, x, _FRACTIONS[name])
