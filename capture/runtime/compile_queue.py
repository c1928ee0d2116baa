"""Compiles code in a background thread, while calls compute the same graphs op by op.

The process has one such thread. It exists only while there are jobs, and runs one job at a time,
since LLVM compiles one module at a time anyway. A fork waits for the current job, so that a child
process never inherits a half-finished one. The child runs the queued jobs itself when its functions
are called. The end of the process drops all queued jobs.
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
_POLL_SECONDS = 0.1  # a waiter checks this often if a fork has stopped the thread


@contextlib.contextmanager
def making_code() -> Iterator[None]:
    """A context that turns errors into CodegenErrors, unlike the errors of a call's values."""
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


class CompileJob(Generic[T]):
    """A computation that the background thread runs once, while this object is referenced."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._result: T | None = None
        self._error: CodegenError | CheckError | None = None
        self._ended = threading.Event()

    @property
    def is_awaited(self) -> bool:
        """True if the job is unfinished."""
        return not self._ended.is_set()

    @property
    def result(self) -> T | None:
        """The result of a finished job, else None. Raises the error of a failed job."""
        self.look()
        return self._result

    def look(self) -> None:
        """Raises the error of a failed job."""
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        """Runs the job and stores its result or its error."""
        assert self._make is not None
        try:
            with making_code(), seldom_collecting():
                self._result = self._make()
        except (CodegenError, CheckError) as error:
            self._error = error
        finally:
            self.drop()

    def drop(self) -> None:
        """Ends the job and releases its function."""
        self._make = None
        self._ended.set()

    def wait(self) -> None:
        """Returns when the job has finished, failed or been dropped."""
        while self.is_awaited:
            go_on()
            self._ended.wait(_POLL_SECONDS)


class Meanwhile:
    """A graph that is computed op by op until its code is ready.

    Several threads may call it at once.
    """

    def __init__(self, by_ops: Executable, job: CompileJob[Executable]) -> None:
        self._by_ops, self.job = by_ops, job

    @property
    def _program(self) -> Executable:
        with contextlib.suppress(CodegenError, CheckError):  # `ready` raises it
            return self.job.result or self._by_ops
        return self._by_ops

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The graph's outputs for these inputs."""
        if self.job.is_awaited:
            go_on()
        return self._program(arrays)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


def ready(program: Executable) -> Executable:
    """The code of a background program if it is ready, else the program itself.

    Raises the error of a failed compilation.
    """
    return program.job.result or program if isinstance(program, Meanwhile) else program


def code_of(program: Executable | None) -> Executable | None:
    """The code of a program; None if the background thread has not finished it."""
    with contextlib.suppress(CodegenError, CheckError):
        return program.job.result if isinstance(program, Meanwhile) else program
    return None


class Jobs:
    """The background jobs of one function."""

    def __init__(self) -> None:
        self._begun: weakref.WeakSet[CompileJob[Any]] = weakref.WeakSet()

    def begin(self, make: Callable[[], T]) -> CompileJob[T]:
        """Queues a job for the background thread and returns it."""
        job = CompileJob(make)
        self._begun.add(job)
        _begin(job)
        return job

    @property
    def awaited(self) -> int:
        """The number of unfinished jobs."""
        return sum(job.is_awaited for job in list(self._begun))

    def wait(self) -> None:
        """Returns when all jobs have ended."""
        for job in list(self._begun):
            job.wait()


# ---- the thread
_LOCK = held_while_forking(threading.RLock())
_QUEUE: deque[weakref.ref[CompileJob[Any]]] = deque()
_thread: threading.Thread | None = None
_fork_handlers_registered = False  # True if forks wait for the thread
_paused = False  # True while the thread must not begin a job
_shut_down = False  # True once the process ends


def _begin(job: CompileJob[Any]) -> None:
    with _LOCK:
        if _shut_down:
            job.drop()
        else:
            _QUEUE.append(weakref.ref(job))
    go_on()


def go_on() -> None:
    """Starts the thread if there are jobs and no thread, as after a fork."""
    global _thread
    if not _QUEUE or _thread is not None:
        return
    _register_fork_handlers()
    with _LOCK:
        if _QUEUE and _thread is None and not _paused:
            thread = threading.Thread(target=_work, name="fusewire compiles", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads: the next call tries again
                pass
            finally:
                _thread = thread if thread.is_alive() else None


def _work() -> None:
    """The loop of the thread: runs jobs until none is left."""
    global _thread
    while True:
        with _LOCK:
            job = None if _paused else _next()
            if job is None:
                _thread = None
                return
        job.run()
        del job  # its owner may be gone; a reference would keep the job alive


def _next() -> CompileJob[Any] | None:
    """The first queued job with a living owner; None if there is none."""
    while _QUEUE:
        job = _QUEUE.popleft()()
        if job is not None:
            return job
    return None


def _register_fork_handlers() -> None:
    """Registers the fork handlers that wait for the thread.

    Handlers run in reverse order of registration. This one must run before others take locks that
    the thread may need.
    """
    global _fork_handlers_registered
    with _LOCK:
        if _fork_handlers_registered:
            return
        _fork_handlers_registered = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_pause, after_in_parent=_resume,
                            after_in_child=_after_fork_in_child)


def _pause() -> None:
    """Stops the thread after its current job. Queued jobs stay queued."""
    global _paused
    with _LOCK:
        _paused, thread = True, _thread
    if thread is not None and thread is not threading.current_thread():
        thread.join()


def _resume() -> None:
    """Lets the thread begin jobs again."""
    global _paused
    _paused = False


def _after_fork_in_child() -> None:
    """Forgets the thread in a forked process, which has only the forking thread."""
    global _thread
    _thread = None
    _resume()


@atexit.register
def _drop_queued_jobs() -> None:
    """Drops the queued jobs at the end of the process."""
    global _shut_down
    with _LOCK:
        _shut_down = True
    _pause()
    with _LOCK:
        while _QUEUE:
            job = _next()
            if job is not None:
                job.drop()
