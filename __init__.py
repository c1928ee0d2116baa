"""fusewire: define-by-run tensors, recorded and compiled to native code, exported to ONNX."""

import sys as _sys

from .codegen.decorator import compile
from .codegen.llvm.threads import get_num_threads, set_num_threads
from .eager import methods as _methods
from .eager import nn, optim, utils
from .eager.autograd import *
from .eager.dtypes import *
from .eager.errors import *
from .eager.ops.contract import *
from .eager.ops.conv import *
from .eager.ops.create import *
from .eager.ops.join import *
from .eager.ops.pointwise import *
from .eager.ops.random import *
from .eager.ops.reduce import *
from .eager.ops.softmax import *
from .eager.ops.view import *
from .eager.tape import *
from .eager.tensor import *
from .export import onnx

__version__ = "0.1.0"

# So that `import fusewire.nn.functional as F`, `from fusewire.utils.data import DataLoader` work as
# users of PyTorch expect, though the modules live under `eager`.
_ALIASES = ("nn", "nn.functional", "nn.init", "optim", "utils", "utils.data")
for _name in _ALIASES:
    _sys.modules[f"{__name__}.{_name}"] = _sys.modules[f"{__name__}.eager.{_name}"]
