"""The compiled steps of a decoder with a paged cache: a page of a prompt, a token of each text."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np

import fusewire as fw

from ..blocks.paged_cache import PagedCache, Table
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
        self.cache = PagedCache(model.new_cache(1, 1), pages * page)
        self.lengths = _sizes(_LEAST_TOKENS, 2, page)
        self.columns = _sizes(_LEAST_COLUMNS, 4, self.pool.pages_for(context) * page)
        self._seen = np.full((slots, self.columns[-1]), self.cache.rows)
        self._pages: list[TextPages | None] = [None] * slots
        self._counts = np.zeros(slots, np.int64)  # tokens in the cache
        self._decode = fw.compile(_next, dynamic=False)
        self._prefill = fw.compile(_last, dynamic=False)

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
        ids, positions = np.zeros((1, size), np.int64), np.full((1, size), begin)
        ids[0, :len(tokens)], positions[0, :len(tokens)] = tokens, np.arange(begin, end)
        written = np.full(size, self.cache.rows)
        written[:len(tokens)] = pages.rows[begin:end]
        seen = np.full((1, self._columns_for(end)), self.cache.rows)
        seen[0, :end] = pages.rows[:end]
        return self._prefill(self.model, self.cache, *map(fw.Tensor, (
            ids, positions, written, seen, np.array([len(tokens) - 1]))))

    def join(self, slot: int, pages: TextPages, count: int) -> None:
        """Gives a slot to a text with `count` tokens in the cache."""
        self._pages[slot], self._counts[slot] = pages, count
        self._seen[slot, :count] = pages.rows[:count]

    def leave(self, slot: int) -> None:
        """Takes the text out of a slot."""
        self._pages[slot], self._counts[slot] = None, 0
        self._seen[slot] = self.cache.rows

    def decode(self, tokens: Array) -> tuple[fw.Tensor, fw.Tensor]:
        """The logits of the next token of each slot (slots, vocabulary), and the likeliest one.

        Args:
            tokens: the newest token of each slot, (slots, 1), int64.
        """
        written = np.full(self.slots, self.cache.rows)
        positions = self._counts[:, None].copy()
        for slot, pages in enumerate(self._pages):
            if pages is not None:
                at = self._counts[slot]
                written[slot] = self._seen[slot, at] = pages.rows[at]
                self._counts[slot] += 1
        seen = self._seen[:, :self._columns_for(int(self._counts.max()))].copy()
        logits, best = self._decode(self.model, self.cache, *map(fw.Tensor, (
            tokens.copy(), positions, written, seen)))
        return logits, best

    def warm(self, calls: int) -> None:
        """Calls every step in every size so often."""
        pages = TextPages([], np.full(self.columns[-1], self.cache.rows), 0)
        tokens = np.zeros((self.slots, 1), np.int64)
        for columns in self.columns:
            count = min(columns, self.context)
            for _ in range(calls):
                for length in self.lengths:
                    self.prefill(pages, [0] * min(length, count), max(0, count - length))
                self.join(0, pages, count - 1)
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


def _next(model: Any, cache: PagedCache, tokens: fw.Tensor, positions: fw.Tensor,
          written: fw.Tensor, seen: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
    texts = cache.at(Table(positions, written, seen))
    logits = model(tokens, None, texts)[:, -1].astype(fw.float32)
    return logits, logits.argmax(axis=-1)


def _last(model: Any, cache: PagedCache, tokens: fw.Tensor, positions: fw.Tensor,
          written: fw.Tensor, seen: fw.Tensor, last: fw.Tensor) -> fw.Tensor:
    texts = cache.at(Table(positions, written, seen))
    features = getattr(model, model.PREFIX.rstrip("."))(tokens, None, texts)
    return model.lm_head(features[0][last]).astype(fw.float32)
