"""The public layers of the front end."""

from __future__ import annotations

from typing import Any

from ....eager import nn as plain
from ....eager.nn.base.module import Module as PlainModule
from .module import Module, class_of

LAYERS = {cls.__name__: class_of(cls) for cls in vars(plain).values()
          if isinstance(cls, type) and issubclass(cls, PlainModule)}
LAYERS["NLLLoss2d"] = LAYERS["NLLLoss"]


class DataParallel(Module):
    """A module that calls another one: one process uses all cores."""

    def __init__(self, module: Any, *devices: Any, **options: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module."""
        return self.module(*args, **kwargs)
