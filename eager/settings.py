"""Every knob, once: its environment variable, what it may be, its default and its help.

Variables are read when fusewire is imported. `fw.settings` holds the values, prints the help, and
takes new ones while a program runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ArgumentError

LADDER = {  # what FUSEWIRE_DEBUG shows from which number on
    1: "recordings, and the guard that failed",
    2: "kernels with time and GB/s",
    3: "graphs",
    4: "generated code",
    5: "the graph after every pass",
}


@dataclass(frozen=True)
class SettingType:
    """What a setting may be: in words, the value that a text stands for, and which values fit."""

    allowed: str
    parse: Callable[[str], Any]
    fits: Callable[[Any], bool]


def _number(low: int, high: float = float("inf")) -> SettingType:
    words = f"a number from {low} to {high}" if high < float("inf") else f"a number, {low} or more"
    return SettingType(words, int, lambda v: type(v) is int and low <= v <= high)


def _one_of(*values: int) -> SettingType:
    words = ", ".join(map(str, values[:-1])) + f" or {values[-1]}"
    return SettingType(words, int, lambda v: type(v) is int and v in values)


SWITCH = SettingType("0 or 1", lambda text: {"0": False, "1": True}[text],
                     lambda v: isinstance(v, bool))
PROCESSOR = SettingType("the name of a processor, such as x86-64-v3", str,
                        lambda v: isinstance(v, str)
                        and re.fullmatch(r"[\w.-]*", v, re.ASCII) is not None)
FOLDER = SettingType("the path of a folder", str, lambda v: isinstance(v, str))


@dataclass(frozen=True)
class Knob:
    """A setting: variable, kind, default, and what it means."""

    variable: str
    kind: SettingType
    default: Any
    help: str


KNOBS: dict[str, Knob] = {
    "compile": Knob("FUSEWIRE_COMPILE", SWITCH, True,
                    "0: nothing is compiled: functions run eagerly, operations by NumPy"),
    "debug": Knob("FUSEWIRE_DEBUG", _number(0, max(LADDER)), 0, "what to show on stderr: " + "; "
                  .join(f"{level}: {what}" for level, what in LADDER.items())
                  + "; each with all before it"),
    "threads": Knob("FUSEWIRE_NUM_THREADS", _number(0), 0,
                    "threads of compiled code; 0: OMP_NUM_THREADS, or else one per processor"),
    "cache_mb": Knob("FUSEWIRE_CACHE_MB", _number(0), 1024,
                     "memory of large results that is kept for later ones, in MiB"),
    "disk_mb": Knob("FUSEWIRE_DISK_MB", _number(0), 256,
                    "compiled code that is kept on disk for later processes, in MiB; 0: none"),
    "disk_dir": Knob("FUSEWIRE_DISK_DIR", FOLDER, "",
                     "the folder it is kept in; empty: the user's folder for caches"),
    "cpu": Knob("FUSEWIRE_CPU", PROCESSOR, "",
                "the processor to generate code for, such as x86-64-v3; empty: this one"),
    "tune": Knob("FUSEWIRE_TUNE", SWITCH, True,
                 "1: on a GPU, kernels that give the same numbers are timed, once, and the fastest "
                 "is remembered on disk; 0: a model of costs chooses"),
    "winograd": Knob("FUSEWIRE_WINOGRAD", _one_of(0, 2, 4), 4,
                     "convolutions of 3 by 3 in float32 by Winograd's way, in tiles of 4 x 4 or "
                     "2 x 2 results; 0: all directly"),
    "winograd_training": Knob(
        "FUSEWIRE_WINOGRAD_TRAINING", _one_of(0, 2, 4), 2,
        "the same at most, for results whose weights change from call to call, as in training and "
        "eagerly; 4: faster steps, in which rounding decides about twice as many relus"),
    "bf16_dot": Knob("FUSEWIRE_BF16_DOT", SWITCH, False,
                     "1: products of bfloat16 by the processor's own instruction (AVX512-BF16), "
                     "which takes subnormal numbers as 0; where there is none, as with 0"),
}


class Settings:
    """The knobs' present values. Assigning one checks it; `print(fw.settings)` explains them all.

    >>> import fusewire as fw
    >>> fw.settings.compile
    True
    """

    compile: bool
    debug: int
    threads: int
    cache_mb: int
    disk_mb: int
    disk_dir: str
    cpu: str
    tune: bool
    winograd: int
    winograd_training: int
    bf16_dot: bool

    def __init__(self, environment: Mapping[str, str]) -> None:
        for name, knob in KNOBS.items():
            object.__setattr__(self, name, _value_of(knob, environment.get(knob.variable, "")))

    def __setattr__(self, name: str, value: Any) -> None:
        knob = KNOBS.get(name)
        if knob is None:
            raise ArgumentError(f"there is no setting {name!r}", f"there are {', '.join(KNOBS)}")
        if name == "threads":
            raise ArgumentError("settings.threads is what the environment asked for",
                                "fw.set_num_threads changes the number of threads")
        if not knob.kind.fits(value):
            raise ArgumentError(f"settings.{name} = {value!r} is not {knob.kind.allowed}",
                                f"{name}: {knob.help}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        rows = [(name, knob.variable, _as_text(getattr(self, name)), _as_text(knob.default),
                 knob.help) for name, knob in KNOBS.items()]
        return table([("setting", "variable", "value", "default", "meaning"), *rows])


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows of texts as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _as_text(value: Any) -> str:
    """A value as one would write it into the environment."""
    return str(int(value)) if isinstance(value, bool) else str(value) or "(empty)"


def _value_of(knob: Knob, text: str) -> Any:
    """What a variable says; ArgumentError where that makes no sense."""
    if text.strip() == "":
        return knob.default
    try:
        value = knob.kind.parse(text.strip())
    except (KeyError, ValueError):
        value = None
    if value is None or not knob.kind.fits(value):
        error = ArgumentError(f"the environment has {knob.variable}={text!r}, which is not "
                              f"{knob.kind.allowed}", f"{knob.variable}: {knob.help}")
        error.line = ""  # the environment is no line of the program
        raise error
    return value


settings = Settings(os.environ)


def wanted_threads() -> int:
    """The number of threads by the environment, or else of processors this process may use."""
    if settings.threads:
        return settings.threads
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # not ours: never an error
    if first.isdigit() and int(first) > 0:
        return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
