"""Rotary position embedding: Su et al., arXiv 2104.09864."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fusewire as fw

from ..config import ConfigError


def inverse_frequencies(head_dim: int, theta: float, scaling: Mapping[str, Any] | None
                        ) -> fw.Tensor:
    """The angle between neighbouring positions of each pair of features: (head_dim / 2,), float32.

    Args:
        head_dim: features of a head that are rotated.
        theta: base of the geometric sequence of wavelengths.
        scaling: `rope_scaling` of config.json, by which a model reads longer texts.

    Raises:
        ConfigError: the type of the scaling is not implemented.
    """
    rates = 1.0 / theta ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    kind = "default" if not scaling else scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in _SCALINGS:
        raise ConfigError(f"rope_scaling of type {kind!r} is not implemented",
                          f"the types are {', '.join(_SCALINGS)}")
    return fw.from_numpy(_SCALINGS[kind](rates, scaling or {}).astype(np.float32))


def _llama3(rates: Any, scaling: Mapping[str, Any]) -> Any:
    """Long wavelengths are stretched by `factor`, short ones stay, those between are mixed."""
    factor, low, high = (scaling[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    rotations = scaling["original_max_position_embeddings"] * rates / (2 * math.pi)
    share = np.clip((rotations - low) / (high - low), 0, 1)
    return (1 - share) * rates / factor + share * rates


_SCALINGS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "default": lambda rates, scaling: rates,
    "linear": lambda rates, scaling: rates / scaling["factor"],
    "llama3": _llama3,
}


def rotation(positions: fw.Tensor, frequencies: fw.Tensor, dtype: Any
             ) -> tuple[fw.Tensor, fw.Tensor]:
    """Cosines and sines of the angles of each position, each (n, 1, length, head_dim).

    Args:
        positions: (n, length) or (1, length), int.
        frequencies: (head_dim / 2,), see `inverse_frequencies`.
        dtype: of the results; angles are computed in float32.
    """
    angles = positions[:, None, :, None].astype(fw.float32) * frequencies
    angles = fw.concat([angles, angles], axis=-1)
    return fw.cos(angles).astype(dtype), fw.sin(angles).astype(dtype)


def rotate(x: fw.Tensor, cosines: fw.Tensor, sines: fw.Tensor) -> fw.Tensor:
    """`x` (n, heads, length, head_dim) with feature i and i + head_dim / 2 rotated as a pair."""
    half = x.shape[-1] // 2
    swapped = fw.concat([-x[..., half:], x[..., :half]], axis=-1)
    return x * cosines + swapped * sines
