"""Layers, losses and containers, under PyTorch's names."""

from . import functional, init, utils
from .activation import *
from .adaptive import *
from .attention import *
from .batchnorm import *
from .container import *
from .conv import *
from .distance import *
from .dropout import *
from .embedding import *
from .flatten import *
from .fold import *
from .lazy import *
from .linear import *
from .loss import *
from .module import *
from .normalization import *
from .padding import *
from .parameter import *
from .pooling import *
from .recurrent import *
from .shuffle import *
from .summary import *
from .transformer import *
from .upsampling import *
