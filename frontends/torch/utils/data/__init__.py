"""Data sets, samplers and loaders; batches are tensors of the front end."""

from __future__ import annotations

from .....eager.utils import data as _plain
from ...base.exports import exported as _exported
from . import dataloader, dataset, distributed, sampler

globals().update(_exported(_plain), DataLoader=dataloader.DataLoader)
