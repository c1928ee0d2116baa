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


def test_names_that_no_module_has_are_looked_for_in_vain() -> None:
    """As pickle does for a function that does not say where it is from, in all modules there are:
    torch.compile does so for its cache."""
    assert run("""
import pickle, sys, fusewire as fw
f = fw.compile(lambda x: fw.nn.functional.softmax(x @ x, -1))
for _ in range(3): f(fw.ones(2, 2))
for name in ("no_such_name", "_no_such_name", "__no_such_name__"):
    print(*[m for m in list(sys.modules.values()) if hasattr(m, name)])
print(pickle.whichmodule(type("lost", (), {"__module__": None}), "lost"), "cupy" in sys.modules)
""").split() == ["__main__", "False"]
