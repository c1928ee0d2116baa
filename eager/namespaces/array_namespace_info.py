"""What this array library offers, as the Array API standard asks for it."""

from __future__ import annotations

from typing import Any

from ..arrays import dtypes as dtypes_
from ..arrays.devices import name_of, names
from ..core.tensor import STANDARDS

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = STANDARDS[-1]

_STANDARD = [d for d in dtypes_.DTYPES.values() if d not in (dtypes_.float16, dtypes_.bfloat16)]


class Info:
    """The namespace of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """What is supported: masks as indices, shapes that depend on values, how many axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device on which tensors are made unless another is asked for."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """All devices that tensors can be on."""
        return names()

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes_.DType]:
        """The dtypes that Python's numbers, and indices, have by default."""
        name_of(device)
        return {"real floating": dtypes_.float32, "complex floating": dtypes_.complex64,
                "integral": dtypes_.int64, "indexing": dtypes_.int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes_.DType]:
        """The dtypes of the standard by name; of one `kind` of `isdtype`, or of several.

        float16 and bfloat16, which the standard does not have, are not among them.
        """
        name_of(device)
        kinds = ("bool", "numeric") if kind is None else kind
        return {d.name: d for d in _STANDARD if dtypes_.isdtype(d, kinds)}


def __array_namespace_info__() -> Info:
    """What this array library offers: capabilities, devices and dtypes.

    >>> import fusewire as fw
    >>> fw.__array_namespace_info__().default_device()
    'cpu'
    """
    return Info()
