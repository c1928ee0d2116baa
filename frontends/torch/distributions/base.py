"""Defines the base class of distributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....eager import interpreter
from ....eager.core.tensor import Tensor as PlainTensor
from ....eager.errors import ArgumentError
from ..base.package import fw
from ..base.size import Size
from ..base.tensor_class import retag
from .constraints import Constraint, by_name


def broadcast(*values: Any) -> list[Any]:
    """Parameters as tensors of one shape; Python numbers take the dtype of the tensors."""
    dtype = next((v.dtype for v in values if isinstance(v, PlainTensor)), fw.float32)
    tensors = [v if isinstance(v, PlainTensor) else fw.tensor(v, dtype) for v in values]
    return [retag(x) for x in fw.broadcast_arrays(*tensors)]


class Distribution:
    """A distribution over tensors: batches of independent ones, of events of one shape.

    Raises:
        ArgumentError: a parameter or, for log_prob, a value is outside of its set.
    """

    has_rsample = False
    arg_constraints: Mapping[str, Constraint] = by_name()
    support: Constraint | None = None
    _validates = True

    def __init__(self, batch_shape: Any = (), event_shape: Any = (),
                 validate_args: bool | None = None) -> None:
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validates = validate_args
        # Under a tracer or a transform the values are not known.
        if self._validates and interpreter.STATE.active is None:
            for name, constraint in self.arg_constraints.items():
                if name in self.__dict__:
                    self._check(f"the parameter {name}", self.__dict__[name], constraint)

    def _check(self, what: str, value: Any, constraint: Constraint) -> None:
        if not bool(fw.all(constraint.check(value))):
            raise ArgumentError(f"{type(self).__name__}: {what} has values outside of "
                                f"{constraint!r}: {value!r:.100}")

    def _checked(self, value: Any) -> Any:
        """`value`, whose density is asked for."""
        if self._validates and self.support is not None and interpreter.STATE.active is None:
            self._check("value", value, self.support)
        return value

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Chooses whether new distributions check their parameters."""
        Distribution._validates = value

    def _extended(self, sample_shape: Any) -> tuple[Any, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    # ---- defined by distributions
    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples through which gradients flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample: its samples have no "
                                  "gradient")

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples, without gradients."""
        with fw.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability at `value`."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    @property
    def mean(self) -> Any:
        """The expected value."""
        raise NotImplementedError

    @property
    def variance(self) -> Any:
        """The expected squared distance from the mean."""
        raise NotImplementedError

    # ---- derived
    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return retag(fw.sqrt(self.variance))

    def sample_n(self, n: int) -> Any:
        """`n` samples."""
        return self.sample((n,))

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return retag(fw.exp(self.entropy()))

    def __repr__(self) -> str:
        parts = [f"{name}: {value if value.size == 1 else tuple(value.shape)}"
                 for name, value in self.__dict__.items() if name in self.arg_constraints]
        return f"{type(self).__name__}({', '.join(parts)})"
