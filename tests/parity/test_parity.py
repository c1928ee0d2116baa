"""Every public function against PyTorch: values, gradients, forward mode, batches."""

from __future__ import annotations

from collections import Counter

import pytest
from parity.columns import COLUMNS, applies
from parity.coverage import WITHOUT, public
from parity.entry import Entry
from parity.tables import ENTRIES

CASES = [(entry, column) for entry in ENTRIES for column in COLUMNS if applies(entry, column)]


@pytest.mark.parametrize(("entry", "column"), CASES, ids=lambda v: str(v).replace(" ", "_"))
def test_entry_is_as_in_torch(entry: Entry, column: str) -> None:
    COLUMNS[column](entry)


def test_entries_have_names_of_their_own() -> None:
    count = Counter(map(str, ENTRIES))
    assert [name for name, n in count.items() if n > 1] == []


def test_every_public_function_has_an_entry_or_a_reason() -> None:
    entered = {entry.name for entry in ENTRIES}
    assert sorted(public().keys() - entered - WITHOUT.keys()) == []
    assert sorted(WITHOUT.keys() & entered) == []
    assert sorted(n for n in entered - public().keys() if not n.startswith("Tensor.")) == []
