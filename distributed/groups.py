"""Starts and ends the process group, and finds groups by their names."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..capture.heap.source_location import user_site
from ..eager.errors import ArgumentError, CollectiveError
from ..eager.settings import settings
from ..eager.upper_layer import register
from .engines.engine import CollectiveCall, Engine, ProcessGroup, exchange_of_objects
from .engines.fake import FakeEngine, World
from .engines.gloo import GlooEngine, is_placed
from .engines.mpi import MpiEngine, is_started_by_mpi
from .engines.nccl import NcclEngine
from .rank_status import RankStatus

_WORLD = "world"


class Membership:
    """The engine of a process, or of a thread in a fake world, and the groups that it is in."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.groups: dict[str, ProcessGroup] = {}
        self.calls: Counter[str] = Counter()  # collectives of each group so far
        self._threads: dict[str, ThreadPoolExecutor] = {}  # of groups with collectives begun

    def add(self, group: ProcessGroup) -> ProcessGroup:
        """A group that begins, or the one of its name that has begun."""
        if group.name not in self.groups:
            self.engine.begin_group(group)
            self.groups[group.name] = group
        return self.groups[group.name]

    def run(self, kind: str, array: Any, params: Mapping[str, Any]) -> Any:
        """The result of a collective on this rank."""
        call, group = self._next(kind, array, params)
        if group.name in self._threads:  # behind the calls that have begun
            return self._threads[group.name].submit(self._carry_out, call, group).result()
        return self._carry_out(call, group)

    def begin(self, kind: str, array: Any, params: Mapping[str, Any]) -> Future[Any]:
        """A Future of the result of a collective. The collectives of a group happen in order, those
        of several groups at once."""
        call, group = self._next(kind, array, params)
        if not self.engine.takes_threads:
            done: Future[Any] = Future()
            done.set_result(self._carry_out(call, group))
            return done
        if group.name not in self._threads:
            self._threads[group.name] = ThreadPoolExecutor(1, f"collectives of {group.name}")
        return self._threads[group.name].submit(self._carry_out, call, group)

    def _next(self, kind: str, array: Any, params: Mapping[str, Any]
              ) -> tuple[CollectiveCall, ProcessGroup]:
        name = params["group"]
        group = self.groups.get(name)
        if group is None or group.size != params["size"]:
            raise CollectiveError(
                f"{kind}: a group {name!r} of {params['size']} ranks does not exist here",
                "a compiled function was traced for other groups: call its clear()")
        self.calls[name] += 1
        return CollectiveCall(kind, array, params, self.calls[name]), group

    def _carry_out(self, call: CollectiveCall, group: ProcessGroup) -> Any:
        _note(call, group)
        return self.engine.collective(call, group)

    def gather_objects(self, value: Any, group: ProcessGroup, site: str) -> list[Any]:
        """The objects of all ranks of a group. `site`: the user's line."""
        _note(f"{exchange_of_objects(site)}, after {self.calls[group.name]} collectives", group)
        return self.engine.gather_objects(value, group, site)

    def close(self, wait: bool) -> None:
        """Ends the threads; with `wait` after their work."""
        for threads in self._threads.values():
            threads.shutdown(wait, cancel_futures=not wait)
        self._threads.clear()


class _Memberships(threading.local):
    """The membership of a thread of a fake world; other threads use that of the process."""

    own: Membership | None = None


_PROCESS: list[Membership] = []  # at most one
_THREAD = _Memberships()


def membership() -> Membership:
    """The membership of this process or thread. CollectiveError before init_process_group."""
    found = _THREAD.own or (_PROCESS[0] if _PROCESS else None)
    if found is None:
        raise CollectiveError("there is no process group",
                              "call fusewire.distributed.init_process_group() first")
    return found


def is_initialized() -> bool:
    """True between init_process_group and destroy_process_group."""
    return _THREAD.own is not None or bool(_PROCESS)


def init_process_group(backend: str | None = None, timeout: float | None = None) -> ProcessGroup:
    """The group of all ranks, after joining it.

    Args:
        backend: "mpi" under `fusewire launch`, mpiexec or srun; "gloo" where the variables RANK,
            WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set, as under Ray; "nccl" for GPUs, beside
            one of these, which has not run on GPUs yet; "fake" for a world of one rank. None
            chooses "mpi", "gloo" or "fake".
        timeout: seconds to wait for other ranks in a collective, by default
            `fw.settings.distributed_timeout`, 600.

    Raises:
        ArgumentError: the back end is unknown, or there is a process group already.
    """
    if is_initialized():
        raise ArgumentError("init_process_group: there is a process group already",
                            "call it once, or destroy_process_group() first")
    seconds = settings.distributed_timeout if timeout is None else float(timeout)
    engine = _engine(backend or _started(), seconds)
    _PROCESS.append(_joined(engine))
    return get_group(None)


def _started() -> str:
    """The engine for ranks that were started as this one was."""
    return "mpi" if is_started_by_mpi() else "gloo" if is_placed() else "fake"


def _engine(backend: str, timeout: float) -> Engine:
    engines: dict[str, Callable[[], Engine]] = {
        "mpi": lambda: MpiEngine(timeout), "gloo": lambda: GlooEngine(timeout),
        "nccl": lambda: NcclEngine((MpiEngine if _started() == "mpi" else GlooEngine)(timeout)),
        "fake": lambda: FakeEngine(World(1, timeout), 0)}
    if backend not in engines:
        raise ArgumentError(f"init_process_group: unknown back end {backend!r}",
                            f"it is one of {', '.join(map(repr, engines))}")
    return engines[backend]()


def _joined(engine: Engine) -> Membership:
    register(collective=_run, begin_collective=_begin)
    own = Membership(engine)
    own.add(ProcessGroup(_WORLD, tuple(range(engine.size)), engine.rank))
    return own


def destroy_process_group() -> None:
    """Leaves all groups. All ranks call this, after their last collective."""
    if _THREAD.own is None and _PROCESS:
        own = _PROCESS.pop()
        own.close(wait=True)
        own.engine.close()


def run_fake(size: int, function: Callable[..., Any], *args: Any, timeout: float = 60.0,
             delay: Callable[[int], float] | None = None) -> list[Any]:
    """The results of function(*args) on each of `size` ranks, which are threads of this process.

    The threads compute one after the other in parts, as Python's threads do: this tests programs,
    and makes none faster. The first error of a rank is raised here.

    Args:
        size: number of ranks.
        function: called on each rank, where `get_rank()` tells which one it is.
        timeout: seconds that a rank waits for others.
        delay: delay(bytes) is the time in seconds that a collective takes, to imitate a network.
    """
    world = World(size, timeout, delay)
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        _THREAD.own = own = _joined(FakeEngine(world, rank))
        try:
            results[rank] = function(*args)
        except BaseException as error:
            errors.append(error)
            world.fail(rank, error)
        finally:
            own.close(wait=False)
            _THREAD.own = None

    threads = [threading.Thread(target=work, args=(rank,), name=f"rank {rank}", daemon=True)
               for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def get_group(group: ProcessGroup | None) -> ProcessGroup:
    """`group`, or the group of all ranks for None."""
    return membership().groups[_WORLD] if group is None else group


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in a group, by default of all ranks; 0 without a process group."""
    return get_group(group).rank if group is not None or is_initialized() else 0


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of ranks of a group, by default of all; 1 without a process group."""
    return get_group(group).size if group is not None or is_initialized() else 1


def get_local_rank() -> int:
    """The number of this process on its machine, from the launcher's environment variables."""
    for name in ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        if name in os.environ:
            return int(os.environ[name])
    return get_rank()


def new_group(ranks: Sequence[int]) -> ProcessGroup | None:
    """The group of some ranks, in this order; None on ranks outside of it.

    Args:
        ranks: numbers of the world. All these ranks call `new_group` with the same ones.

    Raises:
        ArgumentError: a rank is listed twice or does not exist.
    """
    own, numbers = membership(), tuple(ranks)
    if len(set(numbers)) != len(numbers) or not set(numbers) <= set(range(own.engine.size)):
        raise ArgumentError(f"new_group: {list(ranks)} are no distinct ranks of 0 ... "
                            f"{own.engine.size - 1}", "list each rank once")
    if own.engine.rank not in numbers:
        return None
    name = "ranks " + " ".join(map(str, numbers))
    return own.add(ProcessGroup(name, numbers, numbers.index(own.engine.rank)))


def _run(kind: str, array: Any, params: Mapping[str, Any]) -> Any:
    """The result of a collective on this rank; `UPPER.collective`."""
    return membership().run(kind, array, params)


def _begin(kind: str, array: Any, params: Mapping[str, Any]) -> Future[Any]:
    """A Future of the result of a collective; `UPPER.begin_collective`."""
    return membership().begin(kind, array, params)


_STATUS: list[RankStatus] = []  # of a launched rank, at most one


def set_status(status: RankStatus | None) -> None:
    """Sets the file in which this process notes its collectives."""
    _STATUS[:] = [] if status is None else [status]


def _note(call: object, group: ProcessGroup) -> None:
    if _STATUS:
        _STATUS[0].note(f"last seen at {call} of group {group.name!r}")


def where() -> str:
    """The line of the user's program that runs now, as a param of a collective."""
    return user_site()
