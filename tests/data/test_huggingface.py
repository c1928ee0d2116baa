"""Data sets of the library `datasets` work with our loaders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.data import from_huggingface
from fusewire.utils.data import DataLoader

ROWS = [{"x": [float(i), 1.0], "label": i, "text": f"text {i}"} for i in range(10)]


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("datasets")


@pytest.mark.parametrize("workers", [0, 2])
def test_data_sets_with_numbers(library: Any, workers: int) -> None:
    data = from_huggingface(library.Dataset.from_list(ROWS))
    batches = list(DataLoader(data, 4, num_workers=workers))
    assert [len(batch["label"]) for batch in batches] == [4, 4, 2]
    np.testing.assert_array_equal(batches[0]["x"].numpy(), [row["x"] for row in ROWS[:4]])
    assert batches[2]["text"] == ["text 8", "text 9"]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_data_sets_in_order(library: Any, workers: int) -> None:
    """Each sample comes once, whatever the number of workers."""
    data = from_huggingface(library.Dataset.from_list(ROWS).to_iterable_dataset(), ["label"])
    batches = list(DataLoader(data, 2, num_workers=workers))
    assert sorted(label for b in batches for label in b["label"].tolist()) == list(range(10))


def test_images_become_arrays(library: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    features = library.Features({"image": library.Image()})
    pictures = [image.new("RGB", (3, 2), (i, 0, 0)) for i in range(2)]
    data = from_huggingface(library.Dataset.from_dict({"image": pictures}, features=features))
    assert next(iter(DataLoader(data, 2)))["image"].shape == (2, 2, 3, 3)


def test_what_is_no_data_set_is_refused() -> None:
    with pytest.raises(fw.DTypeError, match="dict of data sets: train, test") as caught:
        from_huggingface({"train": ROWS, "test": ROWS})
    assert caught.value.help == "pass one of them: data['train']"
    with pytest.raises(fw.DTypeError, match="int has no samples"):
        from_huggingface(3)
    with pytest.raises(fw.ArgumentError, match="lacks z; it has x, label, text"):
        from_huggingface(ROWS, ["z"])[0]


def test_lists_of_other_lengths_stay_lists() -> None:
    rows = [{"ids": [[1], [2, 3]]}]
    assert from_huggingface(rows)[0] == {"ids": [[1], [2, 3]]}
