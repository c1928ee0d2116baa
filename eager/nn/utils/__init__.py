"""Functions of the parameters and gradients of layers, under PyTorch's names."""

from ..recurrent import packed_sequence as rnn
from . import lora, parametrizations, parametrize
from .clip_grad import *
from .fusion import *
from .reparametrize import *
from .skip_init import *
from .vectors import *
