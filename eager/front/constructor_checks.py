"""Checks the arguments with which users make layers, optimizers and schedulers.

The annotation of a parameter says its kind: `int`, `float`, `str`, or one of them or None. So a
wrong argument has an error that names the class and the parameter, and no layer is made which fails
later or computes something else.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import nn, optim
from ..arguments import check_fraction, check_number, check_whole
from ..arrays.dtypes import as_dtype, kind
from ..errors import DTypeError

__all__: list[str] = []

PLAIN = ("int", "float", "str", "float | Tensor")
SPACES = (nn, optim, optim.lr_scheduler)
LEAST = {
    "d_model": 1, "downscale_factor": 1, "epochs": 1, "groups": 1, "hidden_size": 1,
    "history_size": 1, "nhead": 1, "num_chunks": 1, "num_groups": 1, "num_heads": 1, "size": 1,
    "step_size": 1, "step_size_down": 1, "step_size_up": 1, "steps_per_epoch": 1,
    "upscale_factor": 1,
    **dict.fromkeys((
        "cooldown", "depth", "dim_feedforward", "embedding_dim", "in1_features", "in2_features",
        "in_channels", "in_features", "kdim", "max_iter", "n_classes", "ns_steps", "num_channels",
        "num_classes", "num_decoder_layers", "num_embeddings", "num_encoder_layers", "num_features",
        "num_layers", "num_parameters", "out_channels", "out_features", "patience", "total_iters",
        "vdim"), 0),
}
"""The least value of an integer parameter, by its name."""


def install() -> None:
    """Makes the public classes check the arguments of their constructors."""
    for space in SPACES:
        for cls in _classes(space):
            cls.__init__ = _checked(cls.__init__)


def _classes(space: ModuleType) -> list[Any]:
    """The public classes of `space` with parameters of a plain kind."""
    bases = (nn.Module, optim.Optimizer, optim.lr_scheduler.LRScheduler)
    return [value for name, value in vars(space).items()
            if isinstance(value, type) and not name.startswith("_") and issubclass(value, bases)
            and _has_plain(value.__init__)]


def _has_plain(constructor: Any) -> bool:
    """True if a parameter has an annotation that is checked, and no subclass shares the check."""
    annotations = getattr(constructor, "__annotations__", {})
    plain = any(str(a).removesuffix(" | None") in PLAIN for a in annotations.values())
    return (plain or "dtype" in annotations) and not hasattr(constructor, "__wrapped__")


def _checked(constructor: Callable[..., None]) -> Callable[..., None]:
    """`constructor`, after checks of its arguments."""
    @functools.wraps(constructor)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        checks = _checks(constructor)
        names = iter(checks)
        for name, value in zip(names, args):
            _check(type(self).__name__, name, value, checks[name])
        for name, value in kwargs.items():
            _check(type(self).__name__, name, value, checks.get(name))
        constructor(self, *args, **kwargs)

    return checked


@functools.cache
def _checks(constructor: Callable[..., None]) -> dict[str, Any]:
    """The annotation of each parameter after `self`; None for a parameter that takes anything."""
    parameters = list(inspect.signature(constructor).parameters.values())[1:]
    return {p.name: p.annotation for p in parameters}


def _check(owner: str, name: str, value: Any, annotation: Any) -> None:
    """Raises an error that names `owner` if `value` does not fit the annotation."""
    optional = str(annotation).endswith(" | None")
    plain = str(annotation).removesuffix(" | None")
    if name == "dtype" and value is not None:
        _check_dtype(owner, value)
    elif plain not in PLAIN or (optional and value is None):
        return
    elif name == "dropout":
        check_fraction(owner, name, value)
    elif plain == "int":
        check_whole(owner, name, value, LEAST.get(name))
    elif plain.startswith("float"):
        check_number(owner, name, value)
    elif not isinstance(value, str):
        raise DTypeError(f"{owner}: {name} must be a string, got {value!r:.80}")


def _check_dtype(owner: str, dtype: Any) -> None:
    chosen = as_dtype(dtype)
    if kind(chosen) != "f":
        raise DTypeError(f"{owner}: dtype of the parameters must be real floating point, not "
                         f"{chosen.name}", "as in dtype=fw.float32")
