"""Orders of samplers: drawn in blocks, resumed at any number, longer than memory."""

import itertools
import json
import tracemalloc

import pytest

import fusewire as fw
from fusewire.eager.utils.data import sampler as samplers
from fusewire.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

LONG = int(1e10)


def orders(count, generator=lambda: fw.Generator(5)):
    """Samplers of `count` numbers of 7 samples or fewer, by name."""
    return {
        "sequential": lambda: SequentialSampler(range(count)),
        "shuffled": lambda: RandomSampler(range(count), generator=generator()),
        "rounds": lambda: RandomSampler(range(7), num_samples=count, generator=generator()),
        "replacement": lambda: RandomSampler(range(7), True, count, generator()),
        "subset": lambda: SubsetRandomSampler(range(3, 3 + count), generator()),
        "weighted": lambda: WeightedRandomSampler([1, 2, 0, 3.0], count, generator=generator()),
        "weighted once": lambda: WeightedRandomSampler([1.0] * count, count, False, generator()),
        "distributed": lambda: DistributedSampler(range(2 * count), 2, 1, seed=3),
        "in order": lambda: DistributedSampler(range(2 * count), 2, 1, shuffle=False),
        "batches": lambda: BatchSampler(RandomSampler(range(7), True, 3 * count, generator()),
                                        3, False),
    }


@pytest.mark.parametrize("block", [1, 4, 16, 1 << 16])
@pytest.mark.parametrize("name", orders(1))
def test_a_pass_goes_on_at_every_number(name, block, monkeypatch):
    monkeypatch.setattr(samplers, "BLOCK", block)
    for count in (1, 4, 13):
        whole = list(orders(count)[name]())
        assert len(whole) == count
        for taken in range(count + 1):
            first, second = orders(count)[name](), orders(count)[name]()
            begun = list(itertools.islice(iter(first), taken))
            second.load_state_dict(json.loads(json.dumps(first.state_dict())))
            assert begun + list(second) == whole


@pytest.mark.parametrize("name", ["rounds", "replacement", "weighted"])
def test_the_same_seed_gives_the_same_numbers_however_many_are_drawn(name):
    short, long = (list(itertools.islice(orders(n)[name](), 3000)) for n in (3000, 200_000))
    assert short == long and max(short) <= 6


def test_blocks_differ():
    numbers = list(RandomSampler(range(1 << 30), True, 3 << 16, fw.Generator(0)))
    assert len(set(numbers)) > len(numbers) - 100


@pytest.mark.parametrize("name", ["sequential", "rounds", "replacement", "weighted", "in order",
                                  "batches"])
def test_an_order_longer_than_memory(name):
    tracemalloc.start()
    sampler = orders(LONG)[name]()
    assert len(sampler) == LONG
    list(itertools.islice(iter(sampler), 5))
    state = sampler.state_dict() | {"yielded": LONG - 2}
    sampler.load_state_dict(state)
    if name != "batches":  # its state counts numbers, not batches
        assert len(list(iter(sampler))) == 2
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


class Squares(Dataset):
    def __len__(self):
        return LONG

    def __getitem__(self, i):
        return i % 1000


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_many_samples(workers):
    order = RandomSampler(Squares(), replacement=True, num_samples=LONG)
    loader = DataLoader(Squares(), sampler=order, batch_size=4, num_workers=workers)
    assert len(loader) == LONG // 4
    assert len(list(itertools.islice(loader, 3))) == 3
