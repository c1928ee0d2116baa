"""Layers, losses and containers, under PyTorch's names."""

from . import functional, init
from .activation import *
from .container import *
from .conv import *
from .dropout import *
from .flatten import *
from .linear import *
from .loss import *
from .module import *
from .parameter import *
from .pooling import *
