"""PyTorch's names, for programs written for it: `import fusewire.torch as torch`."""

from __future__ import annotations

import multiprocessing as multiprocessing

import numpy as _np

from ...eager.front.spellings import same as _same
from . import (
    accelerator,
    amp,
    autograd,
    backends,
    cuda,
    distributed,
    distributions,
    fft,
    func,
    linalg,
    mps,
    nn,
    optim,
    random,
    serialization,
    sparse,
    special,
    utils,
    xpu,
)
from .base import generate as _generate
from .base.device import device
from .base.missing import getattr_of as _getattr_of
from .base.package import fw as _fw
from .base.size import Size
from .base.tensor_class import Tensor
from .compiling import compile, compiler, jit
from .nn import functional as _functional
from .serialization import load, save
from .settings import *
from .sparse import sparse_coo_tensor
from .types_of_tensors import DTYPES as _DTYPES
from .types_of_tensors import TYPES as _TYPES

globals().update({name: _generate.same_named(getattr(_fw, name), name)
                  for name in _same.FUNCTIONS.split()})
globals().update({name: getattr(_fw, name) for name in _same.OTHERS.split()})
globals().update({name: getattr(_functional, name) for name in _same.OF_LAYERS.split()})
globals().update(_generate.FUNCTIONS)
globals().update(_TYPES)
globals().update(_DTYPES)

dtype = _np.dtype
vmap = func.vmap  # type: ignore[attr-defined]
strided, contiguous_format, channels_last, preserve_format = (
    "strided", "contiguous_format", "channels_last", "preserve_format")
memory_format = layout = str
__version__ = _fw.__version__
__getattr__ = _getattr_of(__name__)
