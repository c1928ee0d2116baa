"""The layers as functions, in PyTorch's signatures."""

from .activation import *
from .affine import *
from .convolution import *
from .dropouts import *
from .embeddings import *
from .image import *
from .losses import *
from .pooling import *
