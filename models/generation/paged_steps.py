"""The compiled steps of a decoder with a paged cache: a page of a prompt, a token of each text."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np

import fusewire as fw

from ..blocks.kv_cache import KeyValueCache
from .next_tokens import logits_behind
from .page_pool import PagePool, TextPages

_LEAST_TOKENS, _LEAST_COLUMNS = 16, 64  # for which code is compiled

Array = np.ndarray[Any, Any]


class PagedSteps:
    """The steps of a model, with code for fixed sizes.

    Prompts are computed page by page. So the code that computes a token of a prompt depends on the
    prompt alone, and a shared page holds the bits that the text would have computed itself.

    Args:
        model: a decoder with `new_cache`, in eval mode.
        slots: texts side by side.
        context: the most tokens of a text.
        page: tokens of a page.
        pages: number of pages.
    """

    def __init__(self, model: Any, slots: int, context: int, page: int, pages: int) -> None:
        self.model, self.slots, self.context, self.page = model, slots, context, page
        self.pool = PagePool(pages, page)
        self.cache = model.new_cache(1, pages * page)
        self.padding_row = pages * page
        self.lengths = _sizes(_LEAST_TOKENS, 2, page)
        self.columns = _sizes(_LEAST_COLUMNS, 4, self.pool.pages_for(context) * page)
        self._table = np.full((slots, self.columns[-1]), self.padding_row)
        self._is_taken = np.zeros(slots, bool)
        self._counts = np.zeros(slots, np.int64)  # tokens in the cache
        self._decode = fw.compile(_next, dynamic=False)
        self._prefill = fw.compile(_logits, dynamic=False)

    @property
    def recordings(self) -> int:
        """The traces that were recorded so far."""
        return self._decode.stats.recordings + self._prefill.stats.recordings

    def part_end(self, prompt: Sequence[int], begin: int) -> int:
        """Where the part of a prompt ends that begins at a token: at the end of its page."""
        return min(len(prompt), (begin // self.page + 1) * self.page)

    def prefill(self, pages: TextPages, tokens: Sequence[int], begin: int) -> fw.Tensor:
        """The logits behind a part of a prompt: (1, vocabulary), float32.

        Args:
            pages: of the text.
            tokens: of the part, at most a page.
            begin: position of the first one; the tokens before are in the cache.
        """
        end = begin + len(tokens)
        size = self.lengths[bisect.bisect_left(self.lengths, len(tokens))]
        ids, present = np.zeros((2, 1, size), np.int64)
        ids[0, size - len(tokens):], present[0, size - len(tokens):] = tokens, 1
        table = np.full((1, self._columns_for(end)), self.padding_row)
        table[0, :end] = pages.rows[:end]
        return self._prefill(self.model, self.cache, *map(fw.Tensor, (
            ids, present, table, np.array([begin]))))

    def join(self, slot: int, pages: TextPages, count: int) -> None:
        """Gives a slot to a text with `count` tokens in the cache."""
        self._is_taken[slot], self._counts[slot] = True, count
        self._table[slot, :len(pages.rows)] = pages.rows

    def leave(self, slot: int) -> None:
        """Takes the text out of a slot."""
        self._is_taken[slot], self._counts[slot] = False, 0
        self._table[slot] = self.padding_row

    def decode(self, tokens: Array) -> tuple[fw.Tensor, fw.Tensor]:
        """The logits of the next token of each slot (slots, vocabulary), and the likeliest one.

        Args:
            tokens: the newest token of each slot, (slots, 1), int64.
        """
        logits, best = self._decode(self.model, self.cache, *map(fw.Tensor, (
            tokens.copy(), self._table, self._counts.copy())))
        self._counts += self._is_taken
        return logits, best

    def warm(self, calls: int) -> None:
        """Calls every step in every size so often."""
        pages = TextPages([], np.full(self.columns[-1], self.padding_row), 0)
        tokens = np.zeros((self.slots, 1), np.int64)
        for columns in self.columns:
            count = min(columns, self.context)
            for _ in range(calls):
                for length in self.lengths:
                    self.prefill(pages, [0] * min(length, count), max(0, count - length))
        for _ in range(calls):
            self.join(0, pages, self.context - 1)
            self.decode(tokens)
            self.leave(0)

    def _columns_for(self, count: int) -> int:
        return self.columns[bisect.bisect_left(self.columns, count)]


def _sizes(least: int, factor: int, most: int) -> tuple[int, ...]:
    """The sizes for which code is compiled, in ascending order: each one `factor` times the one
    before, and `most` at last."""
    sizes = [min(least, most)]
    while sizes[-1] < most:
        sizes.append(min(sizes[-1] * factor, most))
    return tuple(sizes)


def _next(model: Any, cache: KeyValueCache, tokens: fw.Tensor, table: fw.Tensor,
          lengths: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
    logits = _logits(model, cache, tokens, None, table, lengths)
    return logits, logits.argmax(axis=-1)


def _logits(model: Any, cache: KeyValueCache, tokens: fw.Tensor, present: fw.Tensor | None,
            table: fw.Tensor, lengths: fw.Tensor) -> fw.Tensor:
    return logits_behind(model, tokens, present, cache.at(table, lengths)).astype(fw.float32)
