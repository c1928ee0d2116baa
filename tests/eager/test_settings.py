"""Settings: read once, checked, explained in one text that the documentation repeats."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

import fusewire as fw
from fusewire.eager.errors import ArgumentError
from fusewire.eager.settings import DEBUG_LEVELS, KNOBS, Settings, thread_count
from house.pages import TEXTS
from house.repo import sources

VARIABLES = [knob.variable for knob in KNOBS.values()]


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings({})
    assert {name: getattr(settings, name) for name in KNOBS} == \
        {"compile": True, "debug": 0, "threads": 0, "cache_mb": 1024, "disk_mb": 256,
         "disk_dir": "", "cpu": "", "tune": True, "winograd": 4,
         "winograd_training": 2, "prepack": True, "bf16_dot": False, "amx": True,
         "distributed_timeout": 600.0}


def test_variables_are_read() -> None:
    settings = Settings({"FUSEWIRE_COMPILE": "0", "FUSEWIRE_DEBUG": " 3 ", "FUSEWIRE_CPU": "znver3",
                         "FUSEWIRE_NUM_THREADS": "", "FUSEWIRE_CACHE_MB": "0"})
    assert (settings.compile, settings.debug, settings.cpu) == (False, 3, "znver3")
    assert (settings.threads, settings.cache_mb) == (0, 0)


@pytest.mark.parametrize(("variable", "value", "allowed"), [
    ("FUSEWIRE_COMPILE", "yes", "0 or 1"), ("FUSEWIRE_COMPILE", "2", "0 or 1"),
    ("FUSEWIRE_DEBUG", "abc", "a number from 0 to 5"),
    ("FUSEWIRE_DEBUG", "6", "a number from 0 to 5"),
    ("FUSEWIRE_NUM_THREADS", "-1", "a number, 0 or more"), ("FUSEWIRE_WINOGRAD", "3", "0, 2 or 4"),
    ("FUSEWIRE_CACHE_MB", "1.5", "a number, 0 or more"),
    ("FUSEWIRE_CPU", "my cpu", "the name of a processor"),
])
def test_a_wrong_value_is_named_with_what_is_allowed(variable: str, value: str, allowed: str
                                                     ) -> None:
    with pytest.raises(ArgumentError) as caught:
        Settings({variable: value})
    assert f"{variable}={value!r}, which is not {allowed}" in str(caught.value)


def test_each_setting_can_be_changed_while_running() -> None:
    settings = Settings({})
    settings.debug, settings.cpu, settings.compile = 2, "x86-64-v3", False
    assert (settings.debug, settings.cpu, settings.compile) == (2, "x86-64-v3", False)


@pytest.mark.parametrize(("name", "value", "says"), [
    ("debug", 9, "settings.debug = 9 is not a number from 0 to 5"),
    ("compile", 0, "settings.compile = 0 is not"),
    ("threads", 2, "fw.set_num_threads"),
    ("treads", 2, "there is no setting 'treads'"),
])
def test_a_wrong_change_is_refused(name: str, value: Any, says: str) -> None:
    settings = Settings({})
    with pytest.raises(ArgumentError, match=re.escape(says)):
        setattr(settings, name, value)


@pytest.mark.parametrize(("own", "general", "count"), [
    (3, "5", 3), (0, "5,2", 5), (0, "none", len(os.sched_getaffinity(0))
                                 if hasattr(os, "sched_getaffinity") else os.cpu_count()),
])
def test_threads(own: int, general: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = Settings({"FUSEWIRE_NUM_THREADS": str(own)})
    monkeypatch.setattr("fusewire.eager.settings.settings", changed)
    monkeypatch.setenv("OMP_NUM_THREADS", general)
    assert thread_count() == count


def test_printing_them_explains_them() -> None:
    lines = repr(fw.settings).splitlines()
    assert lines[0].split() == ["setting", "variable", "value", "default", "meaning"]
    assert [line.split()[1] for line in lines[1:]] == VARIABLES
    assert all(what in repr(fw.settings) for what in DEBUG_LEVELS.values())


def test_the_documentation_has_the_same_table() -> None:
    page = TEXTS["docs/reference/environment.md"]
    for knob in KNOBS.values():
        assert f"| `{knob.variable}` | {knob.kind.allowed} | {knob.help} |" in page


def test_variables_are_read_in_one_file() -> None:
    readers = [path for path in sources() if "FUSEWIRE_" in path.read_text(encoding="utf-8")
               and "os.environ" in path.read_text(encoding="utf-8")]
    assert [path.name for path in readers] == ["settings.py"]
