"""Defines the records of a running function: the values that its code reads, and its calls."""

from __future__ import annotations

import types
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.tensor import Tensor
from ..heap.access_path import Path
from ..heap.code_tracker import followed, is_python
from ..heap.introspection import lookup
from .access_analysis import accesses_of
from .accesses import Access, CallSite

_ROOT = __name__.partition(".")[0]
CONTAINERS = (list, tuple, dict)
OPAQUE_OBJECTS = (Tensor, np.ndarray, np.generic, types.BuiltinFunctionType,
                  types.MethodWrapperType, types.CodeType, np.ufunc)


class Located(NamedTuple):
    """A value and its path. `receiver`: the object of which it is a method."""

    path: Path
    value: Any
    receiver: Located | None = None


class SiteState:
    """The known facts of a call in the code: functions that it calls, and arguments."""

    def __init__(self, result: Access) -> None:
        self.result, self.makes_object = result, False  # an object that did not exist before
        self.callees: list[Binding] = []
        self.arguments: dict[Any, list[Located]] = {}
        self.attribute: str | None = None  # that `getattr` or `hasattr` reads
        self.takes_length = self.takes_type = False
        self.is_resolved = self.is_opaque = False


class Activation:
    """The calls of a function: the values of its parameters, and where its results go."""

    def __init__(self, code: types.CodeType) -> None:
        self.code, self.found = code, accesses_of(code)
        self.entered = self.settled = False
        self.is_open = False  # code without analysis may call it, or use its results
        self.pending: list[tuple[Access, Located]] = []
        self.sites: dict[CallSite, SiteState] = {}
        self.results: list[tuple[Activation, Access]] = []  # accesses of the result, by callers
        self.returned: list[Located] = []
        self.functions: set[Path] = set()

    def end(self) -> None:
        """Releases all objects."""
        self.pending, self.returned, self.results = [], [], []
        self.sites.clear()

    def site(self, site: CallSite) -> SiteState:
        if site not in self.sites:
            self.sites[site] = SiteState(site.result)
        return self.sites[site]


class Binding(NamedTuple):
    """A function that a call leads to. `shift`: the number of parameters before the arguments."""

    activation: Activation
    shift: int


def is_used_whole(access: Access) -> bool:
    """True if code does more with a method than calling it."""
    return bool(access.uses or access.steps or access.arguments or access.stored)


def is_followed(function: Any) -> bool:
    """True if the hook reports calls of a function, and its accesses are analyzed."""
    if not isinstance(function, types.FunctionType):
        return False
    name, file = str(function.__globals__.get("__name__")), function.__code__.co_filename
    return (
        followed(function.__code__)
        and not is_python(file)
        and not name.startswith("namedtuple_")
        and not (file.startswith("<") and name.partition(".")[0] == _ROOT)
    )


def is_looked_up_plainly(cls: type) -> bool:
    """True if attributes are looked up in the object and its class, as usual."""
    return lookup(cls, "__getattribute__")[0] is object and not hasattr(cls, "__captured__")


def has_truth(cls: type) -> bool:
    return hasattr(cls, "__bool__") or hasattr(cls, "__len__")
