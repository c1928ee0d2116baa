"""Allots the rows of a paged cache to texts, in pages. Texts with equal beginnings share pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fusewire as fw

_ROOT = 0  # the serial number of the page before the first one


@dataclass(eq=False)
class TextPages:
    """The pages of one text.

    Args:
        numbers: of the pages, in the order of the text.
        rows: (tokens,), int64: the row of the cache for each position.
        shared: the tokens at the beginning that are in the cache already.
    """

    numbers: list[int]
    rows: np.ndarray[Any, Any]
    shared: int
    published: int = 0  # pages whose tokens are known to the pool
    last_serial: int = _ROOT  # of the last one of these


@dataclass(eq=False)
class _Page:
    """A page: its users, and the known facts about its tokens.

    `key` is the serial number of the page before and the tokens of this one. A number is given once
    only, so equal keys mean equal texts up to the end of the page.
    """

    users: int = 0
    serial: int = _ROOT
    key: tuple[int, tuple[int, ...]] | None = None


@dataclass(eq=False)
class PagePool:
    """Pages of equal size.

    A page whose tokens are known stays as it is when its last text has ended, until the page is
    needed: the one that was not used for the longest time is given away first.

    Args:
        count: number of pages.
        size: tokens of a page.

    Raises:
        ArgumentError: a number is not positive.
    """

    count: int
    size: int
    _pages: list[_Page] = field(default_factory=list)

    def __post_init__(self) -> None:
        if min(self.count, self.size) < 1:
            raise fw.ArgumentError(f"{self.count} pages of {self.size} tokens",
                                   "both have to be at least 1")
        self._pages = [_Page() for _ in range(self.count)]
        self._free = list(range(self.count))  # pages with unknown tokens
        self._idle: dict[int, None] = {}  # known pages without users, the oldest one first
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        self._serials = _ROOT

    @property
    def used(self) -> int:
        """The pages of texts that have not ended."""
        return self.count - len(self._free) - len(self._idle)

    @property
    def cached(self) -> int:
        """The pages of texts that have ended, whose tokens may be used again."""
        return len(self._idle)

    def pages_for(self, tokens: int) -> int:
        """The number of pages that so many tokens take."""
        return -(-tokens // self.size)

    def take(self, prompt: Sequence[int], most: int) -> TextPages | None:
        """The pages of a text; None if there are too few now.

        Full pages at the beginning of the prompt are shared if their tokens are known. The last
        token of the prompt is never among them, since its logits are wanted.

        Args:
            prompt: token numbers, at least one.
            most: the most tokens that will be added.
        """
        shared = self._matching(prompt)
        needed = self.pages_for(len(prompt) + most) - len(shared)
        idle = len(self._idle) - sum(number in self._idle for number in shared)
        if needed > len(self._free) + idle:
            return None
        for number in shared:
            self._pages[number].users += 1
            self._idle.pop(number, None)
        numbers = shared + [self._new() for _ in range(needed)]
        rows = (np.array(numbers)[:, None] * self.size + np.arange(self.size)).reshape(-1)
        serial = self._pages[shared[-1]].serial if shared else _ROOT
        return TextPages(numbers, rows, len(shared) * self.size, len(shared), serial)

    def publish(self, text: TextPages, prompt: Sequence[int], written: int) -> None:
        """Makes pages of a prompt known to other texts.

        Args:
            text: its pages.
            prompt: its tokens.
            written: the tokens whose keys and values are in the cache.
        """
        while (text.published + 1) * self.size <= min(written, len(prompt)):
            at = text.published * self.size
            key = (text.last_serial, tuple(prompt[at:at + self.size]))
            if key not in self._known:  # another text may have computed the same
                number = text.numbers[text.published]
                self._serials += 1
                page = self._pages[number]
                page.key, page.serial = key, self._serials
                self._known[key] = number
            text.last_serial = self._pages[self._known[key]].serial
            text.published += 1

    def release(self, text: TextPages) -> None:
        """Gives back the pages of a text that has ended."""
        for number in reversed(text.numbers):  # the end of a text is of less use than its beginning
            page = self._pages[number]
            page.users -= 1
            if page.users == 0 and page.key is None:
                self._free.append(number)
            elif page.users == 0:
                self._idle[number] = None

    def forget(self) -> None:
        """Makes the tokens of all pages unknown."""
        for page in self._pages:
            page.key, page.serial = None, _ROOT
        self._known.clear()
        self._free += self._idle
        self._idle.clear()

    def _matching(self, prompt: Sequence[int]) -> list[int]:
        """The known pages at the beginning of a prompt."""
        found: list[int] = []
        serial = _ROOT
        for at in range(0, (len(prompt) - 1) // self.size * self.size, self.size):
            number = self._known.get((serial, tuple(prompt[at:at + self.size])))
            if number is None:
                break
            found.append(number)
            serial = self._pages[number].serial
        return found

    def _new(self) -> int:
        """A page for a text. There is one."""
        if self._free:
            number = self._free.pop()
        else:
            number = next(iter(self._idle))
            del self._idle[number]
            page = self._pages[number]
            assert page.key is not None
            del self._known[page.key]
            page.key, page.serial = None, _ROOT
        self._pages[number].users = 1
        return number
