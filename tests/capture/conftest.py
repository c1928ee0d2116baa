"""Says at the end of a run how much of the random programs was replayed."""

from __future__ import annotations

from typing import Any

from programs.judging import TALLY


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if TALLY.programs:
        terminalreporter.section("random programs")
        terminalreporter.write_line(TALLY.text())
