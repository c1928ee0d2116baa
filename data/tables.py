"""Reads tables: CSV whole, and Parquet block by block, by pyarrow."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.utils.data import Dataset, StackDataset

from .files import FileError, StrPath, damaged, existing, package

Sample = dict[str, Any]


def read_csv(path: StrPath, columns: Sequence[str] | None = None, delimiter: str = ","
             ) -> StackDataset:
    """The rows of a CSV file with a header, as dicts; extra `data`.

    The file is read whole: columns of numbers become tensors, others lists of texts. Convert a file
    that is larger than memory by `csv_to_parquet`.

    Args:
        path: the file; a name that ends in .gz is unpacked.
        columns: names of the columns to read. Default None: all.
        delimiter: between values. Default ",".

    Raises:
        StateError: the package pyarrow is not installed.
        FileError: the file is missing or damaged, has no row, lacks a column, or a number is
            missing.

    Example:
        >>> import fusewire as fw
        >>> table = fw.data.read_csv("iris.csv")  # doctest: +SKIP
        >>> table[0]  # doctest: +SKIP
        {'sepal': tensor(5.1, dtype=float64), 'kind': 'setosa'}
    """
    csv, found = package("pyarrow.csv", "tables"), existing(path)
    options = csv.ConvertOptions(include_columns=None if columns is None else list(columns))
    try:
        table = csv.read_csv(found, parse_options=csv.ParseOptions(delimiter=delimiter),
                             convert_options=options)
    except (package("pyarrow", "tables").ArrowException, KeyError, OSError) as error:
        raise damaged(found, error) from error
    if not table.num_columns or not table.num_rows:
        raise damaged(found, "it has no rows")
    return StackDataset(**{name: _column(found, name, table[name]) for name in table.column_names})


def csv_to_parquet(source: StrPath, target: StrPath, delimiter: str = ",") -> None:
    """Writes a CSV file as a Parquet file, a block of rows at a time; extra `data`.

    The target appears when it is whole. The types of columns follow from the first block.

    Args:
        source: a CSV file with a header, of any size.
        target: the Parquet file.
        delimiter: between values. Default ",".

    Raises:
        StateError: the package pyarrow is not installed.
        FileError: the source is missing or damaged.

    Example:
        >>> import fusewire as fw
        >>> fw.data.csv_to_parquet("clicks.csv", "clicks.parquet")  # doctest: +SKIP
    """
    arrow, csv = package("pyarrow", "tables"), package("pyarrow.csv", "tables")
    parquet, found = package("pyarrow.parquet", "tables"), existing(source)
    unfinished = Path(f"{os.fspath(target)}.unfinished")
    try:
        reader = csv.open_csv(found, parse_options=csv.ParseOptions(delimiter=delimiter))
        with parquet.ParquetWriter(unfinished, reader.schema) as writer:
            for block in reader:
                writer.write_batch(block)
        os.replace(unfinished, target)
    except (arrow.ArrowException, OSError) as error:
        raise damaged(found, error) from error
    finally:
        unfinished.unlink(missing_ok=True)


class ParquetTable(Dataset[Sample]):
    """The rows of Parquet files by number, as dicts, for data larger than memory; extra `data`.

    A row is read with its row group, of which the latest ones stay in memory. Reading in order, or
    by `BlockShuffle`, reads each row group once.

    Attributes:
        block_ends: for each row group, the number of rows up to its end.

    Args:
        paths: a file, or several whose rows follow each other.
        columns: names of the columns to read. Default None: all.
        blocks_in_memory: row groups that stay in memory. Default 4.

    Raises:
        StateError: the package pyarrow is not installed.
        FileError: a file is missing or damaged, or lacks a column; for a sample: a number is
            missing.
        IndexError: there is no such row.

    Example:
        >>> import fusewire as fw
        >>> table = fw.data.ParquetTable("clicks.parquet")  # doctest: +SKIP
        >>> order = fw.data.BlockShuffle(table, seed=0)  # doctest: +SKIP
        >>> loader = fw.utils.data.DataLoader(table, 64, sampler=order)  # doctest: +SKIP
    """

    def __init__(self, paths: StrPath | Sequence[StrPath], columns: Sequence[str] | None = None,
                 blocks_in_memory: int = 4) -> None:
        if blocks_in_memory < 1:
            raise fw.ArgumentError(f"ParquetTable: blocks_in_memory={blocks_in_memory} is less "
                                   "than 1")
        listed = list(paths) if isinstance(paths, (list, tuple)) else [paths]
        self.paths = [existing(path) for path in listed]  # type: ignore[arg-type]
        self.columns = None if columns is None else list(columns)
        self.blocks_in_memory = blocks_in_memory
        self._places: list[tuple[Path, int]] = []
        sizes: list[int] = []
        for path in self.paths:
            about = self._opened(path).metadata
            sizes += [about.row_group(i).num_rows for i in range(about.num_row_groups)]
            self._places += [(path, i) for i in range(about.num_row_groups)]
        self.block_ends: list[int] = np.cumsum(sizes, dtype=np.int64).tolist()
        self._forget_blocks()

    def _forget_blocks(self) -> None:
        self._blocks: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.block_ends[-1] if self.block_ends else 0

    def __getitem__(self, index: int) -> Sample:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"there is no row {index}, the table has {len(self)}")
        number = int(np.searchsorted(self.block_ends, position, side="right"))
        row = position - (self.block_ends[number - 1] if number else 0)
        return {name: values[row] for name, values in self._block(number).items()}

    def _block(self, number: int) -> dict[str, Any]:
        """The columns of a row group."""
        with self._lock:  # threads of a loader read a block once
            if number not in self._blocks:
                self._blocks[number] = self._read(*self._places[number])
            self._blocks.move_to_end(number)
            while len(self._blocks) > self.blocks_in_memory:
                self._blocks.popitem(last=False)
            return self._blocks[number]

    def _read(self, path: Path, group: int) -> dict[str, Any]:
        try:
            table = self._opened(path).read_row_group(group, columns=self.columns)
        except (package("pyarrow", "tables").ArrowException, OSError) as error:
            raise damaged(path, f"row group {group}: {error}") from error
        return {name: _column(path, name, table[name]) for name in table.column_names}

    def _opened(self, path: Path) -> Any:
        try:
            file = package("pyarrow.parquet", "tables").ParquetFile(path)
        except (package("pyarrow", "tables").ArrowException, OSError) as error:
            raise damaged(path, error) from error
        names = file.schema_arrow.names
        if missing := [name for name in self.columns or () if name not in names]:
            raise FileError(f"{path} lacks the columns {', '.join(missing)}; it has "
                            f"{', '.join(names)}", "correct columns=")
        return file

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs; it reads blocks of its own."""
        return {k: v for k, v in vars(self).items() if k not in ("_blocks", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_blocks()


def _column(path: StrPath, name: str, column: Any) -> Any:
    """The values of a column: a tensor of numbers, or a list."""
    types = package("pyarrow.types", "tables")
    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return column.to_pylist()
    if column.null_count:
        raise FileError(f"{path} has {column.null_count} empty values in the column {name}, of "
                        f"{len(column)}", "fill them, or leave the column out by columns=")
    return fw.asarray(np.array(column.to_numpy()))
