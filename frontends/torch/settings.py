"""Process-wide settings of PyTorch: those that make no difference here are accepted."""

from __future__ import annotations

from typing import Any

from ...eager.errors import ArgumentError
from .base.device import device
from .base.package import fw


def get_default_dtype() -> Any:
    """float32."""
    return fw.float32


def set_default_dtype(d: Any) -> None:
    """Accepts float32; an ArgumentError for any other dtype."""
    if d != fw.float32:
        raise ArgumentError(f"set_default_dtype: the default dtype is float32, not {d}",
                            "give dtype= to each function, or call model.double()")


def set_default_tensor_type(t: Any) -> None:
    """Accepts the type of float32 on the CPU; an ArgumentError for others."""
    set_default_dtype(getattr(t, "dtype_of_elements", fw.float32))


def get_default_device() -> Any:
    """The CPU."""
    return device("cpu")


def set_default_device(device: Any) -> None:
    """Accepts the CPU; an ArgumentError for other devices."""
    if str(device) != "cpu":
        raise ArgumentError(f"set_default_device: the default is the CPU, not {device}",
                            'name the device: torch.zeros(3, device="cuda"), model.to("cuda")')


def set_float32_matmul_precision(precision: str) -> None:
    """No effect: products of float32 are computed in float32."""


def get_float32_matmul_precision() -> str:
    """The precision of products of float32."""
    return "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """No effect: equal calls have equal results."""


def are_deterministic_algorithms_enabled() -> bool:
    """True: equal calls have equal results."""
    return True


def set_num_interop_threads(threads: int) -> None:
    """No effect: operations run one after the other."""


def set_flush_denormal(mode: bool) -> bool:
    """False: subnormal numbers stay as they are."""
    return False


def set_warn_always(mode: bool) -> None:
    """No effect."""
