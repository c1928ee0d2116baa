"""Provides transforms of functions: derivatives, batches, modules as functions of their state."""

from .batch import *
from .forward import *
from .functional import *
from .gradient import *
from .jacobian import *
