"""Published architectures, which load the checkpoints of their authors."""

import sys

from ..eager.front import hints
from .config import Config, ConfigError
from .generation.generate import generate, stream
from .generation.sampling import Sampling
from .generation.texts import generate_text, stream_text
from .perplexity import perplexity
from .pretrained import from_config, from_pretrained, save_pretrained
from .pretrained_model import PretrainedModel
from .tokenizer import Tokenizer, load_tokenizer

__all__ = ["Config", "ConfigError", "PretrainedModel", "Sampling", "Tokenizer",
           "from_config", "from_pretrained", "generate", "generate_text", "load_tokenizer",
           "perplexity", "save_pretrained", "stream", "stream_text"]

hints.add("models", sys.modules[__name__])
