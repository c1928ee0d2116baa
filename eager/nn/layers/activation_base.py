"""Base classes of activation layers."""

from __future__ import annotations

from typing import Any

from ..base.module import Module


class ActivationLayer(Module):
    """Prints those settings, which are its attributes, that are named in `_shown`."""

    _shown: tuple[str, ...] = ()

    def _keep(self, **settings: Any) -> None:
        """What a constructor does: the settings become attributes."""
        Module.__init__(self)
        for name, value in settings.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)


class InPlaceActivation(ActivationLayer):
    """One with the setting `inplace`: whether x itself is changed. It is printed where it is on."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        self._keep(inplace=inplace)

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [super().extra_repr(), "inplace=True" * self.inplace]))
