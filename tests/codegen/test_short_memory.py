"""With too little memory to make code, calls run without it: LLVM would end the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fusewire as fw
from fusewire.codegen.runtime import memory_headroom
from fusewire.eager.errors import MemoryShortage

TESTS = Path(__file__).parent.parent
EVERY = int(os.environ.get("FUSEWIRE_TEST_LIMITS", "15"))  # megabytes between two limits


@pytest.mark.skipif(sys.platform != "linux", reason="limits count otherwise elsewhere")
@pytest.mark.parametrize("kind", ["AS", "DATA"])
def test_a_process_with_little_memory_is_right_or_says_so(kind: str) -> None:
    said = [under(kind, limit) for limit in range(1, 33, EVERY)]
    assert set(said) <= {"right", "right warned", "MemoryError"}, said
    assert "right warned" in said


def under(kind: str, limit: int) -> str:
    """What a process says with so many megabytes."""
    path = os.pathsep.join([str(TESTS.parent.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(TESTS / "short_memory.py"), kind, str(limit)], check=False,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    return done.stdout.strip() or f"{kind} {limit}: {done.returncode} {done.stderr[-800:]}"


@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_a_function_goes_on_without_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_headroom, "available", lambda: 1 << 20)
    f = fw.compile(lambda x: (x * 17).sum())
    for i in range(6):
        assert f(fw.ones(3) * i).item() == 51 * i
    assert "too little memory" in str(f.refusals)


def test_control_groups_leave_what_their_limits_say(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"memory.max": "1000", "memory.current": "900",
                       "memory.stat": "anon 1\ninactive_file 50\n"}.items():
        (tmp_path / name).write_text(text + "\n")
    limited = [*memory_headroom._limited([tmp_path])]
    assert [rest for at in limited for rest in memory_headroom._rest(*at)] == [150]
    for unlimited in ("max", "9223372036854771712"):
        (tmp_path / "memory.max").write_text(f"{unlimited}\n")
        assert [*memory_headroom._limited([tmp_path])] == []
    monkeypatch.setattr(memory_headroom, "available", lambda: 1 << 20)
    with pytest.raises(MemoryShortage):
        memory_headroom.require(0)
