"""Base classes of activation layers."""

from __future__ import annotations

from typing import Any

from ..base.module import Module


class ActivationLayer(Module):
    """Base of activation layers: prints the attributes whose names are in `_shown`."""

    _shown: tuple[str, ...] = ()

    def _set(self, **settings: Any) -> None:
        """Initializes the module and sets an attribute for each setting."""
        Module.__init__(self)
        for name, value in settings.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)


class InPlaceActivation(ActivationLayer):
    """Base of layers with the setting `inplace`, which is printed if it is True."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        self._set(inplace=inplace)

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [super().extra_repr(), "inplace=True" * self.inplace]))
