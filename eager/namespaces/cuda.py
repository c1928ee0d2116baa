"""`fw.cuda`: which GPUs there are, which is current, streams, and what memory is in use.

The names are PyTorch's. CuPy does the work; DeviceError, with what to install, where it cannot.
"""

from __future__ import annotations

from typing import Any

from ..arrays import devices
from ..errors import DeviceError
from ..ops.random import generator

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "is_available", "manual_seed", "manual_seed_all",
    "mem_get_info", "memory_allocated", "memory_reserved", "set_device", "stream", "synchronize",
]


# ---- devices
def is_available() -> bool:
    """Whether tensors can be on a GPU: there are a driver, a GPU and CuPy.

    >>> import fusewire as fw
    >>> device = "cuda" if fw.cuda.is_available() else "cpu"
    """
    return devices.available()


def device_count() -> int:
    """How many GPUs tensors can be on."""
    return devices.count()


def current_device() -> int:
    """The number of the GPU that "cuda" means, in this thread."""
    return int(devices.cupy().cuda.runtime.getDevice())


def set_device(device: Any) -> None:
    """Makes a GPU, by its name or number, the one that "cuda" means in this thread."""
    _of(device).use()


class device:
    """A context in which a GPU is the current one; None changes nothing."""

    def __init__(self, device: Any) -> None:
        self._entered = None if device is None else _of(device)

    def __enter__(self) -> device:
        if self._entered is not None:
            self._entered.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._entered is not None:
            self._entered.__exit__(*error)


def _of(device: Any) -> Any:
    """CuPy's object for a GPU; None is the current one."""
    name = devices.name_of("cuda" if device is None else device)
    if name == devices.CPU:
        raise DeviceError(f"device {device!r} is no GPU", 'GPUs are "cuda:0", "cuda:1", ...')
    return devices.current(name)


def get_device_name(device: Any = None) -> str:
    """What the maker calls a GPU, by default the current one."""
    found = devices.cupy().cuda.runtime.getDeviceProperties(_of(device).id)["name"]
    return found.decode() if isinstance(found, bytes) else str(found)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU: (9, 0) of an H100."""
    digits = str(_of(device).compute_capability)
    return int(digits[:-1]), int(digits[-1])


def synchronize(device: Any = None) -> None:
    """Waits until a GPU, by default the current one, has done all that it was given."""
    _of(device).synchronize()


# ---- streams
class Stream:
    """A queue of work for a GPU: what is in one is done in order, several are done side by side.

    As a context, or through `fw.cuda.stream(s)`, the queue that ops go to in this thread. Memory of
    tensors that two streams use must be waited for: `wait_stream`, `wait_event`, `synchronize`.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        with _of(device):
            self.cupy = devices.cupy().cuda.Stream(non_blocking=True, priority=priority)

    @classmethod
    def of(cls, cupy: Any) -> Stream:
        """A stream of CuPy's as one of ours."""
        made = cls.__new__(cls)
        made.cupy = cupy
        return made

    def __enter__(self) -> Stream:
        self.cupy.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.cupy.__exit__(*error)

    def synchronize(self) -> None:
        """Waits until all that is in this stream is done."""
        self.cupy.synchronize()

    def query(self) -> bool:
        """Whether all that is in this stream is done."""
        return bool(self.cupy.done)

    def record_event(self, event: Event | None = None) -> Event:
        """An event, by default a new one, that happens when what is in this stream now is done."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def wait_event(self, event: Event) -> None:
        """Lets what comes next in this stream wait for an event; Python goes on."""
        self.cupy.wait_event(event.cupy)

    def wait_stream(self, stream: Stream) -> None:
        """Lets what comes next in this stream wait for what is in another one now."""
        self.wait_event(stream.record_event())


class Event:
    """A point in a stream."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.cupy = devices.cupy().cuda.Event(disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Puts this event at the present end of a stream, by default the current one."""
        self.cupy.record((stream or current_stream()).cupy)

    def wait(self, stream: Stream | None = None) -> None:
        """Lets what comes next in a stream, by default the current one, wait for this event."""
        (stream or current_stream()).wait_event(self)

    def synchronize(self) -> None:
        """Waits until this event has happened."""
        self.cupy.synchronize()

    def query(self) -> bool:
        """Whether this event has happened."""
        return bool(self.cupy.done)

    def elapsed_time(self, end: Event) -> float:
        """The milliseconds from this event to `end`; both with enable_timing."""
        return float(devices.cupy().cuda.get_elapsed_time(self.cupy, end.cupy))


def current_stream() -> Stream:
    """The stream that ops go to in this thread."""
    return Stream.of(devices.cupy().cuda.get_current_stream())


def stream(stream: Stream) -> Stream:
    """`stream`, as a context in which ops go to it."""
    return stream


# ---- memory
def memory_allocated(device: Any = None) -> int:
    """The bytes that tensors, and all else of CuPy's, hold on a GPU."""
    with _of(device):
        return int(devices.cupy().get_default_memory_pool().used_bytes())


def memory_reserved(device: Any = None) -> int:
    """The same with the bytes that are kept for later tensors."""
    with _of(device):
        return int(devices.cupy().get_default_memory_pool().total_bytes())


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes of a GPU that are free, for any program, and all of them."""
    free, total = _of(device).mem_info
    return int(free), int(total)


def empty_cache() -> None:
    """Gives the memory that is kept for later tensors back to the GPUs; without CuPy, nothing."""
    if devices.in_use:
        devices.cupy().get_default_memory_pool().free_all_blocks()


# ---- random numbers: there is one stream of them, whatever device they are made on
def manual_seed(seed: int) -> None:
    """`fw.manual_seed`: numbers on a GPU are those of the CPU."""
    generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """`fw.manual_seed`: numbers on a GPU are those of the CPU."""
    generator.manual_seed(seed)
