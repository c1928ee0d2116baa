"""Convertible: the methods of Module that cast its tensors or move them to a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...arrays import dtypes
from ...arrays.devices import name_of
from ...arrays.dtypes import as_dtype, kind
from ...core.in_place import replace
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError
from ...ops.create import empty_like
from .parameter import Unknown, is_lazy

if TYPE_CHECKING:
    from typing_extensions import Self


class Convertible:
    """The methods of `Module` that change the dtype or the device of all its tensors."""

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """This module with its tensors moved to a device and floating point ones cast to a dtype.

        Called as to(device=None, dtype=None, non_blocking=False), to(dtype, non_blocking=False) or
        to(tensor, non_blocking=False), which takes device and dtype of the tensor. non_blocking and
        memory_format have no effect.

        Raises:
            DTypeError: dtype is not a floating point dtype.
            ArgumentError: more positional arguments.
        """
        device, dtype = _target_of(type(self).__name__, *args, **kwargs)
        target = None if device is None else name_of(device)
        if dtype is None:
            return self if target is None else self._apply(lambda t: _cast(t, t.dtype, "", target))
        if kind(dtype) not in "fc":
            raise DTypeError(f"{type(self).__name__}.to: {dtype.name} is no floating point dtype",
                             "parameters need one, such as fw.float32")
        kinds = "f" if kind(dtype) == "f" else "fc"  # complex parameters stay complex
        return self._apply(lambda t: _cast(t, dtype, kinds, target))

    def type(self, dst_type: Any) -> Self:
        """This module with all of its tensors, integers too, in the dtype `dst_type`."""
        dtype = as_dtype(dst_type)
        return self._apply(lambda t: _cast(t, dtype, "biufc"))

    def float(self) -> Self:
        """This module with its floating point parameters and buffers in float32."""
        return self._floats(dtypes.float32)

    def double(self) -> Self:
        """This module with its floating point parameters and buffers in float64."""
        return self._floats(dtypes.float64)

    def half(self) -> Self:
        """This module with its floating point parameters and buffers in float16."""
        return self._floats(dtypes.float16)

    def bfloat16(self) -> Self:
        """This module with its floating point parameters and buffers in bfloat16."""
        return self._floats(dtypes.bfloat16)

    def _floats(self, dtype: Any) -> Self:
        return self._apply(lambda t: _cast(t, dtype, "f"))

    def cpu(self) -> Self:
        """This module with its tensors moved to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None) -> Self:
        """This module with its tensors moved to a GPU; None is the current one."""
        return self.to(device="cuda" if device is None else device)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """This module with new tensors of zeros on `device`, to be filled later."""
        target = name_of(device)
        return self._apply(
            lambda t: _cast(t, t.dtype, "", target) if is_lazy(t) else empty_like(t, device=target),
            recurse)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """This module, with each parameter, buffer and gradient replaced in place by `fn` of it."""
        modules: Any = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        seen: set[int] = set()
        with no_grad():
            for module in modules:
                for owner in (*module._parameters.values(), *module._buffers.values()):
                    for t in () if owner is None or id(owner) in seen else (owner, owner._grad):
                        if t is not None:
                            _replace(t, fn(t))
                    seen.add(id(owner))
        return self


def _replace(t: Tensor, new: Tensor) -> None:
    if new is not t:
        replace(t, new)


def _cast(t: Tensor, dtype: Any, kinds: str, device: str | None = None) -> Tensor:
    """`t` on `device` (None: its own), cast to `dtype` if its kind of dtype is in `kinds`."""
    new_dtype = dtype if kind(t.dtype) in kinds else t.dtype
    new_device = t.device if device is None else device
    if t.dtype == new_dtype and t.device == new_device:
        return t
    if is_lazy(t):
        return Tensor(Unknown(new_dtype, new_device))
    return t.detach().to(new_device, new_dtype)


def _target_of(owner: str, *args: Any, device: Any = None, dtype: Any = None, tensor: Any = None,
               non_blocking: bool = False, memory_format: Any = None) -> tuple[Any, Any]:
    """The device and the dtype in the arguments of a call of `to`; either may be None."""
    first = args[0] if args else tensor
    if isinstance(first, Tensor):
        return first.device, first.dtype
    if args and _is_device(first):
        device, args = first, args[1:]
    if args and not isinstance(args[0], bool):  # a bool is non_blocking
        dtype, args = args[0], args[1:]
    if len(args) > 1 or (args and not isinstance(args[0], bool)):
        raise ArgumentError(f"{owner}.to takes a device and a dtype, got {args!r} too",
                            "as in module.to(\"cpu\", fw.float64)")
    return device, None if dtype is None else as_dtype(dtype)


def _is_device(x: Any) -> bool:
    return x is None or (isinstance(x, int) and not isinstance(x, bool)) or (
        isinstance(x, str) and x not in dtypes.DTYPES)
