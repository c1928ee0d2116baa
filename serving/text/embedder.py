"""Embeddings of texts: the mean of the features of their tokens, with length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fusewire as fw

from ...models.tokenizer import Tokenizer
from ..base.data_types import Array
from ..base.failures import INVALID, RequestError
from ..model import Model

LENGTHS = (16, 64, 256, 512)


class Embedder:
    """A model of `fusewire.models` that makes a vector of each text.

    Args:
        model: an encoder, such as `Bert`, or a decoder.
        tokenizer: of the model.
        lengths: the numbers of tokens for which code is compiled; texts are padded to the next one.
            Default 16, 64, 256, 512, as far as the model has positions.
        max_batch: the most texts of a batch. Default 8.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, *, lengths: Sequence[int] = LENGTHS,
                 max_batch: int = 8) -> None:
        self.tokenizer = tokenizer
        config = model.config
        self.vocabulary: int = config.vocab_size
        most = getattr(config, "max_position_embeddings", None) or \
            getattr(config, "n_positions", None) or lengths[-1]
        fitting = [n for n in lengths if n <= most] or [most]
        self.lengths, model = fitting, model.eval()
        features = getattr(model, model.PREFIX.rstrip(".")) if hasattr(model, "new_cache") else \
            model
        self.model = Model(_mean_of(features), [
            {"input_ids": np.arange(1, n + 1)[None] % config.vocab_size,
             "attention_mask": np.ones((1, n), np.int64)} for n in fitting],
            max_batch=max_batch, outputs=["embedding"])

    def load(self) -> Embedder:
        """This embedder, with code for all lengths."""
        self.model.load()
        return self

    def inputs(self, tokens: Sequence[int]) -> dict[str, Array]:
        """The inputs of the model for one text. RequestError if it has too many tokens."""
        if not 1 <= len(tokens) <= self.lengths[-1]:
            raise RequestError(INVALID, f"a text has {len(tokens)} tokens; the model takes 1 to "
                               f"{self.lengths[-1]}")
        size = next(n for n in self.lengths if n >= len(tokens))
        ids, mask = np.zeros((1, size), np.int64), np.zeros((1, size), np.int64)
        ids[0, :len(tokens)], mask[0, :len(tokens)] = tokens, 1
        return {"input_ids": ids, "attention_mask": mask}


def _mean_of(features: Any) -> Any:
    def embed(input_ids: fw.Tensor, attention_mask: fw.Tensor) -> fw.Tensor:
        result = features(input_ids, attention_mask)
        x = result[0] if isinstance(result, tuple) else result
        weights = attention_mask.astype(fw.float32)[:, :, None]
        mean = (x.astype(fw.float32) * weights).sum(1) / fw.maximum(weights.sum(1), 1.0)
        return fw.nn.functional.normalize(mean, dim=-1)

    return embed
