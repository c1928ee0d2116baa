"""fusewire: define-by-run tensors, recorded and compiled to native code, exported to ONNX."""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .capture.control_flow import symbolic_range as _symbolic_range
from .capture.runtime.specialization_cache import clear_caches
from .codegen import backend as _backend
from .codegen.control_vm import native_fast_path as _native_fast_path
from .codegen.cpu_backend import CPU_BACKEND as _CPU_BACKEND
from .codegen.decorator import compile
from .codegen.eager_jit import op_compiler as _op_compiler
from .codegen.eager_jit import rnn as _rnn
from .codegen.eager_jit import vjp as _vjp
from .codegen.program.native_threads import get_num_threads, set_num_threads
from .codegen.report.caches import caches
from .codegen.report.profile import profile
from .codegen.runtime.cpython.object_layout import LAYOUT as _LAYOUT
from .codegen.runtime.cpython.profile_hook import NativeObserver as _NativeObserver
from .eager import amp, autograd, func, linalg, nn, optim, utils
from .eager import upper_layer as _upper_layer
from .eager.amp.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from .eager.arrays import devices as _devices
from .eager.arrays.dtypes import *
from .eager.arrays.memory import *
from .eager.autograd import engine as _engine
from .eager.autograd.engine import *
from .eager.constants import *
from .eager.core.op import OPS as _OPS
from .eager.core.tape import *
from .eager.core.tensor import *
from .eager.cuda import namespace as cuda
from .eager.cuda.device import CUDA as _CUDA
from .eager.errors import *
from .eager.front import advice as _advice
from .eager.front import constructor_checks as _constructor_checks
from .eager.front import hints as _hints
from .eager.front import keywords as _keywords
from .eager.front import public_modules as _public_modules
from .eager.front.hints import *
from .eager.front.libraries import registration as _registration
from .eager.front.serialization import *
from .eager.linalg.distance import *
from .eager.linalg.from_cholesky import *
from .eager.namespaces import fft, lib, random, signal, special
from .eager.namespaces.array_namespace_info import *
from .eager.namespaces.short_time import *
from .eager.ops.create import *
from .eager.ops.derived.arithmetic import *
from .eager.ops.derived.comparison import *
from .eager.ops.elementwise.clip import *
from .eager.ops.elementwise.complex import *
from .eager.ops.elementwise.convert import *
from .eager.ops.elementwise.pointwise import *
from .eager.ops.indexing.coordinates import *
from .eager.ops.indexing.scatter import *
from .eager.ops.indexing.scatter_reduce import *
from .eager.ops.indexing.search import *
from .eager.ops.indexing.slice_scatter import *
from .eager.ops.indexing.slices import *
from .eager.ops.indexing.sort import *
from .eager.ops.indexing.where import *
from .eager.ops.products.contract import *
from .eager.ops.products.diagonals import *
from .eager.ops.products.einsum import *
from .eager.ops.products.matrix import *
from .eager.ops.products.scaled_sums import *
from .eager.ops.random.count_distributions import *
from .eager.ops.random.distributions import *
from .eager.ops.random.generator import *
from .eager.ops.random.multinomial import *
from .eager.ops.reduction.reduce import *
from .eager.ops.reduction.softmax import *
from .eager.ops.shape.combinations import *
from .eager.ops.shape.complex_pairs import *
from .eager.ops.shape.grid import *
from .eager.ops.shape.join import *
from .eager.ops.shape.padding import *
from .eager.ops.shape.rearrange import *
from .eager.ops.shape.take import *
from .eager.ops.shape.view import *
from .eager.ops.special.gamma import *
from .eager.ops.special.special import *
from .eager.ops.statistics.calculus import *
from .eager.ops.statistics.covariance import *
from .eager.ops.statistics.cumulative import *
from .eager.ops.statistics.histogram import *
from .eager.ops.statistics.masked_scatter import *
from .eager.ops.statistics.moments import *
from .eager.ops.statistics.segments import *
from .eager.ops.statistics.sets import *
from .eager.ops.statistics.statistics import *
from .eager.ops.statistics.trapezoid import *
from .eager.quantization.quantize import *
from .eager.quantization.restore import *
from .eager.settings import settings
from .eager.tensor_methods import methods as _methods
from .eager.tensor_methods.display import *
from .eager.tensor_methods.dlpack import *

if _TYPE_CHECKING:
    from . import data as data
    from . import distributed as distributed
    from . import metrics as metrics
    from . import models as models
    from . import training as training
    from .export import aot as aot
    from .export import onnx as onnx
    from .export.saved import load_compiled as load_compiled
    from .frontends import torch as torch

__version__ = "0.1.0"



def _late(module: str, name: str) -> _Any:
    """A function of a module that is imported at the first call."""
    return lambda *args: getattr(_import_module(f"{__name__}.{module}"), name)(*args)


_backend.register(_devices.TYPES[_devices.CPU], lambda: _CPU_BACKEND)
_backend.register(_CUDA, _late("codegen.cuda.runtime.backend", "back_end"))
_upper_layer.register(
    compile=compile, gradients=_engine.gradients_of, builtin_ops=dict(_OPS),
    save=_late("export.saved.save", "save_compiled"),
    large_op=_op_compiler.run, large_vjp=_vjp.run, recurrent_layer=_rnn.run,
    device_op=_late("codegen.eager_jit.device_ops", "run_op"),
    device_in_range=_late("codegen.eager_jit.device_ops", "in_range"),
    iterate=_symbolic_range.iterated, fast_path=_native_fast_path,
    observer=_NativeObserver if _LAYOUT is not None else None,
    write_page=_late("export.report.viewer", "write_page"),
    code_kinds=_backend.code_kinds, code_of=_late("codegen.code_listing", "code_of_segment"))
_public_modules.register(__name__, {"aot": "export.aot", "onnx": "export.onnx",
                                    "torch": "frontends.torch"}, _hints.add)
_hints.install(_sys.modules[__name__], {
    "aot": lambda: _import_module(f"{__name__}.aot"),
    "data": lambda: _import_module(f"{__name__}.data"),
    "distributed": lambda: _import_module(f"{__name__}.distributed"),
    "metrics": lambda: _import_module(f"{__name__}.metrics"),
    "models": lambda: _import_module(f"{__name__}.models"),
    "onnx": lambda: _import_module(f"{__name__}.onnx"),
    "torch": lambda: _import_module(f"{__name__}.torch"),
    "training": lambda: _import_module(f"{__name__}.training"),
    "load_compiled": lambda: _import_module(f"{__name__}.export.saved").load_compiled,
})
_advice.install()
_registration.install()
_keywords.install(_sys.modules[__name__])
_constructor_checks.install()
