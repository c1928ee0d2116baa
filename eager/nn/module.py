"""Module: a layer or a model, as a tree of modules with parameters and buffers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ..dispatch import replace
from ..dtypes import as_dtype, is_float
from ..errors import DTypeError, FusewireError, StateError
from ..tape import no_grad
from ..tensor import Tensor, check_device
from .hooks import Hooks, RemovableHandle
from .parameter import Parameter
from .state import Loaded, load_into

__all__ = ["Module"]

_TABLES = ("_parameters", "_buffers", "_modules")


class Module:
    """Base of all layers: assign parameters and modules in __init__, compute in `forward`."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]  # names of buffers that are not part of the state dict
    _hooks: Hooks | None = None  # what is called around forward and backward

    def __init__(self) -> None:
        fields = {"training": True, "_parameters": {}, "_buffers": {}, "_modules": {},
                  "_transient": set()}
        self.__dict__.update(fields)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; each module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return self._hooks.call(self, args, kwargs)
        except FusewireError as error:
            error.layers.append(self)
            raise
        except TypeError as error:
            if not _is_of_the_call(error):
                raise
            raise _wrong_arguments(self, args, kwargs, error) from None

    # ---- hooks
    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """The handle of hook(module, args), called before forward; it may return other arguments.

        with_kwargs: hook(module, args, kwargs), which returns None or (args, kwargs).
        """
        return self._with_hooks().add("before", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """The handle of hook(module, args, output), called after forward; it may return another.

        with_kwargs: hook(module, args, kwargs, output). always_call: after an error as well, with
        an output of None.
        """
        return self._with_hooks().add("after", hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """The handle of hook(module, grad_output), called when these gradients are there.

        It may return others, as a tensor or a tuple.
        """
        return self._with_hooks().add("backward_before", hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """The handle of hook(module, grad_input, grad_output); it may return another grad_input.

        Both are tuples, for the positional arguments and the results; None for what is no tensor.
        """
        return self._with_hooks().add("backward", hook, prepend)

    def _with_hooks(self) -> Hooks:
        if self._hooks is None:
            object.__setattr__(self, "_hooks", Hooks())
        return self._hooks  # type: ignore[return-value]

    # ---- attributes
    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._place("_parameters", name, value)
        elif isinstance(value, Module):
            self._place("_modules", name, value)
        else:
            self._set_plain(name, value)

    def _place(self, table: str, name: str, value: Any) -> None:
        """Puts `value` into one table and takes the name out of wherever else it was."""
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {name!r} before super().__init__() was called in "
                                 f"{type(self).__name__}.__init__")
        self.__dict__.pop(name, None)
        for other in _TABLES:
            if other != table:
                self.__dict__[other].pop(name, None)
        self.__dict__[table][name] = value

    def _set_plain(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if name in fields.get("_buffers", ()):
            fields["_buffers"][name] = _need_tensor(f"buffer {name!r}", value)
        elif name in fields.get("_parameters", ()) or name in fields.get("_modules", ()):
            table = "_parameters" if name in fields["_parameters"] else "_modules"
            _check_none(table, name, value)
            fields[table][name] = None
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:  # reached only for what is not a plain attribute
        fields = self.__dict__
        for table in _TABLES:
            found = fields.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}",
                             name=name, obj=self)

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._transient.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under `name`; None keeps the name for one that is not there."""
        if param is not None and not isinstance(param, Parameter):
            raise _not_a("parameter", name, param, "wrap it: nn.Parameter(tensor)")
        self._place("_parameters", _checked(name), param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is state but not trained; in the state dict where `persistent`."""
        self._place("_buffers", _checked(name), _need_tensor(f"buffer {name!r}", tensor))
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child under `name`; None keeps the name for one that is not there."""
        if module is not None and not isinstance(module, Module):
            raise _not_a("module", name, module, "a child is an object of a class made from Module")
        self._place("_modules", _checked(name), module)

    # ---- the tree
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Name and module of each direct child, each module once."""
        return _unique(self._modules.items(), set())

    def children(self) -> Iterator[Module]:
        """Each direct child once."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo: set[int] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Dotted name and module, of this module (named '') and of all below it."""
        memo = set() if memo is None else memo
        if remove_duplicate and id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, _join(prefix, name), remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        """The module with that dotted name; '' is this module."""
        found = self
        for name in target.split(".") if target else ():
            child = found._modules.get(name)
            if child is None:
                raise AttributeError(f"{type(found).__name__!r} has no submodule {name!r}",
                                     name=name, obj=found)
            found = child
        return found

    def _named(self, table: str, prefix: str, recurse: bool, once: bool) -> Iterator[Any]:
        memo: set[int] | None = set() if once else None
        owners = self.named_modules(prefix=prefix, remove_duplicate=once) if recurse \
            else [(prefix, self)]
        for path, module in owners:
            items = ((_join(path, n), value) for n, value in module.__dict__[table].items())
            yield from _unique(items, memo)

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Dotted name and value of each parameter, each parameter once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Each parameter once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Dotted name and value of each buffer, each buffer once."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Each buffer once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def apply(self, fn: Callable[[Module], Any]) -> Any:
        """This module, after `fn` was called on every module below it and on itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # ---- modes
    def train(self, mode: bool = True) -> Any:
        """This module, put with all below it into training mode, or out of it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Any:
        """This module, put with all below it out of training mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """This module, its parameters marked as ones that are trained, or as frozen."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradient of every parameter: to None, or to zeros."""
        clear_gradients(self.parameters(), set_to_none)

    def to(self, device: Any = None, dtype: Any = None) -> Any:
        """This module with its tensors on a device ("cpu"), and those of floats in a dtype."""
        if device is not None and not isinstance(device, str):
            device, dtype = None, device
        elif isinstance(device, str) and device.partition(":")[0] not in ("cpu", "cuda"):
            device, dtype = None, device
        check_device(device)
        return self if dtype is None else self._cast(as_dtype(dtype))

    def float(self) -> Any:
        """This module with its floating point parameters and buffers in float32."""
        return self.to(dtype="float32")

    def double(self) -> Any:
        """This module with its floating point parameters and buffers in float64."""
        return self.to(dtype="float64")

    def _cast(self, dtype: Any) -> Any:
        if not is_float(dtype):
            raise DTypeError(f"{type(self).__name__}.to: {dtype.name} is no floating point dtype",
                             "parameters need one, such as fw.float32")
        with no_grad():
            for tensor in (*self.parameters(), *self.buffers()):
                for t in (tensor, tensor.grad):
                    if t is not None and is_float(t.dtype):
                        replace(t, t.to(dtype))
        return self

    # ---- state
    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Dotted name -> value of every parameter and persistent buffer, as they are now."""
        return {prefix + name: owner.detach() for name, owner in self._state()}

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules(remove_duplicate=False):
            for name, value in (*module._parameters.items(), *module._buffers.items()):
                if value is not None and name not in module._transient:
                    yield _join(path, name), value

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Loaded:
        """Sets parameters and buffers to the values in `state_dict`; the names that did not match.

        StateError for a value of another shape, and with `strict` for missing and unexpected names.
        """
        return load_into(type(self).__name__, dict(self._state()), state_dict, strict)

    # ---- text
    def extra_repr(self) -> str:
        """What to print between the brackets: the arguments that the layer was made with."""
        return ""

    def __repr__(self) -> str:
        head, extra = type(self).__name__, self.extra_repr()
        if not self._modules:
            return f"{head}({extra})"
        lines = [extra] if extra else []
        lines += [f"({n}): {m!r}" for n, m in self._modules.items()]
        return f"{head}(\n" + "\n".join("  " + x.replace("\n", "\n  ") for x in lines) + "\n)"


def clear_gradients(parameters: Any, set_to_none: bool) -> None:
    """Sets the gradient of each tensor to None, or to zeros where it has one."""
    for p in parameters:
        if set_to_none or p.grad is None:
            p.grad = None
        else:
            p.grad = p.grad.detach() * 0.0


def _is_of_the_call(error: TypeError) -> bool:
    """Whether forward was not entered: no frame lies below the one of the call."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, Hooks.FILE):
        trace = trace.tb_next
    return trace is None


def _wrong_arguments(module: Module, args: Any, kwargs: Any, error: TypeError) -> Exception:
    """The error for arguments that forward does not take."""
    name = type(module).__name__
    given = ", ".join([*map(_in_short, args), *(f"{k}={_in_short(v)}" for k, v in kwargs.items())])
    return DTypeError(
        f"{name} was called with ({given}): {str(error).rpartition('() ')[2]}",
        f"its forward is {name}.forward{inspect.signature(module.forward)}")


def _in_short(x: Any) -> str:
    if isinstance(x, Tensor):
        return f"{x.dtype.name}{list(x.shape)}"
    return f"{x!r:.20}" if isinstance(x, (int, float, str, bool, type(None))) else type(x).__name__


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _unique(items: Any, memo: set[int] | None) -> Iterator[Any]:
    """The items whose value is not None and not in `memo`, to which it is added."""
    for name, value in items:
        if value is None or (memo is not None and id(value) in memo):
            continue
        if memo is not None:
            memo.add(id(value))
        yield name, value


def _checked(name: str) -> str:
    if not name or "." in name:
        raise StateError(f"{name!r} cannot be the name of a part of a module",
                         "names are not empty and hold no dot")
    return name


def _not_a(kind: str, name: str, value: Any, help: str) -> DTypeError:
    return DTypeError(f"cannot register {type(value).__name__} as {kind} {name!r}", help)


def _need_tensor(what: str, value: Any) -> Tensor | None:
    if value is not None and not isinstance(value, Tensor):
        raise DTypeError(f"{what} takes a tensor or None, not {type(value).__name__}",
                         "make a tensor of it: fw.tensor(value)")
    return value


def _check_none(table: str, name: str, value: Any) -> None:
    if value is not None:
        kind = {"_parameters": "Parameter", "_modules": "Module"}[table]
        raise DTypeError(f"{name!r} is a {kind}, it cannot be set to {type(value).__name__}",
                         f"assign a {kind} or None"
                         + (", or change its values: p.copy_(x)" if kind == "Parameter" else ""))
