"""Replaces `range`, `enumerate` and `zip` in the globals of user modules during a trace for export.

The replacements (`symbolic_range.BUILTIN_PROXIES`) iterate over dynamic sizes. The builtins
themselves stay, since other threads and modules that are being imported read them. A module is
patched once code in it is about to specialize a size that it may have passed to a builtin; then
the function is traced again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .symbolic_range import BUILTIN_PROXIES

_LOCK = threading.Lock()
_traces_of_module: Counter[int] = Counter()  # active traces that patch it, by id of its globals


class PatchedModules:
    """The modules whose builtins one trace replaces, by the id of their globals."""

    def __init__(self) -> None:
        self._globals: dict[int, dict[str, Any]] = {}

    def add_module_of(self, frame: Any) -> bool:
        """Adds the module of a frame that reads a replaced builtin. Returns True if it is new."""
        names = frame.f_globals
        if id(names) in self._globals or BUILTIN_PROXIES.keys().isdisjoint(frame.f_code.co_names):
            return False
        self._globals[id(names)] = names
        return True

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """A context in which a `for` over a dynamic size is traced as a loop."""
        modules = list(self._globals.values())
        _patch(modules)
        try:
            yield
        finally:
            _unpatch(modules)


def _patch(modules: list[dict[str, Any]]) -> None:
    with _LOCK:
        for names in modules:
            _traces_of_module[id(names)] += 1
            for name, proxy in BUILTIN_PROXIES.items():
                names.setdefault(name, proxy)  # a name that the module defines itself stays


def _unpatch(modules: list[dict[str, Any]]) -> None:
    with _LOCK:
        for names in modules:
            _traces_of_module[id(names)] -= 1
            for name, proxy in BUILTIN_PROXIES.items():
                if not _traces_of_module[id(names)] and names.get(name) is proxy:
                    del names[name]
