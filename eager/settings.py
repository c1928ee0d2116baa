"""Every knob, once: its environment variable, type, default and help."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

KNOBS: dict[str, tuple[str, Any, str]] = {
    "compile": ("FUSEWIRE_COMPILE", True,
                "0: nothing is compiled: functions run eagerly, ops by NumPy"),
    "debug": ("FUSEWIRE_DEBUG", 0, "1: why functions record again; 2: a line per kernel; "
              "3: graphs; 4: generated code; 5: the graph after every pass"),
    "threads": ("FUSEWIRE_NUM_THREADS", 0, "threads of compiled code; 0: one per core"),
    "cache_mb": ("FUSEWIRE_CACHE_MB", 1024, "memory of large results kept for later ones, in MiB"),
    "cpu": ("FUSEWIRE_CPU", "", "generate code for this CPU (x86-64-v3, ...) instead of this one"),
}


@dataclass
class Settings:
    """The knobs' present values, read from the environment at import."""

    compile: bool
    debug: int
    threads: int
    cache_mb: int
    cpu: str


def _read(name: str) -> Any:
    variable, default, _ = KNOBS[name]
    text = os.environ.get(variable)
    if text is None or text == "":
        return default
    if isinstance(default, str):
        return text
    if not text.isdigit():
        raise ValueError(f"{variable}={text!r} is not a number; {KNOBS[name][2]}")
    return bool(int(text)) if isinstance(default, bool) else int(text)


settings = Settings(**{f.name: _read(f.name) for f in fields(Settings)})
