"""Orders of samples."""

from __future__ import annotations

from .....eager.utils.data import BatchSampler as BatchSampler
from .....eager.utils.data import RandomSampler as RandomSampler
from .....eager.utils.data import Sampler as Sampler
from .....eager.utils.data import SequentialSampler as SequentialSampler
from .....eager.utils.data import SubsetRandomSampler as SubsetRandomSampler
from .....eager.utils.data import WeightedRandomSampler as WeightedRandomSampler
