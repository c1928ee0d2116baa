"""Provides schedules of learning rates under PyTorch's names, with its numbers and state dicts."""

from .base import *
from .combine import *
from .cycles import *
from .decay import *
from .plateau import *
