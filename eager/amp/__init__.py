"""Mixed precision, under PyTorch's names: most work in 16 bits, what needs more in float32."""

from .autocast import *
from .grad_scaler import *
