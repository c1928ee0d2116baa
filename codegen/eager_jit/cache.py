"""Programs for kinds of calls: made when first asked for, later ones only where that pays.

The programs of ops stay, and making one takes as long as hundreds of calls. So an op has some at
once; where its shapes change more often than that, a call has to come as many times as there are
programs before it gets one.
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

_AT_ONCE = 32  # programs of one op
_WAITING = 1 << 12  # kinds of calls that are counted


class SpecializationCache:
    """The programs of some ops, by all that their code depends on."""

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self.at_once = at_once
        self.made: dict[Hashable, Any] = {}
        self.counts: Counter[str] = Counter()  # of programs, by their ops
        self._asked: Counter[Hashable] = Counter()
        self._lock = held_while_forking(threading.RLock())

    def get(self, key: Hashable, name: str, make: Callable[[], Any]) -> Any:
        """What `make()` gave for this key of the op of this name; None for a call that has not
        come often enough, and where no code could be made."""
        with self._lock:
            if key not in self.made:
                if not self._is_due(key, name):
                    return None
                self.counts[name] += 1
                made = None
                with unobserved(), contextlib.suppress(CodegenError):
                    made = make()
                self.made[key] = made
            return self.made[key]

    def _is_due(self, key: Hashable, name: str) -> bool:
        count = self.counts[name]
        if count < self.at_once:
            return True
        if len(self._asked) >= _WAITING:
            self._asked.clear()
        self._asked[key] += 1
        if self._asked[key] < count:
            return False
        del self._asked[key]
        return True
