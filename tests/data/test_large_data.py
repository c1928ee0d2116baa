"""Tables larger than memory are read block by block, in a random order that resumes exactly."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.data import BlockShuffle, FileError, ParquetTable, TextLines, csv_to_parquet, read_csv
from fusewire.utils.data import DataLoader

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = 53


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Two files of 30 and 23 rows, in row groups of 7."""
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, rows in zip(paths, (range(30), range(30, ROWS))):
        columns = {"number": list(rows), "half": [i / 2 for i in rows],
                   "name": [f"row {i}" for i in rows], "pair": [[i, i + 1] for i in rows]}
        pq.write_table(pa.table(columns), path, row_group_size=7)
    return paths


def test_rows_by_number(tables: list[Path]) -> None:
    table = ParquetTable(tables)
    assert len(table) == ROWS and table.block_ends == [7, 14, 21, 28, 30, 37, 44, 51, 53]
    for i in (0, 29, 30, ROWS - 1, -1):
        number = i % ROWS
        row = table[i]
        assert (row["number"].item(), row["half"].item(), row["name"], row["pair"]) == \
            (number, number / 2, f"row {number}", [number, number + 1])
    with pytest.raises(IndexError, match="no row 53"):
        table[ROWS]


def test_few_blocks_stay_in_memory(tables: list[Path]) -> None:
    table = ParquetTable(tables, ["number"], blocks_in_memory=2)
    for i in range(ROWS):
        table[i]
        assert len(table._blocks) <= 2


def test_the_block_that_was_used_last_stays(tables: list[Path]) -> None:
    table = ParquetTable(tables, ["number"], blocks_in_memory=2)
    for i in (0, 7, 0, 14):
        table[i]
    assert list(table._blocks) == [0, 2]


def test_each_block_is_read_once_in_a_random_pass(tables: list[Path],
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a random order would read a whole block for each row."""
    reads: list[Any] = []
    read = ParquetTable._read
    monkeypatch.setattr(ParquetTable, "_read", lambda self, *place: (
        reads.append(place), read(self, *place))[1])
    table = ParquetTable(tables, blocks_in_memory=3)
    seen = [table[i]["number"].item() for i in BlockShuffle(table, blocks_together=3)]
    assert sorted(seen) == list(range(ROWS)) and seen != sorted(seen)
    assert len(reads) == len(set(reads)) == len(table.block_ends)


def test_orders_follow_from_the_seed_and_the_pass(tables: list[Path]) -> None:
    table = ParquetTable(tables)
    first, again, other = BlockShuffle(table, 1), BlockShuffle(table, 1), BlockShuffle(table, 2)
    passes = [list(first) for _ in range(3)]
    assert passes == [list(again) for _ in range(3)]
    assert len({tuple(order) for order in (*passes, list(other))}) == 4


def loader_of(tables: list[Path], workers: int) -> DataLoader[Any]:
    table = ParquetTable(tables, ["number"])
    return DataLoader(table, 4, sampler=BlockShuffle(table, 3, 2), num_workers=workers)


def numbers(batches: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 5, 13, 14])
def test_a_pass_resumes_after_any_batch(tables: list[Path], workers: int, taken: int) -> None:
    """And the pass after it is that of an uninterrupted run."""
    uninterrupted = loader_of(tables, workers)
    expected = numbers(uninterrupted) + numbers(uninterrupted)
    first = loader_of(tables, workers)
    batches = iter(first)
    begun = numbers(next(batches) for _ in range(taken))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    resumed = loader_of(tables, workers)
    resumed.load_state_dict(state)
    assert begun + numbers(resumed) + numbers(resumed) == expected


def test_processes_read_blocks_of_their_own(tables: list[Path]) -> None:
    table = ParquetTable(tables, ["number"])
    table[0]
    loader = DataLoader(table, 4, num_workers=2, multiprocessing_context="spawn")
    assert [i for batch in numbers(loader) for i in batch] == list(range(ROWS))


def test_lines_of_text_are_blocks_by_file(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}").write_text("".join(f"{i} {j}\n" for j in range(5)))
    lines = TextLines([tmp_path / f"{i}" for i in range(3)])
    order = list(BlockShuffle(lines, blocks_together=1))
    assert [len({lines[i][0] for i in order[k:k + 5]}) for k in (0, 5, 10)] == [1, 1, 1]


def test_tables_of_text_become_tables_of_blocks(tmp_path: Path) -> None:
    source, target = tmp_path / "a.csv", tmp_path / "a.parquet"
    rows = [(i, i / 4, f"name {i}") for i in range(200)]
    source.write_text("i,x,name\n" + "".join(f"{i},{x},{name}\n" for i, x, name in rows))
    csv_to_parquet(source, target)
    for table in (read_csv(source), ParquetTable(target)):
        read = [table[i] for i in range(200)]
        actual = [(row["i"].item(), row["x"].item(), row["name"]) for row in read]
        assert actual == rows
    batch = next(iter(DataLoader(read_csv(source, ["x", "name"]), 3)))
    assert batch["x"].tolist() == [0, 0.25, 0.5] and batch["name"] == ["name 0", "name 1", "name 2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_a_table_that_cannot_be_converted_leaves_no_file(tmp_path: Path) -> None:
    source, target = tmp_path / "a.csv", tmp_path / "a.parquet"
    source.write_text("i,x\n1,2\n3\n")
    with pytest.raises(FileError, match=r"a\.csv cannot be read"):
        csv_to_parquet(source, target)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_empty_values_and_unknown_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, None, 2.0]}), path)
    with pytest.raises(FileError, match="1 empty values in the column x, of 3"):
        ParquetTable(path)[0]
    with pytest.raises(FileError, match="lacks the columns y; it has x"):
        ParquetTable(path, ["y"])


def test_a_block_that_is_damaged_names_its_file(tables: list[Path]) -> None:
    table = ParquetTable(tables)
    data = bytearray(tables[0].read_bytes())
    data[4:500] = bytes(496)
    tables[0].write_bytes(data)
    with pytest.raises(FileError, match=r"a\.parquet cannot be read: row group 0"):
        table[0]


def test_only_data_with_blocks_is_shuffled_by_blocks() -> None:
    with pytest.raises(fw.ArgumentError, match="list has no block_ends"):
        BlockShuffle([1, 2, 3])


def test_values_are_whole_arrays(tables: list[Path]) -> None:
    """A batch holds the values of the table, with its dtypes."""
    batch = next(iter(DataLoader(ParquetTable(tables, ["number", "half"]), 5)))
    np.testing.assert_array_equal(batch["half"].numpy(), np.arange(5) / 2)
    assert (batch["number"].dtype, batch["half"].dtype) == (fw.int64, fw.float64)
