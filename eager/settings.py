"""Defines all settings: environment variable, allowed values, default and help.

fusewire reads the variables when it is imported. `fw.settings` holds the values, prints the help,
and takes new values at run time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ArgumentError

DEBUG_LEVELS = {  # the output of FUSEWIRE_DEBUG, by the level from which on it appears
    1: "traces, and the guard that failed; all frames in tracebacks",
    2: "kernels with time and GB/s",
    3: "graphs",
    4: "generated code",
    5: "the graph after every pass",
}


@dataclass(frozen=True)
class ValueKind:
    """A type of settings: a description of the allowed values, a parser, and a check of values."""

    allowed: str
    parse: Callable[[str], Any]
    fits: Callable[[Any], bool]


def _number(low: int, high: float = float("inf")) -> ValueKind:
    bounded = high < float("inf")
    allowed = f"a number from {low} to {high}" if bounded else f"a number, {low} or more"
    return ValueKind(allowed, int, lambda v: type(v) is int and low <= v <= high)


def _one_of(*values: int) -> ValueKind:
    allowed = ", ".join(map(str, values[:-1])) + f" or {values[-1]}"
    return ValueKind(allowed, int, lambda v: type(v) is int and v in values)


SWITCH = ValueKind("0 or 1", lambda text: {"0": False, "1": True}[text],
                   lambda v: isinstance(v, bool))
PROCESSOR = ValueKind("the name of a processor, such as x86-64-v3", str,
                      lambda v: isinstance(v, str)
                      and re.fullmatch(r"[\w.-]*", v, re.ASCII) is not None)
SECONDS = ValueKind("a number of seconds above 0", float,
                    lambda v: type(v) in (int, float) and v > 0)
FOLDER = ValueKind("the path of a folder", str, lambda v: isinstance(v, str))


@dataclass(frozen=True)
class Knob:
    """A setting: its variable, kind, default and meaning."""

    variable: str
    kind: ValueKind
    default: Any
    help: str


KNOBS: dict[str, Knob] = {
    "compile": Knob("FUSEWIRE_COMPILE", SWITCH, True,
                    "0: compile nothing; functions run eagerly, operations by NumPy"),
    "debug": Knob("FUSEWIRE_DEBUG", _number(0, max(DEBUG_LEVELS)), 0,
                  "output on stderr: " + "; "
                  .join(f"{level}: {what}" for level, what in DEBUG_LEVELS.items())
                  + "; each with all before it"),
    "threads": Knob("FUSEWIRE_NUM_THREADS", _number(0), 0,
                    "threads of compiled code; 0: OMP_NUM_THREADS, or else one per processor"),
    "cache_mb": Knob("FUSEWIRE_CACHE_MB", _number(0), 1024,
                     "freed memory of large results that later results reuse, in MiB"),
    "disk_mb": Knob("FUSEWIRE_DISK_MB", _number(0), 256,
                    "compiled code cached on disk for later processes, in MiB; 0: none"),
    "disk_dir": Knob("FUSEWIRE_DISK_DIR", FOLDER, "",
                     "folder of that cache; empty: the user's folder for caches"),
    "cpu": Knob("FUSEWIRE_CPU", PROCESSOR, "",
                "processor to generate code for, such as x86-64-v3; empty: this one"),
    "tune": Knob("FUSEWIRE_TUNE", SWITCH, True,
                 "1: on a GPU, time kernels that give equal numbers, once, and cache the fastest "
                 "on disk; 0: choose by a cost model"),
    "winograd": Knob("FUSEWIRE_WINOGRAD", _one_of(0, 2, 4), 4,
                     "3 x 3 convolutions in float32 by Winograd's algorithm, in tiles of 4 x 4 or "
                     "2 x 2 results; 0: direct convolutions only"),
    "winograd_training": Knob(
        "FUSEWIRE_WINOGRAD_TRAINING", _one_of(0, 2, 4), 2,
        "largest such tile for weights that change from call to call, as in training and eagerly; "
        "4: faster steps, in which rounding decides about twice as many relus"),
    "prepack": Knob("FUSEWIRE_PREPACK", SWITCH, True,
                    "1: copies of weights in the layout of products are kept while the weights are "
                    "the same; 0: each call makes them anew, in less memory"),
    "bf16_dot": Knob("FUSEWIRE_BF16_DOT", SWITCH, False,
                     "1: products of bfloat16 by the instructions AVX512-BF16 or AMX, if the "
                     "processor has them, which take subnormal numbers as 0"),
    "amx": Knob("FUSEWIRE_AMX", SWITCH, True,
                "1: products of 8-bit integers, and of bfloat16 with FUSEWIRE_BF16_DOT, by the "
                "matrix unit AMX, if processor and system allow it; 0: by vectors"),
    "distributed_timeout": Knob("FUSEWIRE_DISTRIBUTED_TIMEOUT", SECONDS, 600.0,
                                "time that a rank waits for others in a collective"),
}


class Settings:
    """The present values of all settings; `print(fw.settings)` explains each.

    Assigning a value checks it. `threads` is read-only: call `fw.set_num_threads`.

    Args:
        environment: environment variables; an empty text means the default.

    Attributes:
        compile: False runs everything eagerly. Default True.
        debug: level of output on stderr, 0 to 5. Default 0.
        threads: threads of compiled code, 0 for automatic. Default 0.
        cache_mb: memory of large results that is reused, in MiB. Default 1024.
        disk_mb: compiled code cached on disk, in MiB; 0 for none. Default 256.
        disk_dir: folder of that cache. Default "": the user's cache folder.
        cpu: processor to generate code for. Default "": this one.
        tune: True times kernels on a GPU and chooses the fastest. Default True.
        winograd: Winograd tile of 3 x 3 convolutions, 4 or 2; 0 for none. Default 4.
        winograd_training: largest tile for weights that change. Default 2.
        prepack: True keeps packed copies of weights that do not change. Default True.
        bf16_dot: True uses AVX512-BF16 and AMX for products of bfloat16. Default False.
        amx: False uses no matrix unit. Default True.
        distributed_timeout: seconds that a rank waits for others. Default 600.

    Raises:
        ArgumentError: an unknown setting, or a value that is not allowed.

    Example:
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
    prepack: bool
    bf16_dot: bool
    amx: bool
    distributed_timeout: float

    def __init__(self, environment: Mapping[str, str]) -> None:
        for name, knob in KNOBS.items():
            object.__setattr__(self, name, _value_of(knob, environment.get(knob.variable, "")))

    def __setattr__(self, name: str, value: Any) -> None:
        knob = KNOBS.get(name)
        if knob is None:
            raise ArgumentError(f"there is no setting {name!r}", f"there are {', '.join(KNOBS)}")
        if name == "threads":
            raise ArgumentError("settings.threads is read-only: it is the value of the environment",
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
    """The rows as text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _as_text(value: Any) -> str:
    """A value in the form that an environment variable has."""
    return str(int(value)) if isinstance(value, bool) else str(value) or "(empty)"


def _value_of(knob: Knob, text: str) -> Any:
    """The value that a variable sets; an ArgumentError if it is not allowed."""
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


def thread_count() -> int:
    """The number of threads: from the environment, or else of processors this process may use."""
    if settings.threads:
        return settings.threads
    # a variable of other programs, so a value that does not parse is ignored
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isdigit() and int(first) > 0:
        return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
