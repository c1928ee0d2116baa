"""Provides `fw.cuda`: GPUs, the current GPU, streams, and memory in use.

The names are PyTorch's. CuPy does the work; DeviceError says what to install if it cannot.
"""

from __future__ import annotations

from typing import Any

from ..arrays import devices
from ..errors import DeviceError
from ..ops.random import generator
from .cupy_kernels import cupy
from .device import CUDA

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "is_available", "manual_seed", "manual_seed_all",
    "mem_get_info", "memory_allocated", "memory_reserved", "set_device", "stream", "synchronize",
]


# ---- devices
def is_available() -> bool:
    """True if tensors can be on a GPU: there are a driver, a GPU and CuPy.

    Example:
        >>> import fusewire as fw
        >>> device = "cuda" if fw.cuda.is_available() else "cpu"
    """
    return CUDA.count() > 0


def device_count() -> int:
    """The number of GPUs for tensors; 0 without a driver or CuPy."""
    return CUDA.count()


def current_device() -> int:
    """The number of the GPU that "cuda" means in this thread.

    Raises:
        DeviceError: no GPU is available.
    """
    return int(_cupy().cuda.runtime.getDevice())


def set_device(device: Any) -> None:
    """Makes a GPU the one that "cuda" means in this thread.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1".

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """
    _of(device).use()


class device:
    """A context in which a GPU is the current one.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1"; None has no effect.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """

    def __init__(self, device: Any) -> None:
        self._entered = None if device is None else _of(device)

    def __enter__(self) -> device:
        if self._entered is not None:
            self._entered.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._entered is not None:
            self._entered.__exit__(*error)


def _cupy() -> Any:
    """CuPy. DeviceError, which says what to install, if it cannot be used."""
    devices.load(CUDA.name)
    return cupy()


def _of(device: Any) -> Any:
    """CuPy's object for a GPU; None is the current one."""
    name = devices.name_of("cuda" if device is None else device)
    if devices.type_of(name) is not CUDA:
        raise DeviceError(f"device {device!r} is not a GPU", 'GPUs are "cuda:0", "cuda:1", ...')
    return devices.current(name)


def get_device_name(device: Any = None) -> str:
    """The product name of a GPU.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1"; None is the current one.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """
    name = _cupy().cuda.runtime.getDeviceProperties(_of(device).id)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, such as (9, 0) of an H100.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1"; None is the current one.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """
    digits = str(_of(device).compute_capability)
    return int(digits[:-1]), int(digits[-1])


def synchronize(device: Any = None) -> None:
    """Waits until a GPU has completed all its work.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1"; None is the current one.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """
    _of(device).synchronize()


# ---- streams
class Stream:
    """A queue of work for a GPU; work in one stream runs in sequence, streams run in parallel.

    As a context, or in `fw.cuda.stream(s)`, it receives the ops of this thread. Before a stream
    uses a tensor of another stream it has to wait: `wait_stream`, `wait_event`, `synchronize`.

    Args:
        device: a GPU's number or name; None is the current one.
        priority: of the stream's work; lower numbers come first.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        with _of(device):
            self.cupy = _cupy().cuda.Stream(non_blocking=True, priority=priority)

    @classmethod
    def of(cls, cupy: Any) -> Stream:
        """A Stream for a stream of CuPy."""
        stream = cls.__new__(cls)
        stream.cupy = cupy
        return stream

    @property
    def cuda_stream(self) -> int:
        """The address of the stream, for libraries that take one (`cudaStream_t`)."""
        return int(self.cupy.ptr)

    def __enter__(self) -> Stream:
        self.cupy.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.cupy.__exit__(*error)

    def synchronize(self) -> None:
        """Waits until all work in this stream is complete."""
        self.cupy.synchronize()

    def query(self) -> bool:
        """True if all work in this stream is complete."""
        return bool(self.cupy.done)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that happens when the present work of this stream is complete.

        Args:
            event: the event to record; None makes a new one.
        """
        recorded = Event() if event is None else event
        recorded.record(self)
        return recorded

    def wait_event(self, event: Event) -> None:
        """Lets later work of this stream wait for an event, without blocking Python."""
        self.cupy.wait_event(event.cupy)

    def wait_stream(self, stream: Stream) -> None:
        """Lets later work of this stream wait for the present work of another."""
        self.wait_event(stream.record_event())


class Event:
    """A point in a stream.

    Args:
        enable_timing: True records the time, for `elapsed_time`. Default False.

    Raises:
        DeviceError: no GPU is available.
    """

    def __init__(self, enable_timing: bool = False) -> None:
        self.cupy = _cupy().cuda.Event(disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Puts this event at the present end of a stream; None is the current one."""
        self.cupy.record((stream or current_stream()).cupy)

    def wait(self, stream: Stream | None = None) -> None:
        """Lets later work of a stream wait for this event; None is the current stream."""
        (stream or current_stream()).wait_event(self)

    def synchronize(self) -> None:
        """Waits until this event has happened."""
        self.cupy.synchronize()

    def query(self) -> bool:
        """True if this event has happened."""
        return bool(self.cupy.done)

    def elapsed_time(self, end: Event) -> float:
        """The milliseconds from this event to `end`; both need enable_timing."""
        return float(_cupy().cuda.get_elapsed_time(self.cupy, end.cupy))


def current_stream() -> Stream:
    """The stream that receives the ops of this thread.

    Raises:
        DeviceError: no GPU is available.
    """
    return Stream.of(_cupy().cuda.get_current_stream())


def stream(stream: Stream) -> Stream:
    """`stream`, as a context in which it receives the ops of this thread."""
    return stream


# ---- memory
def memory_allocated(device: Any = None) -> int:
    """The bytes of all arrays of CuPy on a GPU, tensors among them.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1"; None is the current one.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """
    with _of(device):
        return int(_cupy().get_default_memory_pool().used_bytes())


def memory_reserved(device: Any = None) -> int:
    """The bytes of all arrays of CuPy on a GPU and of the memory cached for later arrays.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1"; None is the current one.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """
    with _of(device):
        return int(_cupy().get_default_memory_pool().total_bytes())


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free bytes of a GPU, for any program, and the total.

    Args:
        device: a GPU's number or name, such as 1 or "cuda:1"; None is the current one.

    Raises:
        DeviceError: the device is not available, or not a GPU.
    """
    free, total = _of(device).mem_info
    return int(free), int(total)


def empty_cache() -> None:
    """Returns the memory that is cached for later arrays to the GPUs; no effect without CuPy."""
    if CUDA.array_type in devices.LOADED:
        cupy().get_default_memory_pool().free_all_blocks()


# ---- random numbers: one stream of them serves all devices
def manual_seed(seed: int) -> None:
    """Sets the seed of all random numbers, as `fw.manual_seed`: GPUs and the CPU share them.

    Args:
        seed: int.
    """
    generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Sets the seed of all random numbers, as `fw.manual_seed`: GPUs and the CPU share them.

    Args:
        seed: int.
    """
    generator.manual_seed(seed)
