"""Converts names of a model to Python identifiers."""

from __future__ import annotations

import keyword
import re

_RESERVED = {"self", "fw", "op", "np", "None", "True", "False", "bool", "range", "len",
             "zip", "float"}


def identifier(name: str, taken: dict[str, int]) -> str:
    """An identifier like `name` that is not in `taken`, to which it is added.

    The numbers in `taken` count equal names, so that finding a free one takes constant time.
    """
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
    word = f"v{word}" if word[0].isdigit() else word
    word = f"{word}_" if keyword.iskeyword(word) or word in _RESERVED else word
    word = word[:60]
    unique = word
    while unique in taken:
        taken[word] += 1
        unique = f"{word}_{taken[word]}"
    taken[unique] = 1
    return unique


def is_attribute(name: str) -> bool:
    """True if `self.name` is valid in source."""
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
