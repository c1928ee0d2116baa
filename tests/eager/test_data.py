"""Data sets, samplers, and how samples become batches."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from data_sets import Count, Squares, numbered

import fusewire as fw
from fusewire.eager.errors import ArgumentError, DTypeError, IndexingError, ShapeError, StateError
from fusewire.eager.ops.random.generator import Generator
from fusewire.eager.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)


# ---- data sets
def test_tensor_dataset_gives_rows():
    data = numbered()
    first, second = data[3]
    assert len(data) == 10 and first.item() == 3 and second.tolist() == [6, 7]
    assert TensorDataset(np.arange(3.0))[1][0].item() == 1
    with pytest.raises(ShapeError, match=r"got shapes \(2,\), \(3,\)"):
        TensorDataset(fw.ones(2), fw.ones(3))
    with pytest.raises(DTypeError, match="TensorDataset: takes tensors, not list"):
        TensorDataset([1, 2])


def test_stack_dataset_gives_tuples_or_dicts():
    letters = ["a", "b", "c"]
    assert StackDataset(range(3), letters)[1] == (1, "b") and len(StackDataset(letters)) == 3
    named = StackDataset(number=Subset(range(10), [9, 8, 7]), letter=letters)
    assert named[2] == {"number": 7, "letter": "c"}
    assert named.__getitems__([2, 0]) == [named[2], named[0]]
    with pytest.raises(ShapeError, match=r"different lengths: \[3, 2\]"):
        StackDataset(range(3), range(2))
    for wrong in ((), (range(3),)):
        with pytest.raises(ArgumentError, match=r"by position .* or by name"):
            StackDataset(*wrong, **({"x": range(3)} if wrong else {}))


def test_concat_dataset_counts_through():
    data = Squares(2) + Squares(3)
    assert isinstance(data, ConcatDataset) and len(data) == 5 and data.cumulative_sizes == [2, 5]
    assert [data[i][0] for i in range(5)] == [0, 1, 0, 1, 2] and data[-1][0] == 2
    with pytest.raises(IndexingError, match="no sample 5, it has 5"):
        data[5]
    with pytest.raises(DTypeError, match="ChainDataset puts such"):
        ConcatDataset([Count(3)])
    with pytest.raises(ArgumentError, match="at least one"):
        ConcatDataset([])


def test_chain_dataset_goes_through_one_after_the_other():
    data = Count(2) + Count(3)
    assert isinstance(data, ChainDataset) and list(data) == [0, 1, 0, 1, 2] and len(data) == 5
    with pytest.raises(DTypeError, match="Squares is no IterableDataset"):
        list(ChainDataset([Squares(2)]))


def test_subset_and_what_a_subclass_overrides():
    class Doubled(Subset):
        def __getitem__(self, index):
            return 2 * super().__getitem__(index)

    part = Subset(range(10), [9, 8])
    assert (len(part), part[1], part.__getitems__([0, 1])) == (2, 8, [9, 8])
    assert Doubled(range(10), [9, 8]).__getitems__([0, 1]) == [18, 16]
    assert next(iter(DataLoader(Doubled(range(10), [3]))))[0].item() == 6


def test_samples_read_at_once():
    class Whole(Dataset):
        def __getitems__(self, indices):
            return [-i for i in indices][:2]

    assert next(iter(DataLoader(Whole(), batch_sampler=[[1, 2]]))).tolist() == [-1, -2]
    with pytest.raises(ShapeError, match=r"Whole.__getitems__: gave 2 samples for 3 numbers"):
        next(iter(DataLoader(Whole(), batch_sampler=[[1, 2, 3]])))


def test_random_split_parts_are_disjoint_and_repeatable():
    data = Squares(10)
    parts = random_split(data, [7, 3], Generator(5))
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    assert parts[0].indices == random_split(data, [0.7, 0.3], Generator(5))[0].indices
    assert [len(p) for p in random_split(Squares(11), [0.5, 0.25, 0.25])] == [6, 3, 2]
    with pytest.raises(ArgumentError, match="add up to 9, the data set has 10"):
        random_split(data, [6, 3])
    with pytest.raises(ArgumentError, match="a fraction is from 0 to 1"):
        random_split(data, [1.5, -0.5])


# ---- samplers
def test_samplers():
    data = Squares(7)
    assert list(SequentialSampler(data)) == list(range(7))
    drawn = list(RandomSampler(data, generator=Generator(1)))
    assert sorted(drawn) == list(range(7)) and drawn == list(
        RandomSampler(data, generator=Generator(1)))
    assert len(list(RandomSampler(data, num_samples=17))) == 17
    assert sorted(list(RandomSampler(data, num_samples=17))[7:14]) == list(range(7))
    many = list(RandomSampler(data, replacement=True, num_samples=50))
    assert len(many) == 50 and set(many) <= set(range(7))
    some = SubsetRandomSampler([2, 4, 6, 8])
    assert sorted(some) == [2, 4, 6, 8] and len(some) == 4
    with pytest.raises(ArgumentError, match="num_samples must be a whole number above 0, got 0"):
        RandomSampler(range(0))


def test_batch_sampler():
    assert list(BatchSampler(range(7), 3, False)) == [[0, 1, 2], [3, 4, 5], [6]]
    batches = BatchSampler(range(7), 3, drop_last=True)
    assert list(batches) == [[0, 1, 2], [3, 4, 5]] and len(batches) == 2
    for wrong in (0, True, 2.0):
        with pytest.raises(ArgumentError, match="batch_size must be a whole number above 0"):
            BatchSampler(range(7), wrong, False)
    with pytest.raises(ArgumentError, match="drop_last is True or False"):
        BatchSampler(range(7), 2, 1)


def test_weighted_random_sampler():
    drawn = list(WeightedRandomSampler([0, 3.0, 1.0], 4000, generator=Generator(2)))
    assert len(drawn) == 4000 and 0 not in drawn
    assert 0.72 < drawn.count(1) / 4000 < 0.78
    once = WeightedRandomSampler([0, 1.0, 1e-3, 5], 3, replacement=False)
    assert sorted(once) == [1, 2, 3] and len(once) == 3
    with pytest.raises(ShapeError, match=r"one number for each sample, got shape \(1, 2\)"):
        WeightedRandomSampler([[1, 2]], 1)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_distributed_sampler(shuffle, drop_last):
    parts = [DistributedSampler(range(11), 3, rank, shuffle, 4, drop_last) for rank in range(3)]
    shares = [list(part) for part in parts]
    assert [len(share) for share in shares] == list(map(len, parts)) == [3 + (not drop_last)] * 3
    found = sorted(number for share in shares for number in share)
    assert len(set(found)) == (9 if drop_last else 11)
    if not shuffle:
        assert shares[1] == [1, 4, 7] + [10] * (not drop_last)
    assert list(parts[0]) == shares[0]  # of one epoch
    parts[0].set_epoch(1)
    assert (list(parts[0]) == shares[0]) is not shuffle
    assert list(DistributedSampler(range(2), 5, 4, False)) == [0]
    with pytest.raises(ArgumentError, match="rank must be from 0 to 2, got 3"):
        DistributedSampler(range(9), 3, 3)
    with pytest.raises(ArgumentError, match="must be given"):
        DistributedSampler(range(9))


def test_two_passes_of_one_seed_differ():
    sampler = RandomSampler(range(50))
    fw.manual_seed(2)
    first, second = list(sampler), list(sampler)
    fw.manual_seed(2)
    assert first != second and first == list(sampler)


def test_an_order_does_not_depend_on_what_is_drawn_while_it_is_read():
    fw.manual_seed(2)
    numbers = iter(RandomSampler(range(5), num_samples=12))
    wanted = list(numbers)
    fw.manual_seed(2)
    found = []
    for n in RandomSampler(range(5), num_samples=12):
        fw.rand(3)
        found.append(n)
    assert found == wanted


SAMPLERS = {
    "sequential": lambda: SequentialSampler(range(9)),
    "random": lambda: RandomSampler(range(9), generator=Generator(3)),
    "default generator": lambda: RandomSampler(range(9)),
    "replacement": lambda: RandomSampler(range(9), True, generator=Generator(3)),
    "subset": lambda: SubsetRandomSampler(range(9), Generator(3)),
    "weighted": lambda: WeightedRandomSampler([1.0] * 9, 9, generator=Generator(3)),
    "distributed": lambda: DistributedSampler(range(18), 2, 1, seed=3),
    "batches": lambda: BatchSampler(RandomSampler(range(18), generator=Generator(3)), 2, False),
    "batches of a list": lambda: BatchSampler(list(range(18)), 2, False),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("taken", [0, 4, 9])
def test_a_sampler_goes_on_in_the_middle(name, taken):
    sampler, other = SAMPLERS[name](), SAMPLERS[name]()
    numbers = iter(sampler)
    for _ in range(taken):
        next(numbers)
    state = sampler.state_dict()
    left = list(numbers)
    after = list(sampler)
    fw.manual_seed(1)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert list(other) == left and len(left) == 9 - taken
    assert name == "default generator" or list(other) == after


def test_no_state_of_a_sampler():
    with pytest.raises(StateError, match=r"RandomSampler: this is no state of a sampler: it has "
                                         r"the keys \['lr'\]"):
        RandomSampler(range(3)).load_state_dict({"lr": 1})


def test_classes_take_type_arguments():
    assert Sampler[int] and Dataset[tuple[int, str]] and IterableDataset[int] and DataLoader[int]
    for kind in (Dataset, IterableDataset, Sampler):
        with pytest.raises(NotImplementedError, match=f"{kind.__name__} does not define __"):
            kind()[0] if kind is Dataset else iter(kind())


# ---- samples to batches
def test_default_collate():
    Point = namedtuple("Point", "x name")
    batch = default_collate([Point(1, "a"), Point(2, "b")])
    assert isinstance(batch, Point) and batch.x.tolist() == [1, 2] and batch.name == ("a", "b")
    batch = default_collate([{"x": np.ones(2, np.float64), "y": (0.5, True)}] * 3)
    assert batch["x"].shape == (3, 2) and batch["x"].dtype == fw.float64
    assert batch["y"][0].dtype == fw.float64 and batch["y"][1].dtype == fw.bool
    assert default_collate([fw.ones(2), fw.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert default_collate([np.float32(1), np.float32(2)]).dtype == fw.float32
    assert default_collate([fw.tensor(1), fw.tensor(2)]).tolist() == [1, 2]
    assert default_collate([1, 2.5]).dtype == fw.float32
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert type(default_collate([OrderedDict(a=1)])) is OrderedDict
    assert [x.tolist() for x in default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]


def test_samples_that_do_not_go_together():
    with pytest.raises(ShapeError, match=r"\(2,\), \(3,\)[\s\S]*pad them"):
        default_collate([fw.ones(2), fw.ones(3)])
    with pytest.raises(ShapeError, match=r"\(2, 3\), \(4, 3\)"):
        default_collate([fw.ones((2, 3)), fw.ones((4, 3))])
    with pytest.raises(ShapeError, match=r"samples of lengths \[1, 2\]"):
        default_collate([(1, 2), (1,)])
    for wrong in (object(), np.array(["text"]), np.array([None])):
        with pytest.raises(DTypeError, match=r"cannot collate samples of[^$]*pass collate"):
            default_collate([wrong])


def test_default_convert():
    Point = namedtuple("Point", "x y")
    sample = {"a": np.ones(2), "b": [np.float32(1), "text"], "c": Point(np.arange(2), None)}
    found = default_convert(sample)
    assert found["a"].dtype == fw.float64
    assert found["b"][0].item() == 1 and found["b"][1] == "text"
    assert isinstance(found["c"], Point) and found["c"].x.tolist() == [0, 1]
    assert found["c"].y is None
    assert default_convert((1, np.arange(1)))[1].tolist() == [0]
    assert default_convert(np.array(["text"])).tolist() == ["text"]
