"""Data sets."""

from __future__ import annotations

from .....eager.utils.data import ChainDataset as ChainDataset
from .....eager.utils.data import ConcatDataset as ConcatDataset
from .....eager.utils.data import Dataset as Dataset
from .....eager.utils.data import IterableDataset as IterableDataset
from .....eager.utils.data import StackDataset as StackDataset
from .....eager.utils.data import Subset as Subset
from .....eager.utils.data import TensorDataset as TensorDataset
from .....eager.utils.data import random_split as random_split
