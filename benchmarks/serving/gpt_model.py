"""A small GPT with random weights: a file for `fusewire serve`.

In the environment, BENCHMARK_GPT2 takes the sizes of GPT-2 small in its place, and BENCHMARK_SLOTS
is the number of texts at once, 16 by default.
"""

import os

import fusewire as fw
from fusewire.models.text.gpt2 import GPT2, GPT2Config
from fusewire.models.tokenizer import Tokenizer
from fusewire.serving import Generator


def load() -> Generator:
    """The model that is served, 16 texts at once."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import models as kinds

    fw.manual_seed(0)
    small = GPT2Config(vocab_size=4096, n_positions=512, n_embd=256, n_layer=4, n_head=4)
    config = GPT2Config() if os.environ.get("BENCHMARK_GPT2") else small
    words = {f"w{number} ": number for number in range(config.vocab_size)}
    tokenizer = Tokenizer(Backend(kinds.WordLevel(words, unk_token="w0 ")), {})
    slots = int(os.environ.get("BENCHMARK_SLOTS", "16"))
    return Generator(GPT2(config), tokenizer, slots=slots, context=512)
