"""Defines samplers, the order in which samples are read, which can resume in the middle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import chain, islice
from operator import length_hint
from typing import Any, Generic, TypeVar

import numpy as np

from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, ShapeError, StateError
from ...ops.random.generator import Generator, randint, randperm
from ...ops.random.multinomial import multinomial

_T_co = TypeVar("_T_co", covariant=True)
State = dict[str, Any]
BLOCK = 1 << 16  # indices that are drawn at a time, since an order can exceed memory


class Sampler(Generic[_T_co]):
    """Base class of samplers: define `__iter__`, which yields indices of samples.

    A sampler with `state_dict` and `load_state_dict` makes a DataLoader resumable in any order.

    Example:
        >>> import fusewire as fw
        >>> class Backwards(fw.utils.data.Sampler):
        ...     def __init__(self, data):
        ...         self.data = data
        ...     def __iter__(self):
        ...         return reversed(range(len(self.data)))
        >>> data = fw.arange(3)
        >>> [x.tolist() for x in fw.utils.data.DataLoader(data, 2, sampler=Backwards(data))]
        [[2, 1], [0]]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class _Pass:
    """The indices of one pass, list by list, and the number yielded so far."""

    def __init__(self, lists: Iterator[Sequence[int]], yielded: int) -> None:
        self._list_end = yielded  # count of numbers up to the end of the list being read
        self._list: Iterator[int] = iter(())
        first = next(lists, ())  # read in the constructor, so that errors come early
        self.numbers = chain.from_iterable(self._each(chain([first], lists)))

    def _each(self, lists: Iterable[Sequence[int]]) -> Iterator[Iterator[int]]:
        for one in lists:
            self._list_end, self._list = self._list_end + len(one), iter(one)
            yield self._list

    @property
    def yielded(self) -> int:
        return self._list_end - length_hint(self._list)


class Resumable(Sampler[int]):
    """A sampler whose order follows from the few values of `_start`.

    The order consists of blocks. A block is drawn when it is read, from `_start` and its number
    alone. So a pass can resume in the middle without drawing the blocks before.
    """

    _now: tuple[State, _Pass] | None = None  # the result of `_start` and the latest pass
    _resumed: State | None = None

    def _start(self) -> State:
        """The values from which the order of a new pass follows."""
        return {}

    def __len__(self) -> int:
        raise NotImplementedError

    def _size(self) -> int:
        """The number of indices in a block; the last block may be shorter."""
        return BLOCK

    def _block(self, start: State, number: int, count: int) -> Any:
        """The `count` indices of a block, as an array or a range."""
        raise NotImplementedError

    def _samples_of(self, numbers: Any) -> Sequence[int]:
        """The samples that a part of a block stands for."""
        listed: Sequence[int] = numbers if isinstance(numbers, range) else numbers.tolist()
        return listed

    def _lists(self, start: State, yielded: int) -> Iterator[Sequence[int]]:
        """The order after the first `yielded` indices, list by list."""
        size, total = self._size(), len(self)
        for number in range(yielded // max(size, 1), -(-total // max(size, 1))):
            begin = number * size
            block = self._block(start, number, min(size, total - begin))
            for offset in range(max(0, yielded - begin), len(block), BLOCK):
                yield self._samples_of(block[offset:offset + BLOCK])

    def __iter__(self) -> Iterator[int]:
        state, self._resumed = self._resumed or {"yielded": 0}, None
        yielded = state["yielded"]
        start = {k: v for k, v in state.items() if k not in ("yielded", "generator")}
        start = start or self._start()
        now = _Pass(self._lists(start, yielded), yielded)
        self._now = (start, now)
        return now.numbers

    def state_dict(self) -> State:
        """The position of the latest pass, in plain numbers."""
        if self._resumed is not None:
            return dict(self._resumed)
        state = {"yielded": 0} if self._now is None else \
            {**self._now[0], "yielded": self._now[1].yielded}
        generator = getattr(self, "generator", None)
        return state if generator is None else state | {"generator": generator.state.tolist()}

    def load_state_dict(self, state_dict: State) -> None:
        """Makes the next pass continue where `state_dict` was taken."""
        self._resumed = dict(_checked_state(self, state_dict))
        if "generator" in state_dict and getattr(self, "generator", None) is not None:
            self.generator.set_state(  # type: ignore[attr-defined]
                Tensor(np.array(state_dict["generator"], np.int64)))

    def rewind(self) -> None:
        """Makes the next pass start anew."""
        self._resumed = self._now = None


class _Counted(Sampler[Any]):
    """The items of `source`, counted: for an order that is always equal, the count is the state."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source, self.yielded, self.resumed = source, 0, False

    def __iter__(self) -> Iterator[Any]:
        self.yielded, self.resumed = self.yielded if self.resumed else 0, False
        return self._count(islice(iter(self.source), self.yielded, None))

    def _count(self, numbers: Iterator[Any]) -> Iterator[Any]:
        for number in numbers:
            self.yielded += 1
            yield number

    def state_dict(self) -> State:
        return {"yielded": self.yielded}

    def load_state_dict(self, state_dict: State) -> None:
        self.yielded, self.resumed = _checked_state(self.source, state_dict)["yielded"], True

    def rewind(self) -> None:
        self.yielded = 0


def resumable(source: Any) -> Any:
    """`source`, or a sampler that counts its items if it has no state of its own."""
    return source if hasattr(source, "load_state_dict") else _Counted(source)


class SequentialSampler(Resumable):
    """The indices 0, 1, ..., len(data_source) - 1.

    Args:
        data_source: an object with a length.

    Example:
        >>> import fusewire as fw
        >>> list(fw.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def _lists(self, start: State, yielded: int) -> Iterator[Sequence[int]]:
        yield range(yielded, len(self))


class _Random(Resumable):
    """A random order, which follows from one number drawn at the start of the pass.

    Later it draws nothing, so reading ahead does not affect other random numbers.
    """

    generator: Generator | None

    def _start(self) -> State:
        return {"seed": drawn_seed(self.generator)}


class RandomSampler(_Random):
    """The indices of `data_source` in random order, a new one in each pass.

    Args:
        data_source: an object with a length.
        replacement: draws each index from all. Default False.
        num_samples: number of indices; without replacement more than the length repeats the data in
            new orders. Default None: the length.
        generator: source of the order. Default None: the default generator.

    Raises:
        DTypeError: replacement is not a bool.
        ArgumentError: num_samples, or the length of the data, is not an int above 0.

    Example:
        >>> import fusewire as fw
        >>> sorted(fw.utils.data.RandomSampler("abc", generator=fw.Generator(0)))
        [0, 1, 2]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise DTypeError(f"RandomSampler: replacement is True or False, got {replacement!r}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        _check_count("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of indices in a pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __len__(self) -> int:
        return self.num_samples

    def _size(self) -> int:
        return BLOCK if self.replacement else self._rounds() * len(self.data_source)

    def _rounds(self) -> int:
        """The number of orders of all samples in a block without replacement."""
        return max(1, min(64, BLOCK // len(self.data_source)))

    def _block(self, start: State, number: int, count: int) -> Any:
        n = len(self.data_source)
        if self.replacement:
            return randint(0, n, (count,), generator=_at(start["seed"], number))._data
        generator = _at(start["seed"], number * self._rounds())
        return np.concatenate([randperm(n, generator)._data for _ in range(-(-count // n))])[:count]


class SubsetRandomSampler(_Random):
    """The given indices in random order, a new one in each pass.

    Args:
        indices: a sequence of indices.
        generator: source of the order. Default None: the default generator.

    Example:
        >>> import fusewire as fw
        >>> sorted(fw.utils.data.SubsetRandomSampler([5, 7], generator=fw.Generator(0)))
        [5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __len__(self) -> int:
        return len(self.indices)

    def _size(self) -> int:
        return len(self)

    def _block(self, start: State, number: int, count: int) -> Any:
        return randperm(count, Generator(start["seed"]))._data

    def _samples_of(self, numbers: Any) -> Sequence[int]:
        return [self.indices[i] for i in numbers.tolist()]


class WeightedRandomSampler(_Random):
    """Random indices, drawn with probabilities proportional to `weights`.

    Args:
        weights: (n,) numbers, at least 0, with any sum.
        num_samples: number of indices, above 0.
        replacement: an index can be drawn again. Default True.
        generator: source of the order. Default None: the default generator.

    Raises:
        ArgumentError: num_samples is not an int above 0, or replacement is not a bool.
        ShapeError: weights that do not have one axis.

    Example:
        >>> import fusewire as fw
        >>> list(fw.utils.data.WeightedRandomSampler([0.0, 1.0], 3))
        [1, 1, 1]
    """

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True,
                 generator: Generator | None = None) -> None:
        _check_count("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ArgumentError("WeightedRandomSampler: replacement is True or False, got "
                                f"{replacement!r}")
        self.weights = Tensor(np.array(weights, np.float64))
        if self.weights.ndim != 1:
            raise ShapeError("WeightedRandomSampler: weights are one number for each sample, got "
                             f"shape {self.weights.shape}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __len__(self) -> int:
        return self.num_samples

    def _size(self) -> int:
        return max(BLOCK, self.weights.size) if self.replacement else self.num_samples

    def _block(self, start: State, number: int, count: int) -> Any:
        generator = _at(start["seed"], number)
        return multinomial(self.weights, count, self.replacement, generator=generator)._data


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices from `sampler`.

    Args:
        sampler: an iterable of indices.
        batch_size: indices per list, above 0.
        drop_last: drops a last list that is too short.

    Raises:
        ArgumentError: batch_size is not an int above 0, or drop_last is not a bool.

    Example:
        >>> import fusewire as fw
        >>> list(fw.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _check_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ArgumentError(f"BatchSampler: drop_last is True or False, got {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last
        self._source: Any = None  # the sampler of the latest pass
        self._resumed: State | None = None

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[list[Any]]:
        return self._batches(iter(self._loaded()))  # draws now, not at the first batch

    def _loaded(self) -> Any:
        self._source = resumable(self.sampler)
        if self._resumed is not None:
            self._source.load_state_dict(self._resumed)
            self._resumed = None
        return self._source

    def _batches(self, numbers: Iterator[Any]) -> Iterator[list[Any]]:
        while batch := list(islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def state_dict(self) -> State:
        """The state of `sampler`, which counts the indices in the batches so far."""
        if self._resumed is not None:
            return dict(self._resumed)
        state: State = (self._source or resumable(self.sampler)).state_dict()
        return state

    def load_state_dict(self, state_dict: State) -> None:
        """Makes the next pass continue where `state_dict` was taken."""
        self._resumed = state_dict

    def rewind(self) -> None:
        """Makes the next pass start anew."""
        rewind(self._loaded())


def rewind(source: Any) -> None:
    """Makes the next pass of `source` start anew; one without `rewind` does so by itself."""
    if hasattr(source, "rewind"):
        source.rewind()


def drawn_seed(generator: Generator | None) -> int:
    """A seed from `generator`, or from the default one."""
    return int(randint(0, 2 ** 62, generator=generator).item())


def _at(seed: int, counter: int) -> Generator:
    """The generator of a seed after `counter` draws."""
    generator = Generator(seed)
    generator.set_state(Tensor(np.array([seed, counter], np.int64)))
    return generator


def _checked_state(owner: Any, state: State) -> State:
    if "yielded" not in state:
        raise StateError(f"{type(owner).__name__}: this is no state of a sampler: it has the keys "
                         f"{sorted(state)}", "state_dict() gives one")
    return state


def _check_count(owner: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{owner}: {name} must be a whole number above 0, got {value!r}")
