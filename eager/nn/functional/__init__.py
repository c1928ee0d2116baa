"""Layers as functions: they take inputs and parameters, in PyTorch's signatures."""

from ...ops.layers.regions import *
from .activation import *
from .affine import *
from .attention import *
from .convolution import *
from .ctc import *
from .distance import *
from .dropouts import *
from .embeddings import *
from .fractional_pooling import *
from .image import *
from .losses import *
from .losses_of_classes import *
from .losses_of_pairs import *
from .normalization import *
from .piecewise import *
from .pooling import *
from .softmaxes import *
