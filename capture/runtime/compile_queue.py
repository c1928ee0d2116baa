"""Code made by another thread, while calls compute op by op what it is for.

The process has one such thread, there while there is work: it makes one thing after the other, as
LLVM does anyway. A fork waits until it has finished what it is at, so that a child finds nothing
half made; what was not begun the child makes by itself once it is called there. When the process
ends, what was not begun is dropped.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...eager.errors import CheckError, CodegenError, MemoryShortage
from ...eager.fork_safety import held_while_forking
from .gc_pause import seldom_collecting

if TYPE_CHECKING:
    from ..segments.segment import Executable

T = TypeVar("T")
_MOMENT = 0.1  # seconds after which who waits looks whether a fork has stopped the thread


@contextlib.contextmanager
def making_code() -> Iterator[None]:
    """A context whose errors are CodegenErrors: never taken for an error of a call's values."""
    try:
        yield
    except (CodegenError, CheckError):
        raise
    except MemoryError as error:
        raise MemoryShortage from error
    except Exception as error:
        raise CodegenError(f"code generation failed: {type(error).__name__}: {error}",
                           "this is a bug in fusewire; the function runs without compiled code"
                           ) from error


class Job(Generic[T]):
    """Something to be made once by another thread, for as long as somebody holds this."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: T | None = None
        self._error: CodegenError | CheckError | None = None
        self._ended = threading.Event()

    @property
    def is_awaited(self) -> bool:
        """True if the job is unfinished."""
        return not self._ended.is_set()

    @property
    def made(self) -> T | None:
        """What was made, once it is there. Raises what kept it from being made."""
        self.look()
        return self._made

    def look(self) -> None:
        """Raises what kept it from being made."""
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        """Makes it."""
        assert self._make is not None
        try:
            with making_code(), seldom_collecting():
                self._made = self._make()
        except (CodegenError, CheckError) as error:
            self._error = error
        finally:
            self.drop()

    def drop(self) -> None:
        """Nothing is made any more."""
        self._make = None
        self._ended.set()

    def wait(self) -> None:
        """Returns when it is made, or never will be."""
        while self.is_awaited:
            go_on()
            self._ended.wait(_MOMENT)


class Meanwhile:
    """A graph that is computed op by op until its code is there. Calls may come from several
    threads at once."""

    def __init__(self, by_ops: Executable, job: Job[Executable]) -> None:
        self._by_ops, self.job = by_ops, job

    @property
    def _program(self) -> Executable:
        with contextlib.suppress(CodegenError, CheckError):  # `ready` raises it
            return self.job.made or self._by_ops
        return self._by_ops

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The graph's outputs for these inputs."""
        if self.job.is_awaited:
            go_on()
        return self._program(arrays)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


def ready(program: Executable) -> Executable:
    """What to call from now on: the code of a program that another thread makes, once it is there.
    Raises what kept it from being made."""
    return program.job.made or program if isinstance(program, Meanwhile) else program


def code_of(program: Executable | None) -> Executable | None:
    """A program that is code, or has become code; None for one that has none so far."""
    with contextlib.suppress(CodegenError, CheckError):
        return program.job.made if isinstance(program, Meanwhile) else program
    return None


class Jobs:
    """The background jobs of one function."""

    def __init__(self) -> None:
        self._begun: weakref.WeakSet[Job[Any]] = weakref.WeakSet()

    def begin(self, make: Callable[[], T]) -> Job[T]:
        """A job for the other thread."""
        job = Job(make)
        self._begun.add(job)
        _begin(job)
        return job

    @property
    def awaited(self) -> int:
        """The number of unfinished jobs."""
        return sum(job.is_awaited for job in list(self._begun))

    def wait(self) -> None:
        """Returns when all of them have ended."""
        for job in list(self._begun):
            job.wait()


# ---- the thread
_LOCK = held_while_forking(threading.RLock())
_QUEUE: deque[weakref.ref[Job[Any]]] = deque()
_thread: threading.Thread | None = None
_watches = False  # whether forks wait for the thread
_rests = False  # whether it is to begin nothing
_over = False  # whether the process ends


def _begin(job: Job[Any]) -> None:
    with _LOCK:
        if _over:
            job.drop()
        else:
            _QUEUE.append(weakref.ref(job))
    go_on()


def go_on() -> None:
    """Sees to it that there is a thread while there is work: a fork has left none."""
    global _thread
    if not _QUEUE or _thread is not None:
        return
    _watch()
    with _LOCK:
        if _QUEUE and _thread is None and not _rests:
            thread = threading.Thread(target=_work, name="fusewire compiles", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there can be no more threads: the next call tries again
                pass
            finally:
                _thread = thread if thread.is_alive() else None


def _work() -> None:
    """The loop of the thread: runs jobs until none is left."""
    global _thread
    while True:
        with _LOCK:
            job = None if _rests else _next()
            if job is None:
                _thread = None
                return
        job.run()
        del job  # who made it may have gone


def _next() -> Job[Any] | None:
    """The first queued job with a living owner; None if there is none."""
    while _QUEUE:
        job = _QUEUE.popleft()()
        if job is not None:
            return job
    return None


def _watch() -> None:
    """Has forks wait for the thread. What is registered last is called first: before any lock is
    taken that the thread may need."""
    global _watches
    with _LOCK:
        if _watches:
            return
        _watches = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_rest, after_in_parent=_wake, after_in_child=_alone)


def _rest() -> None:
    """Returns when the thread has ended, which leaves what it has not begun."""
    global _rests
    with _LOCK:
        _rests, thread = True, _thread
    if thread is not None and thread is not threading.current_thread():
        thread.join()


def _wake() -> None:
    """Work may go on."""
    global _rests
    _rests = False


def _alone() -> None:
    """In a forked process there is no other thread."""
    global _thread
    _thread = None
    _wake()


@atexit.register
def _end() -> None:
    """Drops what was not begun."""
    global _over
    with _LOCK:
        _over = True
    _rest()
    with _LOCK:
        while _QUEUE:
            job = _next()
            if job is not None:
                job.drop()
