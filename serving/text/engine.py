"""Continuous batching: texts join and leave a batch of slots between two tokens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw

from ...models.generation.page_pool import TextPages
from ...models.generation.paged_steps import PagedSteps
from ...models.generation.row_sampling import RowSampler, RowSampling
from ...models.generation.sampling import Sampling
from ..base import tracing
from ..base.failures import UNAVAILABLE, RequestError, failure_of
from .continuation import Continuation, Piece

_Out = list[tuple[Continuation, Piece]]


@dataclass
class _Prompt:
    """A text whose prompt is being computed, and the tokens of it that are done."""

    text: Continuation
    pages: TextPages
    done: int


class Engine:
    """Continues texts, as many at once as there are slots, in the order in which they come.

    Each turn of the loop computes one part of the prompt that is next, if a slot and pages of the
    cache are free, and one token of each text in a slot. So a long prompt delays the others by one
    part at a time.

    Args:
        steps: the compiled steps of the model.
        queue: the most texts that wait; further ones are refused.
    """

    def __init__(self, steps: PagedSteps, queue: int) -> None:
        self.steps, self.queue = steps, queue
        self.sampler = RowSampler()
        self._slots: list[Continuation | None] = [None] * steps.slots
        self._pages: dict[Continuation, TextPages] = {}
        self._waiting: deque[Continuation] = deque()
        self._prompt: _Prompt | None = None
        self._tokens = np.zeros((steps.slots, 1), np.int64)
        self._sampling: RowSampling | None = None  # of the texts in the slots
        self._changed = threading.Condition()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="fusewire engine", daemon=True)
        # Tokens, tokens, tokens of prompts that were in the cache, and decoding steps.
        self.generated = self.prompted = self.reused = self.steps_done = 0

    def start(self) -> None:
        """Begins to take texts, in the thread of an event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def submit(self, *texts: Continuation) -> None:
        """Queues texts, all or none.

        RequestError if the queue is full, or the server ends.
        """
        with self._changed:
            if self._is_closed:
                raise RequestError(UNAVAILABLE, "the server is shutting down")
            if len(self._waiting) + len(texts) > self.queue:
                raise RequestError(UNAVAILABLE, f"{len(self._waiting)} texts wait, of "
                                   f"{self.queue} at most; try again later")
            self._waiting.extend(texts)
            self._changed.notify()

    @property
    def pending(self) -> int:
        """The texts that wait or are being continued."""
        return len(self._waiting) + (self._prompt is not None) + len(self._busy)

    async def drain(self) -> None:
        """Refuses new texts, waits for those that were taken, and ends the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        while self._thread.is_alive():
            await asyncio.sleep(0.01)

    @property
    def _busy(self) -> list[tuple[int, Continuation]]:
        return [(slot, text) for slot, text in enumerate(self._slots) if text is not None]

    # ---- in the engine's thread

    def _run(self) -> None:
        with fw.no_grad():
            while self._wait():
                out: _Out = []
                try:
                    self._prefill(out)
                    self._decode(out)
                except Exception as error:
                    out += self._failed(error)
                if out and self._loop is not None:
                    self._loop.call_soon_threadsafe(_deliver, out)

    def _wait(self) -> bool:
        """Waits for texts; False when the engine ends."""
        with self._changed:
            while not self.pending:
                if self._is_closed:
                    return False
                self._changed.wait()
        return True

    def _prefill(self, out: _Out) -> None:
        """Computes one part of a prompt. Behind the last one, the text gets a slot."""
        if self._prompt is None:
            self._take()
        prompt = self._prompt
        if prompt is None:
            return
        text, tokens = prompt.text, prompt.text.prompt
        if text.is_cancelled:
            self._prompt = None
            self._release(text)
            return
        end, since = self.steps.part_end(tokens, prompt.done), time.time_ns()
        logits = self.steps.prefill(prompt.pages, tokens[prompt.done:end], prompt.done)
        self.prompted += end - prompt.done
        prompt.done = end
        self.steps.pool.publish(prompt.pages, tokens, end)
        tracing.record("prefill", since, time.time_ns(), [text.link], {"fusewire.tokens": end})
        if end == len(tokens):
            slot = self._slots.index(None)
            self.steps.join(slot, prompt.pages, end)
            self._prompt, self._slots[slot], self._sampling = None, text, None
            sampling = RowSampling.of([text.choice.sampling], logits.shape[1])
            self._choose(logits, [(slot, 0, text)], sampling, out)

    def _take(self) -> None:
        """Begins the prompt that is next, if there is a free slot, and pages for the whole text."""
        if None not in self._slots:
            return
        with self._changed:
            while self._waiting and self._waiting[0].is_cancelled:
                self._waiting.popleft()
            if not self._waiting:
                return
            text = self._waiting[0]
            pages = self.steps.pool.take(text.prompt, text.most)
            if pages is None:
                return
            self._waiting.popleft()
            self._pages[text] = pages
            self._prompt = _Prompt(text, pages, pages.shared)
        self.reused += pages.shared

    def _decode(self, out: _Out) -> None:
        """Adds one token to each text in a slot."""
        for slot, text in self._busy:
            if text.is_cancelled:
                self._leave(slot, text)
        busy = self._busy
        if not busy:
            return
        since = time.time_ns()
        logits, best = self.steps.decode(self._tokens)
        self.steps_done += 1
        tracing.record("decode", since, time.time_ns(), [text.link for _, text in busy],
                       {"fusewire.texts": len(busy)})
        if all(text.is_greedy for _, text in busy):
            tokens = best.tolist()
            for slot, text in busy:
                self._add(slot, text, tokens[slot], None, out)
            return
        if self._sampling is None:
            texts = [Sampling() if text is None else text.choice.sampling for text in self._slots]
            self._sampling = RowSampling.of(texts, logits.shape[1])
        self._choose(logits, [(slot, slot, text) for slot, text in busy], self._sampling, out)

    def _choose(self, logits: fw.Tensor, texts: list[tuple[int, int, Continuation]],
                sampling: RowSampling, out: _Out) -> None:
        """Adds a token to each text, given with its slot and its row of the logits."""
        rows, draws = logits.numpy(), np.zeros(len(logits))
        if any(text.adjusts for _, _, text in texts):
            rows = rows.copy()
        for _, row, text in texts:
            draws[row] = text.draw()
            text.adjust(rows[row])
        tokens = self.sampler.choose(fw.Tensor(rows), sampling, draws)
        for slot, row, text in texts:
            self._add(slot, text, tokens[row], rows[row], out)

    def _add(self, slot: int, text: Continuation, token: int, logits: Any, out: _Out) -> None:
        """Adds a token to a text. logits: that it was chosen from, (vocabulary,)."""
        pieces = text.add(token, None if text.choice.logprobs is None else text.logprobs_of(
            logits, token))
        self.generated += 1
        self._tokens[slot] = token
        if text.has_ended:
            self._leave(slot, text)
        out += [(text, piece) for piece in pieces]

    def _leave(self, slot: int, text: Continuation) -> None:
        self._slots[slot] = self._sampling = None
        self.steps.leave(slot)
        self._release(text)

    def _release(self, text: Continuation) -> None:
        self.steps.pool.release(self._pages.pop(text))

    def _failed(self, error: Exception) -> _Out:
        """An error for all texts that are in the model: their caches may be damaged."""
        texts = list(self._pages)
        for slot, text in self._busy:
            self._leave(slot, text)
        if self._prompt is not None:
            self._release(self._prompt.text)
            self._prompt = None
        self.steps.pool.forget()
        time.sleep(0.01)  # so that a model that always fails does not take the processor
        return [(text, Piece(error=failure_of(error))) for text in texts]


def _deliver(out: _Out) -> None:
    for text, piece in out:
        text.pieces.put(text.number, piece)
