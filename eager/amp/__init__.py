"""Provides mixed precision under PyTorch's names: most ops in 16 bits, sensitive ones in
float32.
"""

from .autocast import *
from .grad_scaler import *
