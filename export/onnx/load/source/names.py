"""Names of a model as names of Python."""

from __future__ import annotations

import keyword
import re

_RESERVED = {"self", "fw", "op", "np", "None", "True", "False", "bool", "range", "len",
             "zip", "float"}


def identifier(name: str, taken: dict[str, int]) -> str:
    """An identifier like `name` that is not in `taken`, to which it is added. The numbers there say
    how many of a name there are, so that many equal ones take no time to tell apart."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
    word = f"v{word}" if word[0].isdigit() else word
    word = f"{word}_" if keyword.iskeyword(word) or word in _RESERVED else word
    word = word[:60]
    found = word
    while found in taken:
        taken[word] += 1
        found = f"{word}_{taken[word]}"
    taken[found] = 1
    return found


def is_attribute(name: str) -> bool:
    """Whether `self.name` says just that in source."""
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
