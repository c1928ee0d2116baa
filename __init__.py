"""fusewire: define-by-run tensors, recorded and compiled to native code, exported to ONNX."""

import sys as _sys

from .codegen.cache import program_cache as _again
from .codegen.decorator import compile
from .codegen.eager_jit import rnn as _sequences
from .codegen.eager_jit import row_blocks as _large
from .codegen.eager_jit import vjp as _back
from .codegen.program.native_threads import get_num_threads, set_num_threads
from .codegen.report.profile import profile
from .eager import advice as _advice
from .eager import amp, autograd, cuda, fft, func, linalg, nn, optim, random, special, utils
from .eager import hints as _hints
from .eager import methods as _methods
from .eager.amp.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from .eager.autograd.engine import *
from .eager.constants import *
from .eager.display import *
from .eager.dlpack import *
from .eager.dtypes import *
from .eager.errors import *
from .eager.hints import *
from .eager.inspection import *
from .eager.memory import *
from .eager.op import OPS as _OPS
from .eager.ops.complex import *
from .eager.ops.contract import *
from .eager.ops.counts import *
from .eager.ops.create import *
from .eager.ops.cumulative import *
from .eager.ops.distributions import *
from .eager.ops.einsum import *
from .eager.ops.gamma import *
from .eager.ops.grid import *
from .eager.ops.join import *
from .eager.ops.matrix import *
from .eager.ops.padding import *
from .eager.ops.pointwise import *
from .eager.ops.random import *
from .eager.ops.rearrange import *
from .eager.ops.reduce import *
from .eager.ops.scatter import *
from .eager.ops.search import *
from .eager.ops.sets import *
from .eager.ops.softmax import *
from .eager.ops.sort import *
from .eager.ops.special import *
from .eager.ops.statistics import *
from .eager.ops.view import *
from .eager.quantization import *
from .eager.serialization import *
from .eager.settings import settings
from .eager.tape import *
from .eager.tensor import *
from .export import aot, onnx
from .export.saved import load_compiled

__version__ = "0.1.0"

# So that `import fusewire.nn.functional as F`, `from fusewire.utils.data import DataLoader` work as
# users of PyTorch expect, though the modules live under `eager`. All of them, or an import of one
# that is left out would make its classes a second time.
_FRONTS = ("amp", "autograd", "cuda", "fft", "func", "linalg", "nn", "optim", "random", "special",
           "utils")
for _name, _module in list(_sys.modules.items()):
    if _name.startswith(f"{__name__}.eager.") and _name.split(".")[2] in _FRONTS:
        _sys.modules[_name.replace(".eager.", ".", 1)] = _module

_again.OURS.update(_OPS)
_hints.install(_sys.modules[__name__])
_advice.install()
