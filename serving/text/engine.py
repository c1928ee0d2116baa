"""Continuous batching: texts join and leave a batch of slots between two tokens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque

import numpy as np

import fusewire as fw

from ..base.failures import UNAVAILABLE, RequestError, failure_of
from .continuation import Continuation, Logprobs, Piece
from .steps import Steps

_Out = list[tuple[Continuation, Piece]]


class Engine:
    """Continues texts, as many at once as there are slots, in the order in which they come.

    Each turn of the loop computes one part of the prompt that is next, if a slot is free, and one
    token of each text in a slot. So a long prompt delays the others by one part at a time.

    Args:
        steps: the compiled steps of the model.
        slots: texts side by side.
        queue: the most texts that wait; further ones are refused.
    """

    def __init__(self, steps: Steps, slots: int, queue: int) -> None:
        self.steps, self.queue = steps, queue
        self._slots: list[Continuation | None] = [None] * slots
        self._waiting: deque[Continuation] = deque()
        self._prompt: Continuation | None = None  # whose prompt is being computed
        self._done = 0  # tokens of that prompt
        self._tokens = np.zeros((slots, 1), np.int64)
        self._changed = threading.Condition()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="fusewire engine", daemon=True)
        self.generated = self.prompted = self.steps_done = 0  # tokens, tokens, decoding steps

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
        text = self._prompt
        if text is None:
            return
        if text.is_cancelled:
            self._prompt = None
            return
        part = text.prompt[self._done:self._done + self.steps.chunks[-1]]
        size = next(n for n in self.steps.chunks if n >= len(part))
        tokens = np.zeros((1, size), np.int64)
        tokens[0, :len(part)] = part
        logits = self.steps.prefill(tokens, len(part))
        self._done += len(part)
        self.prompted += len(part)
        if self._done == len(text.prompt):
            slot = self._slots.index(None)
            self.steps.put(slot)
            self._prompt, self._slots[slot] = None, text
            self._add(slot, text, *text.choose(logits.numpy()), out)

    def _take(self) -> None:
        """Begins the prompt that is next, if there is a free slot."""
        if None not in self._slots:
            return
        with self._changed:
            while self._waiting and self._waiting[0].is_cancelled:
                self._waiting.popleft()
            self._prompt = self._waiting.popleft() if self._waiting else None
        if self._prompt is not None:
            self._done = 0
            self.steps.begin()

    def _decode(self, out: _Out) -> None:
        """Adds one token to each text in a slot."""
        for slot, text in self._busy:
            if text.is_cancelled:
                self._slots[slot] = None
        busy = self._busy
        if not busy:
            return
        is_active = np.zeros_like(self._tokens)
        is_active[[slot for slot, _ in busy]] = 1
        logits, best = self.steps.decode(self._tokens.copy(), is_active)
        likeliest, rows = best.tolist(), None
        self.steps_done += 1
        for slot, text in busy:
            if text.is_greedy:
                self._add(slot, text, likeliest[slot], None, out)
            else:
                rows = logits.numpy() if rows is None else rows
                self._add(slot, text, *text.choose(rows[slot]), out)

    def _add(self, slot: int, text: Continuation, token: int, logprobs: Logprobs | None,
             out: _Out) -> None:
        piece = text.add(token, logprobs)
        self.generated += 1
        self._tokens[slot] = token
        if piece.finish is not None:
            self._slots[slot] = None
        out.append((text, piece))

    def _failed(self, error: Exception) -> _Out:
        """An error for all texts that are in the model: their caches may be damaged."""
        texts = [text for _, text in self._busy]
        if self._prompt is not None:
            texts.append(self._prompt)
        self._slots, self._prompt = [None] * len(self._slots), None
        time.sleep(0.01)  # so that a model that always fails does not take the processor
        return [(text, Piece(error=failure_of(error))) for text in texts]


def _deliver(out: _Out) -> None:
    for text, piece in out:
        text.pieces.put_nowait(piece)
