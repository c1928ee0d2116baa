"""LoRA: fine-tunes a model by small matrices beside its layers, while its own weights are fixed.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", arXiv 2106.09685.
"""

from .adapters import *
from .files import *
from .model import *
