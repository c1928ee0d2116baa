"""Layers, losses and containers, under PyTorch's names."""

from . import functional, utils
from .activations.piecewise_linear import *
from .activations.smooth import *
from .activations.softmaxes import *
from .base import init, parameter
from .base.container import *
from .base.module import *
from .base.parameter import *
from .base.parameter_container import *
from .base.summary import *
from .layers import attention
from .layers.attention import *
from .layers.avg_pooling import *
from .layers.batchnorm import *
from .layers.conv import *
from .layers.distance import *
from .layers.dropout import *
from .layers.embedding import *
from .layers.flatten import *
from .layers.fold import *
from .layers.linear import *
from .layers.max_pooling import *
from .layers.normalization import *
from .layers.padding import *
from .layers.shuffle import *
from .layers.transformer import *
from .layers.upsampling import *
from .lazy.conv import *
from .lazy.linear import *
from .lazy.norm import *
from .losses.adaptive import *
from .losses.classes import *
from .losses.pairs import *
from .losses.values import *
from .recurrent.cells import *
from .recurrent.layers import *
