"""Reads the hyperparameters of a model from a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import fusewire as fw

C = TypeVar("C", bound="Config")


class ConfigError(fw.FusewireError, ValueError):
    """A config.json that asks for something that the model does not compute."""


@dataclass(frozen=True)
class Config:
    """The hyperparameters of a model, under the names that its config.json uses."""

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """The values that a model implements, by the keys that would change its results."""

    @classmethod
    def from_dict(cls: type[C], values: Mapping[str, Any]) -> C:
        """The config with these values; keys that are no field are left out.

        Args:
            values: the contents of a config.json. An absent key keeps the default of its field.

        Raises:
            ConfigError: a value asks for a variant that the model does not implement.
        """
        for key, supported in cls.SUPPORTED.items():
            if key in values and values[key] not in supported:
                raise ConfigError(f"{key}={values[key]!r} is not implemented by {cls.__name__}",
                                  f"the values are {', '.join(map(repr, supported))}")
        names = {field.name for field in fields(cls)}
        return cls(**{key: _frozen(value) for key, value in values.items() if key in names})


def _frozen(value: Any) -> Any:
    """A JSON value in which lists are tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
