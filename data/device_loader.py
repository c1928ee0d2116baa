"""Brings batches to the device ahead of the loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from queue import Empty, Full, Queue
from typing import Any

import fusewire as fw

_POLL_SECONDS = 0.1  # how soon the thread sees that the loop has ended
_BATCH, _ERROR, _END = range(3)


class DeviceLoader:
    """The batches of a loader on a device, of which some are moved ahead in a thread.

    `state_dict` is the position of the loop, not that of the thread, so a run resumes with the
    first batch that the loop did not get. The first batch is read in the loop: then the loader has
    drawn its seed, and later random numbers of the loop stay the same as without this loader.

    Args:
        loader: an iterable of batches, such as a DataLoader.
        device: to which tensors in batches move.
        ahead: batches that are moved ahead. Default 2.
        timeout: seconds to wait for a batch; 0 for no limit. Default 0.

    Raises:
        ArgumentError: `ahead` is less than 1.
        WorkerError: in the loop, if no batch came within `timeout`.

    Example:
        >>> import fusewire as fw
        >>> data = fw.utils.data.TensorDataset(fw.arange(4))
        >>> loader = fw.data.DeviceLoader(fw.utils.data.DataLoader(data, 2), "cpu")
        >>> [x.tolist() for x, in loader]
        [[0, 1], [2, 3]]
    """

    def __init__(self, loader: Any, device: str, ahead: int = 2, timeout: float = 0) -> None:
        if ahead < 1:
            raise fw.ArgumentError(f"DeviceLoader: ahead={ahead} is less than 1",
                                   "without batches ahead, move them in the loop")
        self.loader, self.device, self.ahead, self.timeout = loader, device, ahead, timeout
        self._state: dict[str, Any] | None = None  # of the batch that the loop has

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        queue: Queue[tuple[int, Any, Any]] = Queue(self.ahead)
        stop = threading.Event()
        try:
            first = self._read(batches)
            if first[0] == _BATCH:
                threading.Thread(target=self._run, args=(batches, queue, stop), daemon=True,
                                 name="fusewire-device-loader").start()
            yield from self._received(first, queue)
        finally:
            stop.set()

    def _received(self, entry: tuple[int, Any, Any], queue: Queue[Any]) -> Iterator[Any]:
        number = 0
        while entry[0] == _BATCH:
            self._state = entry[2]
            yield entry[1]
            number += 1
            try:
                entry = queue.get(timeout=self.timeout or None)
            except Empty:
                raise fw.WorkerError(
                    f"DeviceLoader: batch number {number} did not come within "
                    f"timeout={self.timeout} seconds from {type(self.loader).__name__}",
                    "give its DataLoader a timeout too, which names the worker") from None
        if entry[0] == _ERROR:
            raise entry[1]
        self._state = entry[2]

    def _run(self, batches: Iterator[Any], queue: Queue[Any], stop: threading.Event) -> None:
        """The thread: reads batches until their end, an error, or the end of the loop."""
        kind = _BATCH
        while kind == _BATCH and not stop.is_set():
            entry = self._read(batches)
            kind = entry[0]
            while not stop.is_set():
                try:
                    queue.put(entry, timeout=_POLL_SECONDS)
                    break
                except Full:
                    continue
        close = getattr(batches, "close", None)
        if close is not None:
            close()  # ends the workers of the pass

    def _read(self, batches: Iterator[Any]) -> tuple[int, Any, Any]:
        """The next batch on the device, or the end, with the loader's state after it."""
        try:
            batch = moved(next(batches), self.device)
            return _BATCH, batch, self._loader_state()
        except StopIteration:
            return _END, None, self._loader_state()
        except BaseException as error:
            return _ERROR, error, None

    def _loader_state(self) -> Any:
        state = getattr(self.loader, "state_dict", None)
        return None if state is None else state()

    def state_dict(self) -> dict[str, Any]:
        """The position of the loop, for `load_state_dict`: that of the loader after its batch."""
        return self.loader.state_dict() if self._state is None else self._state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next pass continue where `state_dict` was taken."""
        self.loader.load_state_dict(state_dict)
        self._state = None


def moved(batch: Any, device: str) -> Any:
    """A batch with its tensors on a device; containers keep their types, other values stay.

    Args:
        batch: tensors in dicts, lists and tuples.
        device: the name of a device.

    Example:
        >>> import fusewire as fw
        >>> fw.data.moved({"x": fw.ones(2), "name": "a"}, "cpu")
        {'x': tensor([1., 1.]), 'name': 'a'}
    """
    if isinstance(batch, fw.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return type(batch)({name: moved(value, device)  # type: ignore[call-arg]
                            for name, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(value, device) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(moved(value, device) for value in batch)
    return batch
