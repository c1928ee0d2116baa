"""Finds objects whose contents no guard can read, so that a trace must not depend on them."""

from __future__ import annotations

import functools
import operator
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any

from .impurity import why_impure
from .value_kinds import LRU_CACHE

_HEAP_TYPE_FLAG = 1 << 9  # of a class: created at run time, as classes in Python code are
_FOLLOWED_TYPES = (object, list, dict, tuple, set, frozenset, deque, OrderedDict, defaultdict,
                   types.SimpleNamespace, types.ModuleType, types.FunctionType, types.MethodType,
                   functools.partial, property, staticmethod, classmethod)
# C types whose objects never change.
_IMMUTABLE_TYPES = (type(NotImplemented), types.MethodDescriptorType, types.WrapperDescriptorType,
                    types.ClassMethodDescriptorType, types.GetSetDescriptorType,
                    types.MemberDescriptorType, operator.itemgetter, operator.methodcaller,
                    types.GenericAlias, types.UnionType, bytearray)
_IMMUTABLE_MODULES = {"re", "datetime", "decimal", "_decimal", "zoneinfo", "_thread", "typing",
                      "_typing", "ml_dtypes"}
_WEAK_TYPES = (weakref.ref, weakref.ProxyType, weakref.CallableProxyType)


def why_unguardable(value: Any) -> str:
    """The reason why a trace cannot depend on the contents of `value`; empty if it can."""
    cls = type(value)
    if hasattr(cls, "__next__") or cls.__module__.startswith("numpy.random"):
        return "whose state advances when it is read"
    if isinstance(value, LRU_CACHE):
        return "which caches results of earlier calls"
    if isinstance(value, _WEAK_TYPES):
        return "whose referent may change or be freed"
    if cls is operator.attrgetter:
        return "which reads attributes by computed names"
    if issubclass(cls, threading.local):
        return "which has separate values in each thread"
    if cls is functools.partial and isinstance(value.func, types.BuiltinFunctionType):
        why = why_impure(value.func, False)
        if why:
            return f"and {why}"
    if is_hidden(cls):
        return "whose contents cannot be read"
    return ""


def is_hidden(cls: type) -> bool:
    """True if objects of a class may hold values in C structures."""
    return not issubclass(cls, BaseException) and any(
        base not in _FOLLOWED_TYPES and base not in _IMMUTABLE_TYPES
        and base.__module__ not in _IMMUTABLE_MODULES and not _is_python_class(base)
        for base in cls.__mro__)


def _is_python_class(cls: type) -> bool:
    """True if a class is written in Python: its module is Python code, or no longer loaded."""
    if not cls.__flags__ & _HEAP_TYPE_FLAG:
        return False
    module = sys.modules.get(cls.__module__)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return module is None or not _is_c_module(module, loader)


def _is_c_module(module: types.ModuleType, loader: Any) -> bool:
    name = getattr(loader, "__name__", type(loader).__name__)
    return name in ("BuiltinImporter", "ExtensionFileLoader")
