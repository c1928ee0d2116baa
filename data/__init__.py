"""Reads data sets from files, changes batches, and brings them to the device."""

import sys

from ..eager.front import hints
from . import transforms
from .block_shuffle import BlockShuffle
from .cifar import cifar10, cifar100
from .class_folders import ClassFolder, ImageFolder, SoundFolder, read_image, read_sound
from .device_loader import DeviceLoader, moved
from .files import FileError
from .huggingface import from_huggingface
from .mnist import mnist, read_idx
from .tables import ParquetTable, csv_to_parquet, read_csv
from .text_lines import TextLines

__all__ = ["BlockShuffle", "ClassFolder", "DeviceLoader", "FileError", "ImageFolder",
           "ParquetTable", "SoundFolder", "TextLines", "cifar10", "cifar100", "csv_to_parquet",
           "from_huggingface", "mnist", "moved", "read_csv", "read_idx", "read_image",
           "read_sound", "transforms"]

hints.add("data", sys.modules[__name__])
