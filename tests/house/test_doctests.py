"""The examples in docstrings do what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from house.repo import module_name, sources

# pytest's own doctest collection would import the files under the checkout folder's name.
WITH_EXAMPLES = [path for path in sources() if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=module_name)
def test_examples(path: Path) -> None:
    result = doctest.testmod(importlib.import_module(module_name(path)),
                             optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, "the differences are in the captured output"
