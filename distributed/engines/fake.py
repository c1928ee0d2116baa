"""The fake engine: the ranks are threads of one process, for tests and for trying things out."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from ...eager.errors import CollectiveError
from .engine import (
    CollectiveCall,
    ProcessGroup,
    combined,
    exchange_of_objects,
    mismatch,
    missing,
)


class World:
    """What the ranks of one fake world share. `delay(bytes)`: seconds that a collective takes."""

    def __init__(self, size: int, timeout: float = 60.0,
                 delay: Callable[[int], float] | None = None) -> None:
        self.size, self.timeout, self.delay = size, timeout, delay
        self.changed = threading.Condition()
        self.rounds: dict[Any, dict[int, Any]] = defaultdict(dict)  # by group and number
        self.taken: Counter[Any] = Counter()
        self.mail: dict[Any, deque[Any]] = defaultdict(deque)  # by group, sender, receiver
        self.last: dict[int, str] = dict.fromkeys(range(size), "which has not called a collective")
        self.failed: dict[int, str] = {}

    def fail(self, rank: int, error: BaseException) -> None:
        """Ends all waits, since a rank has raised an error."""
        with self.changed:
            self.failed[rank] = f"{type(error).__name__}: {error}"
            self.changed.notify_all()

    def wait(self, ready: Callable[[], bool], late: Callable[[], CollectiveError]) -> None:
        """Waits for a condition; raises if a rank has failed, or late() after the timeout."""
        end = time.monotonic() + self.timeout
        while not ready():
            if self.failed:
                rank, why = next(iter(self.failed.items()))
                raise CollectiveError(f"rank {rank} has ended with an error, {self.last[rank]}: "
                                      f"{why}", "fix the error of that rank")
            if not self.changed.wait(end - time.monotonic()) and not ready():
                raise late()


class FakeEngine:
    """The engine of one rank of a fake world."""

    takes_threads = True

    def __init__(self, world: World, rank: int) -> None:
        self.world, self.rank, self.size, self.timeout = world, rank, world.size, world.timeout
        self._rounds: Counter[str] = Counter()
        self.log: list[str] = []  # signatures of the collectives so far

    def begin_group(self, group: ProcessGroup) -> None:
        """Does nothing: a group needs no preparation here."""

    def collective(self, call: CollectiveCall, group: ProcessGroup) -> Any:
        self.log.append(f"{group.name}: {call.signature}")
        calls = self._exchange(call, str(call), group,
                               lambda absent: missing(call, group, absent, self.world.timeout))
        if len({c.signature for c in calls}) > 1:
            raise mismatch([str(c) for c in calls], group.ranks)
        if self.world.delay is not None:
            time.sleep(self.world.delay(call.array.nbytes))
        return combined(call.kind, [c.array for c in calls], group.rank, call.params)

    def _exchange(self, value: Any, text: str, group: ProcessGroup,
                  late: Callable[[dict[int, str]], CollectiveError]) -> list[Any]:
        """The values of all ranks of a group, in its order."""
        world, key = self.world, (group.name, self._rounds[group.name])
        self._rounds[group.name] += 1
        with world.changed:
            world.last[self.rank] = f"last seen at {text}"
            values = world.rounds[key]
            values[self.rank] = value
            world.changed.notify_all()
            world.wait(lambda: len(values) == group.size, lambda: late(
                {r: world.last[r] for r in group.ranks if r not in values}))
            world.taken[key] += 1
            if world.taken[key] == group.size:
                del world.taken[key], world.rounds[key]
        return [values[r] for r in group.ranks]

    def send(self, array: Any, to: int, group: ProcessGroup) -> None:
        with self.world.changed:
            self.world.mail[group.name, group.rank, to].append(array.copy())
            self.world.changed.notify_all()

    def receive(self, source: int, group: ProcessGroup) -> Any:
        world, sender = self.world, group.ranks[source]
        mail = world.mail[group.name, source, group.rank]
        with world.changed:
            world.last[self.rank] = f"last seen in a receive from rank {sender}"
            world.wait(lambda: bool(mail), lambda: CollectiveError(
                f"rank {self.rank} waited {world.timeout:.1f} s for an array of rank {sender}, "
                f"{world.last[sender]}", "look for an error or an endless loop on that rank"))
            return mail.popleft()

    def gather_objects(self, value: Any, group: ProcessGroup, site: str = "") -> list[Any]:
        text = exchange_of_objects(site)
        return self._exchange(value, text, group,
                              lambda absent: missing(text, group, absent, self.world.timeout))

    def describe(self) -> str:
        return "fake, threads of one process"

    def close(self) -> None:
        """Does nothing: the world has no resources."""
