"""Reports the loss of accuracy by quantization, for each layer and for the whole model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.tensor import Tensor


@dataclass
class Difference:
    """The difference of results from those of floats, over all data."""

    signal: float = 0.0  # sums of squares
    noise: float = 0.0
    largest: float = 0.0
    numbers: int = 0

    def add(self, expected: Tensor, actual: Tensor) -> None:
        """Takes in the expected and the actual results."""
        x, y = (t.detach().numpy().astype(np.float64) for t in (expected, actual))
        if not x.size:
            return
        apart = np.abs(y - x)
        self.signal += float(np.square(x).sum())
        self.noise += float(np.square(apart).sum())
        self.largest = max(self.largest, float(apart.max()))
        self.numbers += x.size

    @property
    def decibels(self) -> float | None:
        """The signal-to-noise ratio in dB, 10 for each factor of 10.

        inf if the results are equal, None if there was no comparison.
        """
        if not self.numbers:
            return None
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; None stands for an infinite or unmeasured ratio."""
        db = self.decibels
        return {"signal_to_noise_db": db if db is not None and math.isfinite(db) else None,
                "largest_difference": self.largest if self.numbers else None}


@dataclass
class LayerReport:
    """A quantized layer: bytes of its parameters before and after, and the loss of accuracy.

    `difference` compares its results with those of the float layer for equal inputs.
    """

    name: str
    kind: str
    bytes_before: int
    bytes_after: int
    difference: Difference = field(default_factory=Difference)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"name": self.name, "kind": self.kind, "bytes_before": self.bytes_before,
                "bytes_after": self.bytes_after, **self.difference.to_dict()}


@dataclass
class Report:
    """The quantized layers, the unchanged ones with the reason, and the loss of accuracy.

    `output` compares the results of the model with those of the float model. It prints as a table.
    """

    to: str
    layers: list[LayerReport]
    kept: dict[str, str]  # name of a layer with parameters -> why it is as it was
    folded: dict[str, str]  # name of a batch norm -> the layer that it went into
    output: Difference
    bytes_before: int  # of all parameters and buffers of the model
    bytes_after: int

    @property
    def worst(self) -> LayerReport | None:
        """The layer with the lowest signal-to-noise ratio; None if there was no comparison."""
        measured = [x for x in self.layers if x.difference.decibels is not None]
        return min(measured, key=lambda x: x.difference.decibels or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {"to": self.to, "layers": [x.to_dict() for x in self.layers], "kept": self.kept,
                "folded": self.folded, "output": self.output.to_dict(),
                "bytes_before": self.bytes_before, "bytes_after": self.bytes_after,
                "worst": self.worst.name if self.worst else None}

    def __str__(self) -> str:
        rows = [("layer", "kind", "bytes", f"in {self.to}", "signal/noise", "largest difference")]
        rows += [(x.name or "the model itself", x.kind, f"{x.bytes_before:,}",
                  f"{x.bytes_after:,}", *_shown(x.difference)) for x in self.layers]
        rows.append(("whole model", "", f"{self.bytes_before:,}", f"{self.bytes_after:,}",
                     *_shown(self.output)))
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        lines = ["  ".join(f"{x:<{w}}" if i < 2 else f"{x:>{w}}"
                           for i, (x, w) in enumerate(zip(row, widths))).rstrip() for row in rows]
        rule = "-" * max(map(len, lines))
        lines = [lines[0], rule, *lines[1:-1], rule, lines[-1]]
        lines += [f"{name}: folded into {layer}" for name, layer in self.folded.items()]
        return "\n".join([*lines, *(f"{name}: kept, {why}" for name, why in self.kept.items())])

    __repr__ = __str__


def _shown(difference: Difference) -> tuple[str, str]:
    db = difference.decibels
    if db is None:
        return "-", "-"
    return "exact" if db == math.inf else f"{db:.1f} dB", f"{difference.largest:.3g}"
