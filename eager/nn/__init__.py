"""Layers, losses and containers, under PyTorch's names."""

from . import functional, utils
from .base import init, parameter
from .base.container import *
from .base.module import *
from .base.parameter import *
from .base.summary import *
from .layers import attention
from .layers.activation import *
from .layers.attention import *
from .layers.batchnorm import *
from .layers.conv import *
from .layers.distance import *
from .layers.dropout import *
from .layers.embedding import *
from .layers.flatten import *
from .layers.fold import *
from .layers.lazy import *
from .layers.linear import *
from .layers.normalization import *
from .layers.padding import *
from .layers.pooling import *
from .layers.shuffle import *
from .layers.transformer import *
from .layers.upsampling import *
from .losses.adaptive import *
from .losses.loss import *
from .recurrent.layers import *
