"""fusewire: define-by-run tensors, recorded and compiled to native code, exported to ONNX."""

from .eager.dtypes import (
    bool, complex64, complex128, float16, float32, float64, int8, int16, int32, int64, uint8,
    uint16, uint32, uint64,
)
from .eager import methods as _methods
from .eager.autograd import backward, grad
from .eager.errors import FusewireError
from .eager.ops.pointwise import *
from .eager.tape import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .eager.tensor import Tensor, from_numpy, tensor
from .eager.ops.create import arange, full, full_like, iota, ones, ones_like, zeros, zeros_like
from .eager.ops.random import manual_seed, rand, randn, randint
