"""Models of PyTorch's exporters: loaded, run, compiled, exported again, run in onnxruntime."""

from __future__ import annotations

from pathlib import Path

import pytest
from parity.exported import TOLERANCE, WAYS, trip
from sampling import sample

CHOSEN = sample(WAYS, 3)


@pytest.mark.parametrize(("name", "script"), CHOSEN, ids=[
    f"{name} {'script' if script else 'dynamo'}" for name, script in CHOSEN])
def test_round_trip(name: str, script: bool, tmp_path: Path) -> None:
    found = trip(name, script, tmp_path)
    assert max(found.errors.values()) < TOLERANCE
    assert found.nodes_again < 1.2 * found.nodes
