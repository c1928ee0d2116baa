"""What a type checker sees of a module: a call takes and gives what `forward` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from house.repo import ROOT, sources

SCRIPT = """\
from collections.abc import Callable
from typing import Any
from typing_extensions import assert_type
from fusewire import Tensor, nn

class Scale(nn.Module):
    def forward(self, x: Tensor, by: float = 2.0, *, shift: int = 0) -> tuple[Tensor, int]:
        return x * by + shift, shift

class Halved(Scale):  # as it is, from the class above
    pass

class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.linear = Scale(), nn.Linear(2, 3)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:  # overrides with any signature
        scaled, _ = self.scale(inputs, shift=1)
        return {"out": self.linear(scaled)}

x, model = Tensor([]), Model()
assert_type(model(x), dict[str, Tensor])
assert_type(model.eval().to("cpu").float(), Model)
assert_type(model.eval()(inputs=x), dict[str, Tensor])
assert_type(Halved()(x, 1.0), tuple[Tensor, int])
assert_type(nn.Linear(2, 3)(x), Tensor)

def applied(fn: Callable[[Tensor], Tensor]) -> Tensor:
    return fn(x)

applied(nn.Linear(2, 3))

def of_any(module: nn.Module, modules: nn.ModuleList) -> Any:
    assert_type(module(x, 3, mask=None), Any)
    return [m(x) for m in modules]

model("text")  # line 38
model(x, x)
Scale()(x, shft=1)
Scale()()
"""
EXPECTED = [
    '38: error: Argument 1 to "__call__" of "Module" has incompatible type "str"; '
    'expected "Tensor"',
    '39: error: Too many arguments for "__call__" of "Module"',
    '40: error: Unexpected keyword argument "shft" for "__call__" of "Module"; '
    'did you mean "shift"?',
    '41: error: Missing positional argument "x" in call to "__call__" of "Module"',
]


def test_calls_are_typed_from_forward(tmp_path: Path) -> None:
    for path in sources():  # under the package's name, as where it is installed
        copy = tmp_path / "site" / "fusewire" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
         "--ignore-missing-imports", "--hide-error-codes", "--no-error-summary",
         "--cache-dir", str(tmp_path / "cache"), "script.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(tmp_path / "site")},
        capture_output=True, text=True)
    found = [line.removeprefix("script.py:") for line in done.stdout.splitlines()
             if ": error: " in line]
    assert (found, done.stderr) == (EXPECTED, "")
