"""Optimizers, whose state consists of tensors of the front end."""

from __future__ import annotations

from typing import Any

from ....eager import optim as _plain
from ....eager.optim import swa_utils
from ..base.tensor_class import retag as _retag
from . import lr_scheduler


class Optimizer(_plain.Optimizer):
    """Updates parameters from their gradients; the base class of all optimizers."""

    __module__ = "fusewire.torch.optim"

    def _begin(self, group: Any) -> None:
        super()._begin(group)
        for p in group["params"]:
            _retag(self.state[p])

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of the state and the settings."""
        return _retag(super().state_dict())  # type: ignore[no-any-return]


for _name, _cls in list(vars(_plain).items()):
    if isinstance(_cls, type) and issubclass(_cls, _plain.Optimizer) and _name != "Optimizer":
        globals()[_name] = type(_name, (_cls, Optimizer), {
            "__module__": "fusewire.torch.optim", "__doc__": _cls.__doc__})
