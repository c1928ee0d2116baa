"""`python -m benchmarks.scalar_costs`: prints the cost of each scalar operation on this processor,
in simple operations, beside its row in `codegen/ir/scalar_ops.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.codegen.ir.scalar_ops import SCALAR

ELEMENTS = 4096  # their arrays stay in the innermost cache
COPIES = 6  # of an operation in one kernel, so that memory takes a small part of the time
EXP_COST = 12  # simple operations, of float32: the scale of all costs

Function = Callable[..., Any]


def seconds(function: Function, *args: Any) -> float:
    """The shortest time of a call, in seconds."""
    for _ in range(6):
        function(*args)
    times = []
    for _ in range(25):
        start = time.perf_counter()
        for _ in range(10):
            function(*args)
        times.append((time.perf_counter() - start) / 10)
    return min(times)


def seconds_per_operation(operation: Function, x: Any, y: Any) -> float:
    """The time that one more operation takes in a kernel; with it one product and one maximum."""
    def repeated(count: int) -> Function:
        def function(x: Any, y: Any) -> Any:
            total = operation(x, y)
            for i in range(1, count):
                total = fw.maximum(total, operation(x * (1 + 0.01 * i), y))
            return total

        return fw.compile(function)

    most, least = (seconds(repeated(count), x, y) for count in (COPIES, 1))
    return (most - least) / (COPIES - 1)


def functions() -> dict[str, Function]:
    """The functions whose formulas are one scalar operation, by the name of the operation."""
    names = {"div": "divide"}
    costly = [name for name, op in SCALAR.items() if op.cost.cpu > 1]
    return {name: getattr(fw, names.get(name, name)) for name in costly
            if hasattr(fw, names.get(name, name))}


def measured(dtype: Any) -> dict[str, float]:
    """The time of a vector of each operation for a dtype, in seconds."""
    random = np.random.default_rng(0)
    x, y = (fw.asarray(random.uniform(0.05, 0.55, ELEMENTS), dtype=dtype) for _ in range(2))
    times = {}
    for name, function in functions().items():
        operand = x + 1.0 if name == "acosh" else x
        times[name] = seconds_per_operation(called(function, name), operand, y) / dtype.itemsize
    return times


def called(function: Function, name: str) -> Function:
    """The function of two operands, which reads the second one only if it takes two."""
    return function if getattr(SCALAR[name].function, "nin", 1) == 2 else lambda x, y: function(x)


def main() -> None:
    fw.set_num_threads(1)
    single, double = measured(fw.float32), measured(fw.float64)
    scale = EXP_COST / single["exp"]
    print(f"{'operation':14}{'float32':>9}{'row':>7}{'float64':>10}{'row':>7}")
    for name in single:
        row = SCALAR[name].cost
        print(f"{name:14}{single[name] * scale:9.0f}{row.cpu:7.0f}"
              f"{double[name] * scale:10.0f}{row.cpu_double:7.0f}")


if __name__ == "__main__":
    main()
