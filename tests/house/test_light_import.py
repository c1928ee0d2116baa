"""`import fusewire` loads nothing that it may not need."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("onnx", "onnxruntime", "cupy", "tqdm", "hypothesis", "safetensors")


def run(code: str) -> str:
    """What a fresh interpreter prints when it runs `code`."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_nothing_heavy_is_loaded() -> None:
    loaded = run("import sys, fusewire; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []


def test_nothing_is_printed_or_warned() -> None:
    assert run("import fusewire") == ""
