"""Every public name of PyTorch has a row in docs/appendix/coverage.md."""

from __future__ import annotations

from parity import page_coverage

from house.repo import ROOT


def test_the_page_is_written() -> None:
    """PYTHONPATH=tests python -m parity --only coverage.md"""
    assert (ROOT / "docs/appendix/coverage.md").read_text("utf-8") == page_coverage.text()[0]


def test_most_names_of_programs_are_there() -> None:
    """Names that training programs use; the rest is mostly PyTorch's own machinery."""
    for path, least in {"nn": 0.97, "nn.functional": 0.8, "optim": 0.85}.items():
        found = list(page_coverage.rows(path))
        assert sum(there for _, there, _ in found) / len(found) >= least, path
