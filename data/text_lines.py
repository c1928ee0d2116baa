"""Reads the lines of text files by number, without holding the texts in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusewire.utils.data import Dataset

from .files import StrPath, damaged, existing


class TextLines(Dataset[str]):
    """The lines of text files in UTF-8, without their ends, by number.

    The files are read once, to note where lines begin: 8 bytes for each line. A line is read when
    it is asked for.

    Args:
        paths: a file, or several whose lines follow each other.

    Raises:
        FileError: a file is missing; for a sample: it is no UTF-8.
        IndexError: there is no such line.

    Example:
        >>> import fusewire as fw, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "poem.txt")
        >>> _ = path.write_text("one\\ntwo\\n")
        >>> lines = fw.data.TextLines(path)
        >>> len(lines), lines[1]
        (2, 'two')
    """

    def __init__(self, paths: StrPath | Sequence[StrPath]) -> None:
        listed = list(paths) if isinstance(paths, (list, tuple)) else [paths]
        self.paths = [existing(path) for path in listed]  # type: ignore[arg-type]
        self._starts = [_line_starts(path) for path in self.paths]
        counts = [len(starts) - 1 for starts in self._starts]
        self.block_ends = np.cumsum(counts).tolist()

    def __len__(self) -> int:
        return int(self.block_ends[-1]) if self.block_ends else 0

    def __getitem__(self, index: int) -> str:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"there is no line {index}, the files have {len(self)}")
        number = int(np.searchsorted(self.block_ends, position, side="right"))
        starts, path = self._starts[number], self.paths[number]
        line = position - (self.block_ends[number - 1] if number else 0)
        with path.open("rb") as file:
            file.seek(starts[line])
            data = file.read(int(starts[line + 1] - starts[line]))
        try:
            return data.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise damaged(path, f"line {line + 1} is no UTF-8: {error}") from error


def _line_starts(path: StrPath) -> np.ndarray:
    """Where each line begins, and the end of the file, in bytes."""
    with open(path, "rb") as file:
        ends = np.cumsum(np.fromiter((len(line) for line in file), np.int64))
    return np.concatenate([np.zeros(1, np.int64), ends])
