"""Sets of values: of parameters, and of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..base.package import fw


class Constraint(NamedTuple):
    """A set of values: its name, and a function that says whether each element belongs to it."""

    name: str
    check: Callable[[Any], Any]

    def __repr__(self) -> str:
        return self.name


def by_name(**sets: Constraint) -> Mapping[str, Constraint]:
    """The sets of parameters, by the names of the parameters."""
    return sets


real = Constraint("Real()", lambda x: x == x)
positive = Constraint("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
nonnegative = Constraint("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
unit_interval = Constraint("Interval(lower_bound=0.0, upper_bound=1.0)",
                           lambda x: fw.logical_and(x >= 0, x <= 1))
boolean = Constraint("Boolean()", lambda x: fw.logical_or(x == 0, x == 1))
nonnegative_integer = Constraint("IntegerGreaterThan(lower_bound=0)",
                                 lambda x: fw.logical_and(x >= 0, x == fw.floor(x)))
simplex = Constraint("Simplex()", lambda x: fw.logical_and(
    fw.all(x >= 0, -1), fw.abs(fw.sum(x, -1) - 1) < 1e-6))
real_vector = Constraint("RealVector()", lambda x: fw.all(x == x, -1))
