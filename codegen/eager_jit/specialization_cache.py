"""Caches compiled programs of eager ops, and limits how many are compiled.

Programs are never evicted, and compiling one takes as long as hundreds of calls. So an op compiles
its first programs at once; after that, a call must occur as often as there are programs before it
gets one.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from ...capture.heap.code_tracker import unobserved
from ...eager.errors import CodegenError
from ...eager.fork_safety import held_while_forking

_FREE_PROGRAMS_PER_OP = 32  # compiled at the first call
_MAX_COUNTED_KEYS = 1 << 12


class SpecializationCache:
    """The programs of some ops, by all that their code depends on."""

    def __init__(self, at_once: int = _FREE_PROGRAMS_PER_OP) -> None:
        self.free_programs = at_once
        self.programs: dict[Hashable, Any] = {}
        self.counts: Counter[str] = Counter()  # of programs, by their ops
        self._requests: Counter[Hashable] = Counter()
        self._lock = held_while_forking(threading.RLock())

    def get(self, key: Hashable, name: str, make: Callable[[], Any]) -> Any:
        """The result of `make()` for this key of the op `name`; None for a call that has not
        occurred often enough, or if compilation failed."""
        with self._lock:
            if key not in self.programs:
                if not self._is_due(key, name):
                    return None
                self.counts[name] += 1
                program = None
                with unobserved(), contextlib.suppress(CodegenError):
                    program = make()
                self.programs[key] = program
            return self.programs[key]

    def _is_due(self, key: Hashable, name: str) -> bool:
        count = self.counts[name]
        if count < self.free_programs:
            return True
        if len(self._requests) >= _MAX_COUNTED_KEYS:
            self._requests.clear()
        self._requests[key] += 1
        if self._requests[key] < count:
            return False
        del self._requests[key]
        return True
