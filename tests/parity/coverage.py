"""Which public functions there are, and why some of them have no entry in the table."""

from __future__ import annotations

import inspect
from typing import Any

import fusewire as fw

NAMESPACES = {"": fw, "linalg.": fw.linalg, "fft.": fw.fft, "special.": fw.special,
              "nn.functional.": fw.nn.functional}

# Functions that are not of tensors to tensors, or that have no counterpart.
WITHOUT: dict[str, str] = {}
for names, why in {
    "backward grad": "it is what the columns of gradients call",
}.items():
    WITHOUT.update(dict.fromkeys(names.split(), why))


def public() -> dict[str, Any]:
    """Functions by name, as entries have it."""
    found = {}
    for prefix, namespace in NAMESPACES.items():
        names = getattr(namespace, "__all__", None) or [n for n in dir(namespace) if n[0] != "_"]
        for name in names:
            value = getattr(namespace, name)
            if callable(value) and not inspect.isclass(value):
                found[prefix + name] = value
    return found
