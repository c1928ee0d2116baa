"""Measures generated texts against references: BLEU by sacrebleu, and ROUGE."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any

import fusewire as fw

from .averages import ratio
from .labels import check_at_least, check_choice
from .metric import Metric, counts

References = Sequence[str] | Sequence[Sequence[str]]
_NO_WORD = re.compile("[^a-z0-9]+")


class BLEU(Metric):
    """The BLEU score of a corpus, float64 (), from 0 to 100.

    The package sacrebleu splits the texts and counts; extra `metrics`. Its counts of n-grams are
    summed over batches, so the score is that of the corpus and no mean of scores.

    Args:
        tokenize: how texts are split, a name of sacrebleu such as "13a", "intl", "zh", "char".
            Default "13a", that of published scores.
        lowercase: whether case is ignored. Default False.
        smooth_method: for n-grams without a match: "exp", "floor", "add-k" or "none". Default
            "exp".
        max_order: the longest n-grams. Default 4.
        effective_order: leaves out n-grams that are longer than the texts. Default False.

    Raises:
        StateError: the package sacrebleu is not installed.

    Example:
        >>> import fusewire as fw
        >>> bleu = fw.metrics.BLEU()  # doctest: +SKIP
        >>> bleu.update(["the cat sat on the mat"], ["the cat sat on a mat"])  # doctest: +SKIP
        >>> round(float(bleu.compute()), 1)  # doctest: +SKIP
        53.7
    """

    right: fw.Tensor
    count: fw.Tensor
    lengths: fw.Tensor

    def __init__(self, tokenize: str = "13a", lowercase: bool = False, smooth_method: str = "exp",
                 max_order: int = 4, effective_order: bool = False) -> None:
        check_at_least("BLEU", "max_order", max_order, 1)
        check_choice("BLEU", "smooth_method", smooth_method, ("exp", "floor", "add-k", "none"))
        self.tokenize, self.lowercase, self.smooth_method = tokenize, lowercase, smooth_method
        self.max_order, self.effective_order = max_order, effective_order
        self._scorer()  # a missing package or an unknown name is an error before any work
        super().__init__(right=counts(max_order), count=counts(max_order), lengths=counts(2))

    def update(self, predictions: Sequence[str], references: References) -> None:
        """Adds a batch.

        Args:
            predictions: texts.
            references: for each of them a text, or several texts.

        Raises:
            ShapeError: as many references as predictions are needed.
        """
        listed = _listed("BLEU", predictions, references)
        if not listed:
            return
        columns = [[texts[i] if i < len(texts) else None for texts in listed]
                   for i in range(max(map(len, listed)))]
        score = self._scorer("none").corpus_score(list(predictions), columns)
        self.right = self.right + fw.tensor(score.counts)
        self.count = self.count + fw.tensor(score.totals)
        self.lengths = self.lengths + fw.tensor([score.sys_len, score.ref_len])

    def compute(self) -> fw.Tensor:
        """The score, float64 ()."""
        lengths = self.needed(self.lengths).tolist()
        score = self._scorer().compute_bleu(
            self.right.tolist(), self.count.tolist(), *lengths, smooth_method=self.smooth_method,
            effective_order=self.effective_order, max_ngram_order=self.max_order)
        return fw.tensor(score.score, dtype=fw.float64)

    def _scorer(self, smooth_method: str | None = None) -> Any:
        """The scorer; without smoothing for counts, to which "add-k" would add."""
        try:
            from sacrebleu.metrics import BLEU as Scorer
        except ImportError:
            raise fw.StateError("BLEU needs the package sacrebleu",
                                'pip install "fusewire[metrics]"') from None
        return Scorer(tokenize=self.tokenize, lowercase=self.lowercase,
                      smooth_method=smooth_method or self.smooth_method,
                      max_ngram_order=self.max_order, effective_order=self.effective_order)


class ROUGE(Metric):
    """The mean ROUGE-1, ROUGE-2 and ROUGE-L over texts, a dict of float64 () from 0 to 1.

    ROUGE-n compares n-grams, ROUGE-L the longest common subsequence of words. Of several references
    each measure takes the one with the highest F1.
    Source: Lin, ROUGE: A Package for Automatic Evaluation of Summaries, 2004.

    Args:
        value: "f1", "precision" or "recall". Default "f1".
        tokenizer: a function from a text to words. Default None: runs of Latin letters and digits
            in lower case, as the package rouge-score; other scripts need a tokenizer.

    Example:
        >>> import fusewire as fw
        >>> rouge = fw.metrics.ROUGE()
        >>> rouge.update(["the cat sat"], ["the cat sat down"])
        >>> {name: round(float(value), 2) for name, value in rouge.compute().items()}
        {'rouge1': 0.86, 'rouge2': 0.8, 'rougeL': 0.86}
    """

    total: fw.Tensor
    count: fw.Tensor

    MEASURES = ("rouge1", "rouge2", "rougeL")

    def __init__(self, value: str = "f1",
                 tokenizer: Callable[[str], Sequence[Hashable]] | None = None) -> None:
        check_choice("ROUGE", "value", value, ("precision", "recall", "f1"))
        self.value, self.tokenizer = value, tokenizer
        super().__init__(total=fw.zeros(3, dtype=fw.float64), count=counts())

    def update(self, predictions: Sequence[str], references: References) -> None:
        """Adds a batch.

        Args:
            predictions: texts.
            references: for each of them a text, or several texts.

        Raises:
            ShapeError: as many references as predictions are needed.
        """
        split, kind = self.tokenizer or _words, ("precision", "recall", "f1").index(self.value)
        total = [0.0, 0.0, 0.0]
        for text, others in zip(predictions, _listed("ROUGE", predictions, references)):
            words, each = split(text), [split(other) for other in others]
            for i, matches in enumerate((_common_words, _common_pairs, _common_subsequence)):
                scores = [_scores(*matches(words, other)) for other in each]
                total[i] += max(scores, key=lambda score: score[2])[kind]
        self.total = self.total + fw.tensor(total, dtype=fw.float64)
        self.count = self.count + len(predictions)

    def compute(self) -> dict[str, fw.Tensor]:
        """The means by their names: rouge1, rouge2, rougeL."""
        count = self.needed(self.count)
        means = ratio(self.total, count.broadcast_to((3,)), fw.nan)
        return dict(zip(self.MEASURES, means))


def _listed(owner: str, predictions: Sequence[str], references: References) -> list[list[str]]:
    """The references of each prediction."""
    if isinstance(predictions, str) or isinstance(references, str):
        raise fw.DTypeError(f"{owner}: predictions and references are lists of texts, got a text",
                            "put it in a list: [text]")
    if len(predictions) != len(references):
        raise fw.ShapeError(f"{owner}: {len(predictions)} predictions and {len(references)} "
                            "references", "each prediction needs one reference, or a list of them")
    listed = [[texts] if isinstance(texts, str) else list(texts) for texts in references]
    if empty := [i for i, texts in enumerate(listed) if not texts]:
        raise fw.ShapeError(f"{owner}: prediction {empty[0]} has no reference",
                            "leave out predictions without references")
    return listed


def _words(text: str) -> list[str]:
    return _NO_WORD.sub(" ", text.lower()).split()


Matches = tuple[int, int, int]  # matches, and parts of the prediction and of the reference


def _common_words(words: Sequence[Hashable], others: Sequence[Hashable]) -> Matches:
    common = Counter(words) & Counter(others)
    return sum(common.values()), len(words), len(others)


def _common_pairs(words: Sequence[Hashable], others: Sequence[Hashable]) -> Matches:
    return _common_words(list(pairwise(words)), list(pairwise(others)))


def _common_subsequence(words: Sequence[Hashable], others: Sequence[Hashable]) -> Matches:
    """The length of the longest common subsequence, by bits of integers.

    Bit i of `rows` is 0 where the length grows at word i. Source: Hyyrö, Bit-Parallel LCS-length
    Computation Revisited, 2004.
    """
    places: dict[Hashable, int] = {}
    for i, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << i
    every = rows = (1 << len(words)) - 1
    for word in others:
        hits = rows & places.get(word, 0)
        rows = (rows + hits | rows - hits) & every
    return (every ^ rows).bit_count(), len(words), len(others)


def _scores(matches: int, predicted: int, wanted: int) -> tuple[float, float, float]:
    """Precision, recall and F1."""
    precision, recall = matches / max(predicted, 1), matches / max(wanted, 1)
    return precision, recall, 2 * precision * recall / ((precision + recall) or 1)
