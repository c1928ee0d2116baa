"""fusewire: define-by-run tensors, recorded and compiled to native code, exported to ONNX."""

import sys as _sys

from .codegen.cache import program_cache as _again
from .codegen.decorator import compile
from .codegen.eager_jit import op_compiler as _large
from .codegen.eager_jit import rnn as _sequences
from .codegen.eager_jit import vjp as _back
from .codegen.program.native_threads import get_num_threads, set_num_threads
from .codegen.report.profile import profile
from .eager import amp, autograd, func, linalg, nn, optim, utils
from .eager.amp.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from .eager.arrays.dtypes import *
from .eager.arrays.memory import *
from .eager.autograd.engine import *
from .eager.constants import *
from .eager.core.op import OPS as _OPS
from .eager.core.tape import *
from .eager.core.tensor import *
from .eager.errors import *
from .eager.front import advice as _advice
from .eager.front import hints as _hints
from .eager.front.hints import *
from .eager.front.serialization import *
from .eager.namespaces import cuda, fft, random, special
from .eager.namespaces.array_namespace_info import *
from .eager.ops.create import *
from .eager.ops.elementwise.complex import *
from .eager.ops.elementwise.pointwise import *
from .eager.ops.indexing.scatter import *
from .eager.ops.indexing.search import *
from .eager.ops.indexing.sort import *
from .eager.ops.products.contract import *
from .eager.ops.products.einsum import *
from .eager.ops.products.matrix import *
from .eager.ops.random.count_distributions import *
from .eager.ops.random.distributions import *
from .eager.ops.random.generator import *
from .eager.ops.reduction.reduce import *
from .eager.ops.reduction.softmax import *
from .eager.ops.shape.grid import *
from .eager.ops.shape.join import *
from .eager.ops.shape.padding import *
from .eager.ops.shape.rearrange import *
from .eager.ops.shape.view import *
from .eager.ops.special.gamma import *
from .eager.ops.special.special import *
from .eager.ops.statistics.cumulative import *
from .eager.ops.statistics.sets import *
from .eager.ops.statistics.statistics import *
from .eager.quantization.quantize import *
from .eager.quantization.restore import *
from .eager.settings import settings
from .eager.tensor_methods import methods as _methods
from .eager.tensor_methods.display import *
from .eager.tensor_methods.dlpack import *
from .export import aot, onnx
from .export.saved import load_compiled

__version__ = "0.1.0"

# So that `import fusewire.nn.functional as F`, `from fusewire.utils.data import DataLoader` work as
# users of PyTorch expect, though the modules live under `eager`. All of them, or an import of one
# that is left out would make its classes a second time.
for _front in (amp, autograd, cuda, fft, func, linalg, nn, optim, random, special, utils):
    _home = _front.__name__
    for _name, _module in list(_sys.modules.items()):
        if f"{_name}.".startswith(f"{_home}."):
            _public = _home.rpartition(".")[2] + _name[len(_home):]
            _sys.modules[f"{__name__}.{_public}"] = _module
for _public, _module in (("nn.attention", nn.attention), ("nn.init", nn.init),
                         ("nn.parameter", nn.parameter),
                         ("nn.utils.rnn", nn.utils.rnn), ("optim.optimizer", optim.optimizer)):
    _sys.modules[f"{__name__}.{_public}"] = _module

_again.BUILTIN_OPS.update(_OPS)
_hints.install(_sys.modules[__name__])
_advice.install()
