"""Writes the pages of comparisons with PyTorch: `PYTHONPATH=tests python -m parity`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from parity import page_coverage, page_functions, page_onnx, page_training

from house.repo import ROOT

PAGES = {"parity.md": page_functions.text, "parity_training.md": page_training.text,
         "parity_onnx.md": page_onnx.text, "coverage.md": page_coverage.text}


def main() -> int:
    parser = argparse.ArgumentParser("python -m parity", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs/appendix",
                        help="where the pages are written")
    parser.add_argument("--only", choices=PAGES, help="one of them")
    given = parser.parse_args()
    failed = False
    for name in [given.only] if given.only else PAGES:
        page, wrong = PAGES[name]()
        (given.folder / name).write_text(page, encoding="utf-8")
        print(f"{name}: {len(wrong)} differ", *wrong, sep="\n")
        failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
