"""Both libraries behind one face: tensors of arrays, arrays of tensors, and their derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import fusewire as fw

Function = Callable[..., Any]
NO_FORWARD = ("forward AD", "forward-mode", "jvp", "Trying to use")


def flat(result: Any) -> list[Any]:
    """The tensors of a result, which may be one, or several in tuples and lists."""
    if isinstance(result, (tuple, list)) and not isinstance(result, torch.Size):
        return [tensor for part in result for tensor in flat(part)]
    return [result]


def is_inexact(array: Any) -> bool:
    """Whether an array holds numbers that a derivative may be taken by."""
    return array.dtype.kind in "fcV"  # V: bfloat16


class Ours:
    """fusewire."""

    name = "fusewire"

    def tensor(self, array: Any, tracked: bool = False) -> Any:
        return fw.from_numpy(array).requires_grad_(tracked and is_inexact(array))

    def array(self, result: Any) -> Any:
        return result.detach().numpy() if isinstance(result, fw.Tensor) else np.asarray(result)

    def dtype(self, result: Any) -> str:
        return str(getattr(result, "dtype", type(result).__name__))

    def differentiable(self, result: Any) -> bool:
        return self.dtype(result).startswith(("float", "complex", "bfloat"))

    def call(self, fn: Function, *args: Any) -> Any:
        return fn(*args)

    def gradients(self, outs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any]
                  ) -> list[Any]:
        """Of `outs`, multiplied by `given`, by `inputs`; None where nothing flows."""
        pairs = [(o, g) for o, g in zip(outs, given) if getattr(o, "requires_grad", False)]
        if not pairs:
            return [None] * len(inputs)
        return list(fw.grad([o for o, _ in pairs], inputs, [g for _, g in pairs],
                            create_graph=True, allow_unused=True))

    def jvp(self, fn: Function, primals: Any, tangents: Any) -> Any:
        return fw.func.jvp(fn, tuple(primals), tuple(tangents))

    def vmap(self, fn: Function, axes: tuple[Any, ...], tensors: Sequence[Any]) -> Any:
        return fw.func.vmap(fn, in_axes=axes)(*tensors)

    def gradients_of_each(self, fn: Function, batch: Sequence[Any], moved: Sequence[int],
                          given: Sequence[Any]) -> Any:
        """By the inputs `moved`, for each example of a batch of inputs."""
        def gradient(*inputs: Any) -> Any:
            def of_moved(*tensors: Any) -> Any:
                every = list(inputs)
                for n, tensor in zip(moved, tensors):
                    every[n] = tensor
                return tuple(o for o in flat(fn(*every)) if self.differentiable(o))

            back = fw.func.vjp(of_moved, *[inputs[n] for n in moved])[1]
            return back(tuple(given))

        return flat(fw.func.vmap(gradient)(*batch))


class Theirs(Ours):
    """PyTorch."""

    name = "torch"

    def tensor(self, array: Any, tracked: bool = False) -> Any:
        if array.dtype == fw.bfloat16:
            return torch.from_numpy(array.astype(np.float32)).bfloat16()
        return torch.from_numpy(np.array(array)).requires_grad_(tracked and is_inexact(array))

    def array(self, result: Any) -> Any:
        if not isinstance(result, torch.Tensor):
            return np.asarray(result)
        return result.detach().resolve_conj().resolve_neg().numpy(force=True)

    def dtype(self, result: Any) -> str:
        return super().dtype(result).removeprefix("torch.")

    def call(self, fn: Function, *args: Any) -> Any:
        with warnings.catch_warnings():  # its own about slow paths and about what will change
            warnings.simplefilter("ignore")
            return fn(*args)

    def gradients(self, outs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any]
                  ) -> list[Any]:
        pairs = [(o, g) for o, g in zip(outs, given) if getattr(o, "requires_grad", False)]
        if not pairs:
            return [None] * len(inputs)
        return list(self.call(lambda: torch.autograd.grad(
            [o for o, _ in pairs], inputs, [g for _, g in pairs], create_graph=True,
            allow_unused=True)))

    def jvp(self, fn: Function, primals: Any, tangents: Any) -> Any:
        """By forward mode, or where torch has none by its gradient's gradient."""
        try:
            return self.call(torch.func.jvp, fn, tuple(primals), tuple(tangents))
        except (RuntimeError, NotImplementedError) as error:
            if not any(words in str(error) for words in NO_FORWARD):
                raise
            return self.call(torch.autograd.functional.jvp, fn, tuple(primals), tuple(tangents))


OURS, THEIRS = Ours(), Theirs()
