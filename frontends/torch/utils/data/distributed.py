"""The sampler of one of several processes."""

from __future__ import annotations

from .....eager.utils.data import DistributedSampler as DistributedSampler
