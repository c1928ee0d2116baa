"""Caches compiled code and plans, by everything that they depend on.

Every cache in memory of compiled code, and of plans that call it, is an instance of
`Specializations`. `POLICIES` has the rules of each. A lookup takes no lock.
"""

from __future__ import annotations

import heapq
import operator
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

from ...eager.fork_safety import held_while_forking

T = TypeVar("T")

_EVICTED_FRACTION = 64  # of the limit is evicted at once, so that eviction costs little per value
_COUNTED_KEYS_PER_VALUE = 16  # of the limit: keys without a value whose requests are counted
_MAX_COUNTED_KEYS = 1 << 12
_WORK, _DOUBLES_AFTER = 1e6, 64  # nanoseconds of a call, and values until twice as many are needed
_TABLES = held_while_forking(threading.RLock())  # is never held while values are made or freed


class CachedValue(Generic[T]):
    """A value, and the time of its last use by the clock of its cache."""

    __slots__ = ("last_use", "value")

    def __init__(self, value: T) -> None:
        self.value, self.last_use = value, 0


class Policy(NamedTuple):
    """The rules of a cache. `limit`: the most values that it holds. `requests`: from which request
    on a key gets its value, by the number of values that were made for the same group of keys.
    `rank`: the value of the lowest rank is evicted first. `least_work`: the least work of a call
    for which a key gets a value at all, by the number of values of its group."""

    limit: int
    requests: Callable[[int], int] = lambda made: 1
    rank: Callable[[CachedValue[Any]], Any] = operator.attrgetter("last_use")
    least_work: Callable[[int], float] = lambda made: 0.0


def costlier_after(free: int) -> Callable[[int], float]:
    """The first `free` values of a group are made for any work. Then the least work grows with
    each value, since compiling takes as long as hundreds of calls.

    The first request of a key decides, so that equal calls of an op have equal bits."""
    return lambda made: 0.0 if made < free else _WORK * 2.0 ** ((made - free) / _DOUBLES_AFTER)


POLICIES = {
    # eager ops: plans of calls, and the programs that they run, by op
    "eager calls": Policy(1 << 12),
    "eager programs": Policy(1 << 12, least_work=costlier_after(32)),
    "eager vjps": Policy(1 << 12),
    "elementwise vjp programs": Policy(1 << 12, least_work=costlier_after(32)),
    "vjp programs by shape": Policy(1 << 12, least_work=costlier_after(16)),
    "recurrent layers": Policy(1 << 8, least_work=costlier_after(16)),
    "eager GPU programs": Policy(1 << 12, least_work=costlier_after(32)),
    # compiled functions
    "sizes of a graph": Policy(64, lambda made: 2 + made // 4, operator.attrgetter("value.uses")),
    "backward variants": Policy(64),
    "subgraphs": Policy(1 << 8),
    "op signatures": Policy(10_000),
    # GPUs
    "CUDA graphs": Policy(16, lambda made: 2),
    "CUDA modules": Policy(1 << 8),
    "fastest kernels": Policy(1 << 12),
}
"""The rules of each cache."""


class Specializations(Generic[T]):
    """Values by key; the least recently used ones are evicted, unless the policy ranks otherwise.
    Several threads may use it at once."""

    def __init__(self, name: str, making: AbstractContextManager[Any] | None = None) -> None:
        """`name`: of its policy. `making`: the lock that is held while a value is made. Without
        one, two threads may make the same value, and the first one counts."""
        self.name, self.policy = name, POLICIES[name]
        self._making = nullcontext() if making is None else making
        self._values: dict[Hashable, CachedValue[T]] = {}
        self._requests: dict[Hashable, int] = {}  # of keys without a value, the latest one last
        self._clock = 0  # ticks with each value that is added or found
        self.made: Counter[str] = Counter()  # values, by the group of their keys
        self.added = self.misses = self.evicted = 0
        with _TABLES:
            _ALL.add(self)

    def find(self, key: Hashable, default: Any = None) -> T | Any:
        """The value of a key, or `default`."""
        cached = self._values.get(key)
        if cached is None:
            self.misses += 1
            return default
        self._clock = cached.last_use = self._clock + 1
        return cached.value

    def get(self, key: Hashable, make: Callable[[], T], group: str = "", work: float = 0.0
            ) -> T | Any:
        """The value of a key, from `make()` if it is new; None if the key has not been requested
        often enough, or has so little work that it will never have another value.

        `work`: nanoseconds of a call without the value."""
        cached = self._values.get(key)
        if cached is None:
            with self._making:
                return self._make(key, make, group, work)
        self._clock = cached.last_use = self._clock + 1
        return cached.value

    def _make(self, key: Hashable, make: Callable[[], T], group: str, work: float) -> T | Any:
        if key in self._values:  # another thread has made it
            return self.find(key)
        self.misses += 1
        if not self._is_due(key, self.policy.requests(self.made[group])):
            return None
        if work < self.policy.least_work(self.made[group]):
            return self.add(key, None)  # type: ignore[arg-type]
        self.made[group] += 1
        return self.add(key, make())

    def _is_due(self, key: Hashable, needed: int) -> bool:
        """Counts a request; True if the key has been requested `needed` times."""
        with _TABLES:
            count = self._requests.pop(key, 0) + 1
            if count < needed:
                self._requests[key] = count
                most = min(_COUNTED_KEYS_PER_VALUE * self.policy.limit, _MAX_COUNTED_KEYS)
                if len(self._requests) > most:
                    del self._requests[next(iter(self._requests))]
            return count >= needed

    def add(self, key: Hashable, value: T) -> T:
        """The value of a key: this one, or an earlier one."""
        evicted: list[Any] = []  # is freed outside of the lock: values may need other locks for it
        with _TABLES:
            cached = self._values.get(key)
            if cached is None:
                if len(self._values) >= self.policy.limit:
                    evicted = self._evict()
                cached = self._values[key] = CachedValue(value)
                self.added += 1
            self._clock = cached.last_use = self._clock + 1
        del evicted
        return cached.value

    def _evict(self) -> list[Any]:
        """Removes the values of the lowest ranks, and returns them."""
        count = max(1, self.policy.limit // _EVICTED_FRACTION)
        lowest = heapq.nsmallest(count, self._values, lambda k: self.policy.rank(self._values[k]))
        self.evicted += len(lowest)
        return [self._values.pop(key) for key in lowest]

    def clear(self) -> None:
        """Removes all values, and forgets how often keys were requested."""
        with _TABLES:
            values, self._values, self._requests = self._values, {}, {}
            self.made.clear()
        del values

    def values(self) -> list[T]:
        """The values, the oldest first."""
        with _TABLES:
            return [cached.value for cached in self._values.values()]

    def items(self) -> list[tuple[Any, T]]:
        """The keys and their values, the oldest first."""
        with _TABLES:
            return [(key, cached.value) for key, cached in self._values.items()]

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    @property
    def hits(self) -> int:
        """The number of lookups that found a value."""
        return self._clock - self.added


_ALL: weakref.WeakSet[Specializations[Any]] = weakref.WeakSet()


def every_cache() -> list[Specializations[Any]]:
    """All caches, in the order of `POLICIES`."""
    order = list(POLICIES)
    with _TABLES:
        caches: Iterable[Specializations[Any]] = list(_ALL)
    return sorted(caches, key=lambda cache: order.index(cache.name))


def clear_caches() -> None:
    """Empties all caches in memory of compiled code and plans (see `fw.caches`), which frees their
    memory. Code that is needed again is compiled again, or read from disk.

    Compiled functions keep their recordings, and the code for fixed sizes.

    >>> import fusewire as fw
    >>> fw.clear_caches()
    """
    for cache in every_cache():
        cache.clear()
