"""Objects whose contents cannot be guarded: what a run reads of them could be frozen unseen."""

from __future__ import annotations

import functools
import operator
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any

from .impurity import impure

_HEAP = 1 << 9  # of a class's flags: made while Python runs, as the classes of Python code are
_FOLLOWED = (object, list, dict, tuple, set, frozenset, deque, OrderedDict, defaultdict,
             types.SimpleNamespace, types.ModuleType, types.FunctionType, types.MethodType,
             functools.partial, property, staticmethod, classmethod)
# Objects of C code that never change.
_NEVER_CHANGE = (type(NotImplemented), types.MethodDescriptorType, types.WrapperDescriptorType,
                 types.ClassMethodDescriptorType, types.GetSetDescriptorType,
                 types.MemberDescriptorType, operator.itemgetter, operator.methodcaller,
                 types.GenericAlias, types.UnionType, bytearray)
_MODULES = {"re", "datetime", "decimal", "_decimal", "zoneinfo", "_thread", "typing", "_typing",
            "ml_dtypes"}
_WEAK = (weakref.ref, weakref.ProxyType, weakref.CallableProxyType)
_CACHE = type(functools.lru_cache(abs))


def unreadable(value: Any) -> str:
    """Why a recording cannot depend on what `value` holds; empty where it can."""
    cls = type(value)
    if hasattr(cls, "__next__") or cls.__module__.startswith("numpy.random"):
        return "whose state advances when it is read"
    if isinstance(value, _CACHE):
        return "which caches results of earlier calls"
    if isinstance(value, _WEAK):
        return "whose referent may change or be freed"
    if cls is operator.attrgetter:
        return "which reads attributes by computed names"
    if issubclass(cls, threading.local):
        return "which has separate values in each thread"
    if cls is functools.partial and isinstance(value.func, types.BuiltinFunctionType):
        why = impure(value.func, False)
        if why:
            return f"and {why}"
    if is_hidden(cls):
        return "whose contents cannot be inspected"
    return ""


def is_hidden(cls: type) -> bool:
    """Whether objects of a class hold values in C code."""
    return not issubclass(cls, BaseException) and any(
        base not in _FOLLOWED and base not in _NEVER_CHANGE and base.__module__ not in _MODULES
        and not _is_of_python(base) for base in cls.__mro__)


def _is_of_python(cls: type) -> bool:
    """Whether a class was written in Python: a module of that name has Python code, or had."""
    if not cls.__flags__ & _HEAP:
        return False
    module = sys.modules.get(cls.__module__)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return module is None or not _is_of_c(module, loader)


def _is_of_c(module: types.ModuleType, loader: Any) -> bool:
    name = getattr(loader, "__name__", type(loader).__name__)
    return name in ("BuiltinImporter", "ExtensionFileLoader")
