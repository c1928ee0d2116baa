"""Makes modules without initial values, for modules whose state will be loaded."""

from __future__ import annotations

from typing import Any

from ...core.tape import no_grad
from ...errors import DTypeError
from ...ops.random.generator import default_generator
from ..base.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """module_cls(*args, **kwargs) with zeros for values; the random generator does not advance.

    Args:
        module_cls: a class of modules.
        args, kwargs: its arguments; `device` is also the device of the values, by default "cpu".

    Raises:
        DTypeError: `module_cls` is not a class of modules.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.utils.skip_init(fw.nn.Linear, 2, 1, bias=False).weight.tolist()
        [[0.0, 0.0]]
    """
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise DTypeError(f"skip_init: takes a class of modules, not {module_cls!r:.60}",
                         "as in skip_init(nn.Linear, 3, 4)")
    state = default_generator.get_state()
    module = module_cls(*args, **kwargs)
    with no_grad():
        default_generator.set_state(state)
    return module.to_empty(device=kwargs.get("device", "cpu"))
