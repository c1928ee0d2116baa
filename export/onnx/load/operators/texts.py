"""Defines operators on strings, which are arrays of Python strings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....eager.core.tensor import tensor
from .....eager.errors import ShapeError
from ..runtime.limits import need
from ..runtime.pattern import Pattern
from ..runtime.table import Tensor, operator
from ..runtime.values import check_room, is_tensor

__all__: list[str] = []


def _array(texts: Any, shape: Any = None) -> Any:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array if shape is None else array.reshape(shape)


@operator("StringConcat")
def _concat(a: Any, b: Any) -> Any:
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    count = math.prod(shape)
    letters = sum(count // max(x.size, 1) * sum(map(len, x.reshape(-1))) for x in (a, b))
    need(8 * count + letters, "the result of StringConcat")
    return np.asarray(a + b, dtype=object)


@operator("StringSplit", many=True)
def _split(x: Any, delimiter: str | None = None, maxsplit: int | None = None) -> Any:
    """Rows are padded with empty strings to one length."""
    most = -1 if maxsplit is None else maxsplit
    parts = [s.split(delimiter or None, most) for s in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    need(8 * width * len(parts), "the result of StringSplit")
    flat = [p for row in parts for p in (*row, *[""] * (width - len(row)))]
    counts = np.array([len(row) for row in parts], np.int64).reshape(x.shape)
    return _array(flat, (*x.shape, width)), tensor(counts)


@operator("RegexFullMatch")
def _full_match(x: Any, pattern: str = "") -> Tensor:
    fits = Pattern(pattern)
    return tensor(np.array([fits.matches(s) for s in x.reshape(-1)], bool).reshape(x.shape))


@operator("StringNormalizer")
def _normalized(x: Any, case_change_action: str = "NONE", is_case_sensitive: int = 0,
                locale: str = "en_US", stopwords: Any = ()) -> Any:
    """The strings without stop words, in lower or upper case; one empty string if none is left."""
    change: Any = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[case_change_action]
    if is_case_sensitive:
        remaining = [s for s in x.reshape(-1) if s not in stopwords]
    else:
        stops = {s.lower() for s in stopwords}
        remaining = [s for s in x.reshape(-1) if s.lower() not in stops]
    normalized = [change(s) for s in remaining] or [""]
    return _array(normalized, (1, len(normalized)) if x.ndim == 2 else None)


# ---- counts of n-grams
@operator("TfIdfVectorizer")
def _tf_idf(x: Any, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
            ngram_counts: Any, ngram_indexes: Any, pool_int64s: Any = None,
            pool_strings: Any = None, weights: Any = None) -> Tensor:
    pool = pool_strings or pool_int64s
    grams = _grams(pool, ngram_counts)
    array = x.numpy() if is_tensor(x) else np.asarray(x)
    rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    check_room((len(rows), max(ngram_indexes) + 1), np.float32)
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for row, out in zip(rows, counts):
        for number in _matches(tuple(row.tolist()), grams, min_gram_length, max_gram_length,
                               max_skip_count):
            out[ngram_indexes[number]] += 1
    factors = np.ones(counts.shape[1], np.float32)
    if weights:
        factors[list(ngram_indexes)] = weights
    scores = {"TF": counts, "IDF": (counts > 0) * factors, "TFIDF": counts * factors}[mode]
    return tensor(scores.astype(np.float32).reshape(*array.shape[:-1], -1))


def _grams(pool: Any, starts: Any) -> dict[Any, int]:
    """The n-grams of a pool with their numbers: first those of one item, then those of two, ..."""
    grams: dict[Any, int] = {}
    if not all(0 <= start <= len(pool) for start in starts):
        raise ShapeError(f"ngram_counts {starts!r:.200} are out of range for a pool of "
                         f"{len(pool)}")
    for n, (start, end) in enumerate(zip(starts, (*starts[1:], len(pool))), 1):
        for i in range(start, end - n + 1, n):
            grams[tuple(pool[i:i + n])] = len(grams)
    return grams


def _matches(row: Any, grams: dict[Any, int], least: int, most: int, skips: int) -> Any:
    """The numbers of the n-grams in a row, whose items are up to `skips` + 1 apart."""
    for n in range(max(least, 1), min(most, len(row)) + 1):
        for apart in range(1, min(skips + 1, len(row)) + 1) if n > 1 else (1,):
            for start in range(len(row) - apart * (n - 1)):
                number = grams.get(row[start:start + apart * (n - 1) + 1:apart])
                if number is not None:
                    yield number

