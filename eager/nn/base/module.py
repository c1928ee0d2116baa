"""Module: a layer or a model, as a tree of modules with parameters and buffers."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from ...core.tensor import Tensor
from ...errors import LAYER_CALLS, ArgumentError, DTypeError, FusewireError, StateError
from .convert import Convertible
from .hooks import Hooks, RemovableHandle
from .parameter import Buffer, Parameter
from .state import Stateful

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Module"]

_TABLES = ("_parameters", "_buffers", "_modules")
compiler: Callable[..., Any] | None = None  # set by an upper layer: what `fw.compile` is
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result", covariant=True)


class _Forward(Protocol[_Arguments, _Result]):
    """A class whose `forward` takes these arguments."""

    def forward(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result: ...


class Module(Stateful, Convertible):
    """Base of all layers: assign parameters and modules in __init__, compute in `forward`."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]  # names of buffers that are not part of the state dict
    _hooks: Hooks | None = None  # what is called around forward and backward

    def __init__(self) -> None:
        fields = {"training": True, "_parameters": {}, "_buffers": {}, "_modules": {},
                  "_non_persistent_buffers_set": set()}
        self.__dict__.update(fields)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; each module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    if TYPE_CHECKING:  # a call takes and gives what `forward` of the module's own class does
        def __call__(self: _Forward[_Arguments, _Result], *args: _Arguments.args,
                     **kwargs: _Arguments.kwargs) -> _Result: ...
    else:
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
        elif isinstance(value, Buffer):
            self._place("_buffers", name, value)
            left_out = self._non_persistent_buffers_set
            (left_out.discard if value.persistent else left_out.add)(name)
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
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under `name`; None keeps the name for one that is not there."""
        if param is not None and not isinstance(param, Parameter):
            raise _not_a("parameter", name, param, "wrap it: nn.Parameter(tensor)")
        self._check_free(name, "_parameters")
        self._place("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is state but not trained; in the state dict where `persistent`."""
        self._check_free(name, "_buffers")
        self._place("_buffers", name, _need_tensor(f"buffer {name!r}", tensor))
        left_out = self._non_persistent_buffers_set
        (left_out.discard if persistent else left_out.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child under `name`; None keeps the name for one that is not there."""
        if module is not None and not isinstance(module, Module):
            raise _not_a("module", name, module, "a child is an object of a class made from Module")
        self._check_free(name, "_modules")
        self._place("_modules", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_free(self, name: str, table: str) -> None:
        """StateError for a name that cannot be one, or that something else of the module has."""
        if not isinstance(name, str) or not name or "." in name:
            raise StateError(f"{name!r} cannot be the name of a part of a module",
                             "names are texts, not empty, and hold no dot")
        if name not in self.__dict__.get(table, ()) and hasattr(self, name):
            raise StateError(f"attribute {name!r} of {type(self).__name__} already exists",
                             "choose another name, or delete the attribute first")

    # ---- the tree
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Name and module of each direct child, each module once."""
        return _unique(self._modules.items(), set())

    def children(self) -> Iterator[Module]:
        """Each direct child once."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Dotted name and module, of this module (named '') and of all below it.

        Each module once, and none of those in `memo`, to which they are added.
        """
        memo = set() if memo is None else memo
        if remove_duplicate and self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, _join(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once; as often as it is there, where asked for."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def get_submodule(self, target: str) -> Module:
        """The module with that dotted name; '' is this module."""
        found = self
        for name in target.split(".") if target else ():
            child = found._modules.get(name)
            if child is None:
                raise _no("submodule", name, found, "_modules")
            found = child
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts `module` at that dotted name; with `strict` only where there is one already."""
        if not target:
            raise ArgumentError("set_submodule: the module itself cannot be replaced",
                                "target is the dotted name of a module below it")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not isinstance(module, Module):
            raise _not_a("module", name, module, "a child is an object of a class made from Module")
        if (strict or hasattr(parent, name)) and name not in parent._modules:
            raise _no("submodule", name, parent, "_modules")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with that dotted name."""
        return self._get("parameter", target, "_parameters")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with that dotted name."""
        return self._get("buffer", target, "_buffers")  # type: ignore[no-any-return]

    def _get(self, what: str, target: str, table: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = owner.__dict__[table].get(name)
        if found is None:
            raise _no(what, name, owner, table)
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

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """This module, after `fn` was called on every module below it and on itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # ---- modes
    def train(self, mode: bool = True) -> Self:
        """This module, put with all below it into training mode, or out of it."""
        if not isinstance(mode, bool):
            raise ArgumentError(f"{type(self).__name__}.train: mode is True or False, not {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """This module, put with all below it out of training mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """This module, its parameters marked as ones that are trained, or as frozen."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def compile(self, *, fullgraph: bool = False) -> None:
        """Makes this module a compiled one, in place: the same as fw.compile(module)."""
        assert compiler is not None
        compiler(self, fullgraph=fullgraph)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradient of every parameter: to None, or to zeros."""
        clear_gradients(self.parameters(), set_to_none)

    # ---- text
    def extra_repr(self) -> str:
        """What to print between the brackets: the arguments that the layer was made with."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        if not self._modules and len(lines) < 2:
            return f"{self._get_name()}({extra})"
        lines += [f"({n}): {m!r}".replace("\n", "\n  ") for n, m in self._modules.items()]
        return f"{self._get_name()}(\n" + "".join(f"  {line}\n" for line in lines) + ")"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


LAYER_CALLS.add(Module.__call__.__code__)


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
    explained = DTypeError(
        f"{name} was called with ({given}): {str(error).rpartition('() ')[2]}",
        f"its forward is {name}.forward{inspect.signature(module.forward)}")
    explained.layers.append(module)
    return explained


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


def _no(what: str, name: str, owner: Module, table: str) -> AttributeError:
    near = difflib.get_close_matches(name, owner.__dict__[table], n=1)
    return AttributeError(f"{type(owner).__name__!r} has no {what} {name!r}"
                          + (f" (nearest: {near[0]})" if near else ""), name=name, obj=owner)


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
