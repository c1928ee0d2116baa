"""Describes this library in the form that the Array API standard asks for."""

from __future__ import annotations

from typing import Any

from ..arrays import dtypes as dtypes_
from ..arrays.devices import name_of, names
from ..core.tensor import STANDARDS

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = STANDARDS[-1]

_STANDARD = [d for d in dtypes_.COMPUTED if d not in (dtypes_.float16, dtypes_.bfloat16)]


class Info:
    """The result of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Support of masks as indices, of shapes that depend on values, and the most axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The name of the device of new tensors: "cpu"."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """The names of all devices for tensors."""
        return names()

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes_.DType]:
        """The default dtypes of Python's numbers and of indices, by kind."""
        name_of(device)
        return {"real floating": dtypes_.float32, "complex floating": dtypes_.complex64,
                "integral": dtypes_.int64, "indexing": dtypes_.int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes_.DType]:
        """The dtypes of the standard by name.

        Args:
            device: a device; all have the same dtypes.
            kind: a kind of `isdtype`, or a tuple of kinds; None for all.

        float16, bfloat16 and smaller ones are left out, as the standard does not have them.
        """
        name_of(device)
        kinds = ("bool", "numeric") if kind is None else kind
        return {d.name: d for d in _STANDARD if dtypes_.isdtype(d, kinds)}


def __array_namespace_info__() -> Info:
    """The capabilities, devices and dtypes of this library.

    Example:
        >>> import fusewire as fw
        >>> fw.__array_namespace_info__().default_device()
        'cpu'
    """
    return Info()
