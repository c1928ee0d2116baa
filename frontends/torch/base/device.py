"""Names of devices with the attributes of PyTorch's `torch.device`."""

from __future__ import annotations

from typing import Any

from ....eager.errors import DeviceError


class device(str):
    """A device: its name as text, with its `type` and `index`."""

    __slots__ = ()
    __module__ = "fusewire.torch"

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> Any:
        if isinstance(type, int):
            type, index = "cuda", type
        name = str(type) if index is None else f"{type}:{index}"
        if name.partition(":")[0] == "cpu":
            name = "cpu"
        return str.__new__(cls, name)

    @property
    def type(self) -> str:
        """The kind of device: "cpu" or "cuda"."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """The number of the device, or None for the current one."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __enter__(self) -> Any:
        if self.type != "cpu":
            raise DeviceError(f"`with {self!r}:` is not supported",
                              "name the device: torch.zeros(3, device=device)")
        return self

    def __exit__(self, *error: object) -> None:
        pass
