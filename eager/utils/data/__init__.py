"""Data sets, the order in which they are read, and batches of them."""

from .collate import default_collate
from .dataset import Dataset, IterableDataset, Subset, TensorDataset, random_split
from .loader import DataLoader
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler",
    "SequentialSampler", "Subset", "TensorDataset", "default_collate", "random_split",
]
