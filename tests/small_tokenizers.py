"""Trains small tokenizers on the documentation of Python, and writes their folders."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

TEXTS = [inspect.getdoc(module) or "" for module in (inspect, json)] + ["déjà vu, 漢字 🙂"]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
CHAT = """{% for message in messages %}
    {%- if loop.first and message.role != 'user' %}{{ raise_exception('a user begins') }}{% endif %}
<|{{ message.role }}|>{{ message.content | trim }}{{ eos_token }}
    {%- if message.data is defined %}{{ message.data | tojson }}{% endif %}
{% if loop.index == 9 %}{% break %}{% endif %}
{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""
MESSAGES = [{"role": "user", "content": " Hello "},
            {"role": "assistant", "content": "déjà vu", "data": {"b": "<&>", "a": ["é", 1.5]}},
            {"role": "user", "content": "Why?", "name": None}]


def byte_level() -> Any:
    """A tokenizer of pairs of bytes, as GPT-2 and Llama 3 have."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(SPECIAL.values()), show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def byte_fallback() -> Any:
    """A tokenizer of words with a mark for spaces, and of bytes, as Llama 2 and Mistral have."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=600, show_progress=False, special_tokens=[
            "<unk>", *SPECIAL.values(), *(f"<0x{byte:02X}>" for byte in range(256))]))
    return tokenizer


def word_pieces() -> Any:
    """A tokenizer of words and their parts, as BERT has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[UNK]", *SPECIAL.values()], show_progress=False))
    return tokenizer


KINDS = {"byte level": byte_level, "byte fallback": byte_fallback, "word pieces": word_pieces}


def save(tokenizer: Any, folder: Path, **config: Any) -> Path:
    """The folder, after the tokenizer and its config were written to it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {"chat_template": CHAT, **SPECIAL, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder
