"""Defines Module, the base of layers and models: a tree of modules with parameters and buffers."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from ...core.tensor import Tensor
from ...errors import LAYER_CALLS, ArgumentError, DTypeError, FusewireError, StateError
from ...tracebacks import without_inner_frames
from ...upper_layer import UPPER
from . import notebook
from .convert import Convertible
from .hooks import Hooks, RemovableHandle
from .parameter import Buffer, Parameter
from .state import Stateful

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Module"]

_TABLES = ("_parameters", "_buffers", "_modules")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result", covariant=True)


class _Forward(Protocol[_Arguments, _Result]):
    """A class with a `forward` of these arguments."""

    def forward(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result: ...


class Module(Stateful, Convertible):
    """Base of layers and models: assign parameters and modules in __init__, compute in `forward`.

    Attributes that are a Parameter, a Buffer or a Module are registered under their names; plain
    tensors are not. Calling the module runs forward and its hooks. `training` is True at first;
    train() and eval() set it in all modules below, too.

    Raises:
        AttributeError: a parameter or module is assigned before super().__init__().
        DTypeError: a registered name gets a value of another kind, or forward does not take the
            arguments of a call.

    Example:
        >>> import fusewire as fw
        >>> class Scale(fw.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = fw.nn.Parameter(fw.tensor([2.0]))
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> model = Scale()
        >>> model(fw.ones(2)).detach(), [name for name, _ in model.named_parameters()]
        (tensor([2., 2.]), ['factor'])
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]  # names of buffers that are not part of the state dict
    _hooks: Hooks | None = None  # called around forward and backward; None without hooks

    def __init__(self) -> None:
        fields = {"training": True, "_parameters": {}, "_buffers": {}, "_modules": {},
                  "_non_persistent_buffers_set": set()}
        self.__dict__.update(fields)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the result; each class defines its own."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    if TYPE_CHECKING:  # a call has the signature of the class's `forward`
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
                raise without_inner_frames(error)  # noqa: B904 it is the same
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
        """The handle of hook(module, grad_output), called with the gradients of the results.

        It may return others, as a tensor or a tuple.
        """
        return self._with_hooks().add("backward_before", hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """The handle of hook(module, grad_input, grad_output); it may return another grad_input.

        Both are tuples, for the positional arguments and the results; None stands for values other
        than tensors.
        """
        return self._with_hooks().add("backward", hook, prepend)

    def _with_hooks(self) -> Hooks:
        if self._hooks is None:
            object.__setattr__(self, "_hooks", Hooks())
        return self._hooks  # type: ignore[return-value]

    # ---- attributes
    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._set_in_table("_parameters", name, value)
        elif isinstance(value, Module):
            self._set_in_table("_modules", name, value)
        elif isinstance(value, Buffer):
            self._set_in_table("_buffers", name, value)
            excluded = self._non_persistent_buffers_set
            (excluded.discard if value.persistent else excluded.add)(name)
        else:
            self._set_plain(name, value)

    def _set_in_table(self, table: str, name: str, value: Any) -> None:
        """Enters `value` in one table and removes the name from all others."""
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

    def __getattr__(self, name: str) -> Any:  # called only for names that are not plain attributes
        fields = self.__dict__
        for table in _TABLES:
            values = fields.get(table)
            if values is not None and name in values:
                return values[name]
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
        """Adds a parameter under `name`; None reserves the name.

        Raises:
            DTypeError: param is neither a Parameter nor None.
            StateError: the name is empty, has a dot, or is another attribute already.
        """
        if param is not None and not isinstance(param, Parameter):
            raise _not_a("parameter", name, param, "wrap it: nn.Parameter(tensor)")
        self._check_free(name, "_parameters")
        self._set_in_table("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a buffer: a tensor that is state but not trained.

        Args:
            name: the attribute's name.
            tensor: the value; None reserves the name.
            persistent: the buffer is part of the state dict. Default True.

        Raises:
            DTypeError: tensor is neither a tensor nor None.
            StateError: the name is empty, has a dot, or is another attribute already.
        """
        self._check_free(name, "_buffers")
        self._set_in_table("_buffers", name, _need_tensor(f"buffer {name!r}", tensor))
        excluded = self._non_persistent_buffers_set
        (excluded.discard if persistent else excluded.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child under `name`; None reserves the name.

        Raises:
            DTypeError: module is neither a Module nor None.
            StateError: the name is empty, has a dot, or is another attribute already.
        """
        if module is not None and not isinstance(module, Module):
            raise _not_a("module", name, module, "a child is an instance of nn.Module")
        self._check_free(name, "_modules")
        self._set_in_table("_modules", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Adds a child under `name`, as `add_module` does."""
        self.add_module(name, module)

    def _check_free(self, name: str, table: str) -> None:
        """Raises a StateError for a name that is not valid or belongs to another attribute."""
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
        """This module and all below it, each once unless remove_duplicate is False."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def get_submodule(self, target: str) -> Module:
        """The module with the dotted name `target`; '' is this module. AttributeError if none."""
        module = self
        for name in target.split(".") if target else ():
            child = module._modules.get(name)
            if child is None:
                raise _missing("submodule", name, module, "_modules")
            module = child
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replaces or adds `module` at the dotted name `target`.

        Args:
            target: the dotted name, not empty.
            module: the new module.
            strict: requires that a module is there already. Default False.

        Raises:
            ArgumentError: target is empty.
            DTypeError: module is not a Module.
            AttributeError: the parent is missing, or with strict the module.
        """
        if not target:
            raise ArgumentError("set_submodule: the module itself cannot be replaced",
                                "target is the dotted name of a module below it")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not isinstance(module, Module):
            raise _not_a("module", name, module, "a child is an instance of nn.Module")
        if (strict or hasattr(parent, name)) and name not in parent._modules:
            raise _missing("submodule", name, parent, "_modules")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with the dotted name `target`; AttributeError if there is none."""
        return self._get("parameter", target, "_parameters")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with the dotted name `target`; AttributeError if there is none."""
        return self._get("buffer", target, "_buffers")  # type: ignore[no-any-return]

    def _get(self, kind: str, target: str, table: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        value = owner.__dict__[table].get(name)
        if value is None:
            raise _missing(kind, name, owner, table)
        return value

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
        """This module, with `training` set to `mode` here and in all modules below."""
        if not isinstance(mode, bool):
            raise ArgumentError(f"{type(self).__name__}.train: mode is True or False, not {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """This module, with `training` set to False here and in all modules below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """This module, with `requires_grad` of all parameters set; False freezes them."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def compile(self, *, fullgraph: bool = False) -> None:
        """Compiles this module in place, as fw.compile(module) does."""
        assert UPPER.compile is not None
        UPPER.compile(self, fullgraph=fullgraph)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradient of every parameter: to None, or to zeros."""
        clear_gradients(self.parameters(), set_to_none)

    # ---- text
    def extra_repr(self) -> str:
        """The text between the brackets when printed: the arguments of the constructor."""
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

    def _repr_html_(self) -> str:
        return notebook.tree(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


LAYER_CALLS.add(Module.__call__.__code__)


def clear_gradients(parameters: Any, set_to_none: bool) -> None:
    """Sets the gradient of each tensor to None, or fills existing gradients with zeros."""
    for p in parameters:
        if set_to_none or p.grad is None:
            p.grad = None
        else:
            p.grad = p.grad.detach() * 0.0


def _is_of_the_call(error: TypeError) -> bool:
    """True if forward was not entered: there is no frame below that of the call."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, Hooks.FILE):
        trace = trace.tb_next
    return trace is None


def _wrong_arguments(module: Module, args: Any, kwargs: Any, error: TypeError) -> Exception:
    """The error for arguments that forward does not take."""
    name = type(module).__name__
    named = (f"{k}={_short_text(v)}" for k, v in kwargs.items())
    arguments = ", ".join([*map(_short_text, args), *named])
    explained = DTypeError(
        f"{name} was called with ({arguments}): {str(error).rpartition('() ')[2]}",
        f"its forward is {name}.forward{inspect.signature(module.forward)}")
    explained.layers.append(module)
    return explained


def _short_text(x: Any) -> str:
    if isinstance(x, Tensor):
        return f"{x.dtype.name}{list(x.shape)}"
    return f"{x!r:.20}" if isinstance(x, (int, float, str, bool, type(None))) else type(x).__name__


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _unique(items: Any, memo: set[int] | None) -> Iterator[Any]:
    """The items with a value that is neither None nor in `memo`; adds it to `memo`."""
    for name, value in items:
        if value is None or (memo is not None and id(value) in memo):
            continue
        if memo is not None:
            memo.add(id(value))
        yield name, value


def _missing(kind: str, name: str, owner: Module, table: str) -> AttributeError:
    near = difflib.get_close_matches(name, owner.__dict__[table], n=1)
    return AttributeError(f"{type(owner).__name__!r} has no {kind} {name!r}"
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
