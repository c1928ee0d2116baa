"""A compiled function of three small tensors, for the overhead of one call."""

from __future__ import annotations

from typing import Any

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import normal

COUNT = 8
GRAPH = f"""small (float[{COUNT}] a, float[{COUNT}] b, float[{COUNT}] c) => (float[{COUNT}] y) {{
    p = Mul(a, b)
    y = Add(p, c)
}}"""


def inputs() -> Inputs:
    return {name: normal(number, COUNT) for number, name in enumerate("abc")}


def function(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def factory() -> Any:
    return lambda a, b, c: a * b + c


WORKLOADS = [Workload(
    name="call_overhead",
    about=f"compiled a * b + c of {COUNT} numbers",
    inputs=inputs,
    makers=pure(function, factory, factory, GRAPH),
)]
