"""Makes functions and methods from the tables of spellings."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from ....eager.arrays import dtypes
from ....eager.core.tensor import Tensor as Plain
from ....eager.front.spellings.same import IN_PLACE
from ....eager.front.spellings.spelling import Spelling
from ....eager.front.spellings.tables import SPELLINGS
from ....eager.tensor_methods.methods import listed
from . import meanings
from .package import fw
from .tensor_class import Tensor, operands, retag

_NAMES = {**{name: value for name, value in vars(meanings).items() if not name.startswith("__")},
          "Tensor": Tensor, "retag": retag, "fw": fw}
_IGNORED = {"layout", "pin_memory", "memory_format", "non_blocking"}
_PYTORCHS_WORDS = {"dim": "axis", "dims": "axis", "keepdim": "keepdims"}


def function_of(spelling: Spelling) -> Callable[..., Any]:
    """The function of a spelling: PyTorch's parameters, the expression as its result."""
    name, parameters = spelling.name, spelling.parameters
    tree: Any = ast.parse(f"def f({parameters}): pass").body[0]
    source = f"""def {name}({parameters + ', ' if parameters else ''}**further):
    if further:
        return finish({name}, lambda: retag({spelling.expression}), {_first(tree.args)}, further)
    return retag({spelling.expression})
"""
    names: dict[str, Any] = {**_NAMES, "finish": partial(_finish, listed().get(name))}
    exec(compile(source, __file__, "exec"), names)
    function: Any = names[name]
    function.__module__ = "fusewire.torch"
    function.__doc__ = f"{spelling.expression}" + (f": {spelling.note}" if spelling.note else "")
    return function  # type: ignore[no-any-return]


def _first(arguments: Any) -> str:
    return str(arguments.args[0].arg) if arguments.args else "None"


def _finish(plain: Any, function: Callable[..., Any], call: Callable[[], Any], first: Any,
            further: dict[str, Any]) -> Any:
    """The result of a call with arguments that the spelling does not name."""
    spread = next((p.name for p in inspect.signature(function).parameters.values()
                   if p.kind is p.VAR_POSITIONAL), None)
    if spread in further:  # sizes that are given by their name
        args = (first, further.pop(spread)) if first is not None else (further.pop(spread),)
        return function(*args, **further)
    out = further.pop("out", None)
    requires_grad = further.pop("requires_grad", False)
    for name in _IGNORED & further.keys():
        del further[name]
    if further and plain is not None and further.keys() <= set(inspect.signature(plain).parameters):
        result = retag(plain(first, **further))  # code of fusewire calls a method by its own words
    elif further:
        raise _unknown(function, further)
    else:
        result = call()
    if requires_grad:
        result.requires_grad_()
    return result if out is None else _stored(out, result)


def _stored(out: Any, result: Any) -> Any:
    if isinstance(out, tuple):
        return tuple(_stored(o, r) for o, r in zip(out, result))
    return out.copy_(result) if out.shape == result.shape else meanings.in_new_shape(out, result)


def _unknown(function: Any, further: dict[str, Any]) -> TypeError:
    name = next(iter(further))
    known = [p for p in inspect.signature(function).parameters]
    near = difflib.get_close_matches(name, known, 1)
    hint = f": is it {near[0]!r}?" if near else f"; it takes {', '.join(known)}"
    return TypeError(f"got an unexpected keyword argument {name!r}{hint}")


def same_named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of `fusewire` of this name and meaning, which also takes PyTorch's keywords."""
    known: list[str] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return translated(args, kwargs)
        if len(args) == 2 and isinstance(args[0], Plain):
            args = operands(*args)
        return retag(function(*args))

    def translated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out, requires_grad = kwargs.pop("out", None), kwargs.pop("requires_grad", False)
        if not known:
            known.extend(inspect.signature(function).parameters)
        for given in [k for k in kwargs if k not in known]:
            value = kwargs.pop(given)
            word = _PYTORCHS_WORDS.get(given, "")
            if word in known:
                kwargs[word] = value
            elif given in ("dim", "dims") and "axes" in known:
                kwargs["axes"] = value
            elif given in ("size", "shape") and not args:
                args = (value,)
            elif given in ("input", "self", "tensors", "a") and not args:
                args = (value,)
            elif given in ("other", "exponent", "vec2", "b") and len(args) == 1:
                args = (*args, value)
            elif given not in _IGNORED:
                raise _unknown(function, {given: value})
        result = retag(function(*args, **kwargs))
        if requires_grad:
            result.requires_grad_()
        return result if out is None else _stored(out, result)

    call.__name__ = call.__qualname__ = name
    call.__module__ = "fusewire.torch"
    call.__doc__ = function.__doc__
    return call


def in_place(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that changes its tensor to the result of `function`."""
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        if result._data.shape != self._data.shape:
            raise fw.ShapeError(f"{name}_: the result has shape {tuple(result.shape)}, which does "
                                f"not fit back into {tuple(self.shape)}",
                                f"x = torch.{name}(x, ...) makes a new tensor")
        if not dtypes.holds(self._data.dtype, result._data.dtype):
            raise fw.DTypeError(f"{name}_: the result is {result._data.dtype.name}, which does not "
                                f"fit back into {self._data.dtype.name}",
                                f"x = torch.{name}(x, ...) makes a new tensor")
        return self.copy_(result)

    method.__name__ = method.__qualname__ = f"{name}_"
    return method


def _method(spelling: Spelling, function: Callable[..., Any]) -> Callable[..., Any]:
    if spelling.name == "polygamma":
        return lambda self, n: function(n, self)
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of the namespace that the tables name."""


def bind() -> None:
    """Makes the functions and methods of all spellings."""
    for name, value in listed().items():
        if callable(value) and not name.startswith("__") and name not in vars(Tensor):
            setattr(Tensor, name, same_named(value, name))
    for spelling in SPELLINGS:
        function = function_of(spelling)
        if "f" in spelling.kinds:
            FUNCTIONS[spelling.name] = function
        if "m" in spelling.kinds:
            setattr(Tensor, spelling.name, _method(spelling, function))
        if "i" in spelling.kinds:
            setattr(Tensor, f"{spelling.name}_", in_place(spelling.name, function))
    for name in IN_PLACE.split():
        setattr(Tensor, f"{name}_", in_place(name, getattr(Tensor, name)))


bind()
