"""Sums of a matrix along either axis, and of all of it; for a GPU, whose threads share the sums."""

from __future__ import annotations

from typing import Any

from ..peers import pure
from ..workload import Workload
from .weights import normal


def workloads(rows: int, columns: int) -> list[Workload]:
    def summed(name: str, what: str, axis: int | None) -> Workload:
        def total(x: Any) -> Any:
            return x.sum() if axis is None else x.sum(axis)

        return Workload(
            name=name,
            about=f"{what} of {rows} by {columns} numbers",
            inputs=lambda: {"x": normal(12, rows, columns) + 1},  # sums that do not cancel
            makers=pure(total, lambda: total, lambda: total),
            flops=rows * columns,
            size=4 * rows * columns,
        )

    return [summed("sum_rows", "the sum of each row", 1),
            summed("sum_columns", "the sum of each column", 0),
            summed("sum_all", "the sum", None)]


ON_GPU = workloads(1 << 16, 1024)
