"""fusewire: define-by-run tensors, recorded and compiled to native code, exported to ONNX."""

import sys as _sys

from .codegen.decorator import compile
from .codegen.llvm.threads import get_num_threads, set_num_threads
from .eager import methods as _methods
from .eager import nn, optim, utils
from .eager.autograd import backward, grad
from .eager.dtypes import (
    bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .eager.errors import (
    CaptureError,
    CodegenError,
    DeviceError,
    DTypeError,
    ExportError,
    FusewireError,
    GradientError,
    GraphError,
    IndexingError,
    ShapeError,
    StateError,
)
from .eager.ops.contract import matmul, tensordot
from .eager.ops.conv import argmax, argmin
from .eager.ops.create import (
    arange,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .eager.ops.join import concat, stack
from .eager.ops.pointwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    astype,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    rsqrt,
    sigmoid,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from .eager.ops.random import (
    Generator,
    fork_rng,
    manual_seed,
    rand,
    randint,
    randn,
    randperm,
)
from .eager.ops.reduce import all, any, max, mean, min, prod, std, sum, var
from .eager.ops.softmax import log_softmax, logsumexp, softmax
from .eager.ops.view import (
    broadcast_to,
    expand_dims,
    flatten,
    flip,
    matrix_transpose,
    pad,
    permute_dims,
    reshape,
    squeeze,
    take,
    transpose,
)
from .eager.tape import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .eager.tensor import Tensor, from_numpy, tensor
from .export import onnx

__version__ = "0.1.0"

# So that `import fusewire.nn.functional as F`, `from fusewire.utils.data import DataLoader` work as
# users of PyTorch expect, though the modules live under `eager`.
_ALIASES = ("nn", "nn.functional", "nn.init", "optim", "utils", "utils.data")
for _name in _ALIASES:
    _sys.modules[f"{__name__}.{_name}"] = _sys.modules[f"{__name__}.eager.{_name}"]
