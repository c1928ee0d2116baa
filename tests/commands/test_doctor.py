"""`fusewire doctor`: versions, settings, and a test of this installation."""

from __future__ import annotations

from typing import Any

import pytest

from fusewire.commands import doctor
from fusewire.eager.settings import KNOBS, settings


def test_for_people(call: Any) -> None:
    done = call("doctor")
    lines = done.out.splitlines()
    assert done.status == 0
    assert {"fusewire", "Python", "processor", "threads"} <= {line.split()[0] for line in lines
                                                             if line}
    assert ["self-test", "passed"] in map(str.split, lines)
    assert lines[-len(KNOBS):] == repr(settings).splitlines()[1:]


def test_for_programs(call: Any) -> None:
    found = call("doctor", "--json").json
    assert found["self_test"] == "passed" and found["settings"].keys() == KNOBS.keys()
    assert found["environment"]["threads"].isdigit()


def test_a_failed_test_is_a_failure(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_self_test", lambda: "no native code ran")
    done = call("doctor", "--json")
    assert done.status == 1 and done.json["self_test"] == "no native code ran"
    assert done.err == "fusewire doctor: self-test: no native code ran\n"
