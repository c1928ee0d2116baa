"""Counts and times of the requests of one model."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Duration:
    """How often something happened, and the nanoseconds it took in all."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Counts `count` more, which took `ns` nanoseconds together."""
        self.count += count
        self.ns += ns


@dataclass
class Statistics:
    """What a model has done since it was loaded, in the terms of the protocol's extension.

    All changes are made by the thread of the event loop.
    """

    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)
    rows: int = 0  # that were computed for requests, without those that fill batches
    last_inference_ms: int = 0  # of the clock, since 1970
    batches: dict[int, Duration] = field(default_factory=dict)  # by rows
    pending: int = 0  # requests that wait or run

    def add_batch(self, rows: int, requests: int, input_ns: int, infer_ns: int) -> None:
        """Counts a batch that ran."""
        self.rows += rows
        self.compute_input.add(input_ns, requests)
        self.compute_infer.add(infer_ns, requests)
        self.batches.setdefault(rows, Duration()).add(infer_ns)
        self.last_inference_ms = time.time_ns() // 1_000_000

    @property
    def executions(self) -> int:
        """The batches that ran."""
        return sum(duration.count for duration in self.batches.values())

    def report(self) -> dict[str, Any]:
        """The fields of a model's statistics, as the protocol's extension has them in JSON."""
        def of(duration: Duration) -> dict[str, int]:
            return {"count": duration.count, "ns": duration.ns}

        return {"last_inference": self.last_inference_ms, "inference_count": self.rows,
                "execution_count": self.executions,
                "inference_stats": {name: of(getattr(self, name)) for name in (
                    "success", "fail", "queue", "compute_input", "compute_infer",
                    "compute_output")},
                "batch_stats": [
                    {"batch_size": rows, "compute_infer": of(duration)}
                    for rows, duration in sorted(self.batches.items())]}
