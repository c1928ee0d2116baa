"""Starts and configures the thread pool of the process: number of threads, polling time, affinity.

The pool runs one job at a time: the caller and every worker that arrives in time take task numbers
off a shared counter until none are left. The caller never waits for a worker that has not started,
so on a busy machine it only loses the help. A second caller, or a job inside a job, runs alone.
Results never depend on the thread that runs a task.

Workers poll for work for a tenth of a millisecond, then sleep. They avoid the caller's processor,
if the system lets them choose. They start on first use, also after a fork, and stop at exit.
Without POSIX threads every job runs on its caller.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
import time
from typing import Any

from ...eager import fork_safety
from ...eager.settings import thread_count
from ..llvm.control_vm import CONTROL_VM
from ..llvm.row_blocks import RUN
from ..llvm.step_table import loop_text
from ..runtime import object_cache
from ..runtime.jit import c_function
from ..runtime.target import host
from ..runtime.thread_pool import PROCESSORS, SERIAL, PoolWord, parallel_text

_NATIVE = (
    "pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_broadcast sched_yield"
).split()
_SETUP = (
    "pthread_create pthread_join pthread_attr_init pthread_attr_setstacksize pthread_sigmask "
    "pthread_mutex_init pthread_cond_init sigfillset"
).split()
_AFFINITY = ["sched_getcpu", "pthread_setaffinity_np"]
_STACK_BYTES = 16 << 20  # of a worker; kernels allocate scratch there
_SPIN_SECONDS = 1e-4
_SIG_SETMASK = 3 if sys.platform == "darwin" else 2
_ENTRIES = ("fusewire_run", "fusewire_rows", "fusewire_steps")


def set_num_threads(count: int) -> None:
    """Uses `count` threads from now on, the caller among them; waits for a running job to end."""
    if count < 1:
        raise ValueError(f"set_num_threads: expected at least 1 thread, got {count}")
    _pool().resize(count)


def get_num_threads() -> int:
    """How many threads a job may run on, the caller among them."""
    return _pool().count


def entry(name: str) -> int:
    """The address of a native function that runs programs (see `llvm/step_table.py`).

    void fusewire_run(program, table, arena)
    void fusewire_rows(a program for rows and their number, table, arena)
    void fusewire_steps(program, table, arena, from, to), of the steps from ... to - 1
    void fusewire_control(image, table, arena), of programs with control flow (`llvm/control_vm.py`)
    """
    code = _pool().code
    return code[name] if name in code else _control_vm_entry(code["fusewire_run"])


@functools.cache
def _control_vm_entry(run: int) -> int:
    """The address of the control VM. It is compiled on first use: that takes as long as all other
    functions together."""
    target = host()
    ir = f"{target.header}{CONTROL_VM}attributes #0 = {{ {target.attributes} }}\n"
    return object_cache.loaded(ir, ["fusewire_control"], {"fusewire_run": run},
                               target)["fusewire_control"]


class _WorkerPool:
    """The workers, and the block of words that they share with callers."""

    def __init__(self) -> None:
        self.count = thread_count()
        self.lock = threading.Lock()
        self.workers: list[ctypes.c_void_p] = []
        self.worker_buffers: list[Any] = []
        memory = (ctypes.c_int64 * (PoolWord.COUNT + 8))()
        offset = -ctypes.addressof(memory) % 64 // 8
        self._keep: list[Any] = [memory]
        self.block = ctypes.addressof(memory) + 8 * offset
        self.words = (ctypes.c_int64 * PoolWord.COUNT).from_address(self.block)
        self.threads = all(c_function(name) for name in (*_NATIVE, *_SETUP))
        self.affinity = self.threads and all(c_function(name) for name in _AFFINITY)
        self._load()
        if self.threads:
            self._prepare()
            if hasattr(os, "register_at_fork"):  # Python warns of forks among other threads
                os.register_at_fork(before=self.stop, after_in_child=self.forget)
            atexit.register(self.stop)

    def _load(self) -> None:
        target = host()
        text = parallel_text(target.triple, self.affinity) if self.threads else SERIAL
        ir = f"{target.header}{text}\n{loop_text()}{RUN}attributes #0 = {{ {target.attributes} }}\n"
        internal_functions = ["raise", "acquire", "release", "pauses",
                              "worker"] if self.threads else []
        used = (_NATIVE if self.threads else []) + (_AFFINITY if self.affinity else [])
        imports = {name: c_function(name) for name in used}
        imports["fusewire_pool"] = self.block
        self.code = object_cache.loaded(ir, [*_ENTRIES, *internal_functions], imports, target)

    def _prepare(self) -> None:
        starter = ctypes.CFUNCTYPE(None)(self.start)
        self._keep.append(starter)
        self.words[PoolWord.STARTER] = ctypes.cast(starter, ctypes.c_void_p).value or 0
        began = time.perf_counter()
        self._native("pauses", 1000)
        seconds_per_pause = max(time.perf_counter() - began, 1e-6) / 1000
        self.words[PoolWord.SPIN] = max(int(_SPIN_SECONDS / seconds_per_pause), 100)
        self.forget()

    def _native(self, name: str, *args: int) -> None:
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(args))
        function(self.code[name])(*args)

    def _c(self, name: str, *args: Any) -> int:
        function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * len(args))
        return int(function(c_function(name))(*args))

    def forget(self) -> None:
        """Sets the words to those of a pool without workers, as a forked child has."""
        self.lock = threading.Lock()
        self.workers = []
        for word in range(PoolWord.SPIN):
            self.words[word] = 0
        for word in (PoolWord.STOP, PoolWord.TEAM, PoolWord.WAITING, PoolWord.ALLOWED,
                     PoolWord.HOME):
            self.words[word] = 0
        self._c("pthread_mutex_init", self.block + 8 * PoolWord.MUTEX, None)
        self._c("pthread_cond_init", self.block + 8 * PoolWord.CONDITION, None)

    def start(self) -> None:
        """Starts the workers; called by the native code of a job that holds the pool."""
        attributes = (ctypes.c_int64 * 32)()
        self._c("pthread_attr_init", ctypes.addressof(attributes))
        self._c("pthread_attr_setstacksize", ctypes.addressof(attributes), _STACK_BYTES)
        # Signals are Python's, and its handlers run in the main thread: workers block them all.
        every, before = (ctypes.c_int64 * 16)(), (ctypes.c_int64 * 16)()
        self._c("sigfillset", ctypes.addressof(every))
        self._c("pthread_sigmask", _SIG_SETMASK, ctypes.addressof(every), ctypes.addressof(before))
        for _ in range(self.count - 1 if fork_safety.alone else 0):
            thread = ctypes.c_void_p()
            handle = ctypes.addressof(thread)
            code = self.code["worker"]
            args = (handle, ctypes.addressof(attributes), code, self.block)
            if self._c("pthread_create", *args) != 0:
                break
            self.workers.append(thread)
        self._c("pthread_sigmask", _SIG_SETMASK, ctypes.addressof(before), None)
        self._publish_workers()
        self.words[PoolWord.TEAM] = 1 + len(self.workers)

    def _publish_workers(self) -> None:
        """Tells native code the workers' handles and the processors that this thread may use."""
        handles = (ctypes.c_void_p * max(len(self.workers), 1))(*self.workers)
        allowed = os.sched_getaffinity(0) if self.affinity else set()
        bits = sum(1 << cpu for cpu in allowed if cpu < PROCESSORS)
        processor_bits = ctypes.create_string_buffer(bits.to_bytes(PROCESSORS // 8, sys.byteorder))
        self.worker_buffers = [handles, processor_bits]
        self.words[PoolWord.HANDLES] = ctypes.addressof(handles)
        self.words[PoolWord.ALLOWED] = ctypes.addressof(processor_bits) if len(allowed) > 1 else 0
        self.words[PoolWord.HOME] = 0

    def stop(self) -> None:
        """Ends the workers; the next job starts them again."""
        if not self.threads:
            return
        with self.lock:
            self._native("acquire", self.block)
            self.words[PoolWord.STOP] = 1
            self._native("raise", self.block, 0)
            for thread in self.workers:
                self._c("pthread_join", thread.value, None)
            self.workers = []
            for word in (PoolWord.STOP, PoolWord.TEAM, PoolWord.SLEEPERS):
                self.words[word] = 0
            self._native("release", self.block)

    def resize(self, count: int) -> None:
        """Changes the number of threads."""
        if count != self.count:
            self.stop()
            self.count = count


_LOCK = fork_safety.held_while_forking(threading.Lock())


def _pool() -> _WorkerPool:
    with _LOCK:
        return _the_pool()


@functools.cache
def _the_pool() -> _WorkerPool:
    return _WorkerPool()
