"""Modules without initial values, for those that will be loaded."""

from __future__ import annotations

from typing import Any

from ...core.tape import no_grad
from ...errors import DTypeError
from ...ops.random.generator import default_generator
from ..base.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """module_cls(*args, **kwargs) with values that are yet to come: no random numbers are used up.

    >>> import fusewire as fw
    >>> fw.nn.utils.skip_init(fw.nn.Linear, 2, 1, bias=False).weight.tolist()
    [[0.0, 0.0]]
    """
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise DTypeError(f"skip_init: takes a class of modules, not {module_cls!r:.60}",
                         "as in skip_init(nn.Linear, 3, 4)")
    state = default_generator.get_state()
    made = module_cls(*args, **kwargs)
    with no_grad():
        default_generator.set_state(state)
    return made.to_empty(device=kwargs.get("device", "cpu"))
