"""The base class of models whose weights come from checkpoint folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from fusewire import nn

from .config import Config

M = TypeVar("M", bound="PretrainedModel")


class PretrainedModel(nn.Module):
    """A model that is made from a config and named as a published architecture.

    A subclass takes its config as the only argument of `__init__`.
    """

    CONFIG: ClassVar[type[Config]]
    PREFIX: ClassVar[str] = ""
    """The part of parameter names that checkpoints of the base model leave out, with its dot."""
    OUTER_PREFIX: ClassVar[str] = ""
    """The prefix, with its dot, that names have in checkpoints of models around this one."""
    IGNORED: ClassVar[tuple[str, ...]] = ()
    """Regular expressions of checkpoint names that hold no parameter, such as cached masks."""

    config: Any

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def from_config(cls: type[M], values: Mapping[str, Any] | Config) -> M:
        """The model with random weights.

        Args:
            values: a config of this model, or the contents of a config.json.
        """
        config = values if isinstance(values, Config) else cls.CONFIG.from_dict(values)
        return cls(config)

    @classmethod
    def empty(cls: type[M], config: Config) -> M:
        """The model without drawn weights, for a state that is loaded next."""
        with nn.init.no_draws():
            return cls(config)

    def tied_names(self) -> dict[str, str]:
        """The names that share a parameter with another one: name -> the first name."""
        first: dict[int, str] = {}
        tied = {}
        for name, value in self.state_dict(keep_vars=True).items():
            before = first.setdefault(id(value), name)
            if before != name:
                tied[name] = before
        return tied

    def number_of_parameters(self) -> int:
        """The count of numbers that training changes; tied ones count once."""
        return sum(p.size for p in self.parameters())
