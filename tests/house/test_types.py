"""Programs of users pass pyright's strict mode, and editors complete what `dir(fw)` lists."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from house.public_stubs import stubs
from house.repo import ROOT

# Back ends use what lies below the public interface, such as the loop IR.
EXAMPLES = sorted(path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.py")
                  if "backends" not in path.relative_to(ROOT).parts)
WRONG = """
import fusewire as fw
import fusewire.nn.functional as F

wrong: int = F.relu(fw.ones(2))
"""


def pyright(folder: Path) -> dict[str, Any]:
    """What pyright says of the files below `folder / "programs"`. It sees the checkout as the
    package, by a link."""
    (folder / "fusewire").symlink_to(ROOT)
    config = {"include": ["programs"], "typeCheckingMode": "strict",
              "extraPaths": [".", "programs/examples"], "pythonVersion": "3.10",
              # The modules are made when the package is imported: see public_stubs.py.
              "reportMissingModuleSource": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "pyright", "-p", str(folder), "--outputjson",
                           "--pythonpath", sys.executable], cwd=folder, capture_output=True,
                          text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What pyright says of all examples, and of a wrong program."""
    folder = tmp_path_factory.mktemp("types")
    for path in EXAMPLES:
        (folder / "programs" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / "programs" / path)
    (folder / "programs" / "wrong.py").write_text(WRONG, encoding="utf-8")
    return pyright(folder)


def messages(found: dict[str, Any], wrong: bool) -> list[str]:
    """The messages on the wrong program, or on the others."""
    return [f"{Path(row['file']).name}:{row['range']['start']['line'] + 1}: {row['message']}"
            for row in found["generalDiagnostics"]
            if (Path(row["file"]).name == "wrong.py") is wrong]


def test_the_examples_have_no_errors_in_strict_mode(found: dict[str, Any]) -> None:
    assert found["summary"]["filesAnalyzed"] == len(EXAMPLES) + 1
    assert messages(found, wrong=False) == []


def test_a_wrong_type_is_found(found: dict[str, Any]) -> None:
    (message,) = messages(found, wrong=True)
    assert message.startswith('wrong.py:5: Type "Tensor" is not assignable')


def test_the_stubs_of_public_modules_are_current() -> None:
    """`PYTHONPATH=tests python -m house.public_stubs` writes them."""
    assert {path: path.read_text(encoding="utf-8") for path in stubs()} == stubs()


def test_editors_complete_the_names_that_dir_lists() -> None:
    """An editor reads the source of the package; every name of `dir(fw)` has documentation, as
    tests/house/test_front_doors.py tests."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    shown = {name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
             for name in names_of(node)}
    assert {n for n in shown if not n.startswith("_")} == {n for n in dir(fw) if n[0] != "_"}


def names_of(node: ast.ImportFrom) -> list[str]:
    """The names that an import binds."""
    if node.names[0].name == "*":
        return list(import_module(f"fusewire.{node.module}").__all__)
    return [alias.asname or alias.name for alias in node.names]
