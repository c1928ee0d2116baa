"""Small language models with words as tokens, without files, that tests serve."""

from __future__ import annotations

from typing import Any

import fusewire as fw
from fusewire.models.text.bert import Bert, BertConfig
from fusewire.models.text.gpt2 import GPT2, GPT2Config
from fusewire.models.tokenizer import Tokenizer
from fusewire.serving import Embedder, Generator

CHAT = "{% for message in messages %}{{ message.content }}{% endfor %}"
WORDS = {f"w{number} ": number for number in range(60)}


def tokenizer() -> Tokenizer:
    """A tokenizer of words that end in a space."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers

    backend = Backend(models.WordLevel(WORDS, unk_token="w0 "))
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    backend.decoder = decoders.Fuse()
    return Tokenizer(backend, {}, {"default": CHAT})


def small_generator(**options: Any) -> Generator:
    """A decoder of 64 positions, with pages of 16 tokens."""
    fw.manual_seed(0)
    config = GPT2Config(vocab_size=len(WORDS), n_positions=64, n_embd=32, n_layer=1, n_head=2)
    return Generator(GPT2(config), tokenizer(), page=16, **options)


def small_embedder() -> Embedder:
    """An encoder of up to 16 tokens."""
    fw.manual_seed(0)
    config = BertConfig(vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1,
                        num_attention_heads=2, intermediate_size=16, max_position_embeddings=16)
    return Embedder(Bert(config), tokenizer(), lengths=(16,), max_batch=2)
