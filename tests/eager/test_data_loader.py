"""Loaders: batches in order whatever reads them, thread workers, places in the data."""

import json
import threading
import time
import traceback

import data_sets
import numpy as np
import pytest
from data_sets import Count, Draws, Failing, Modes, Squares, numbered

import fusewire as fw
from fusewire.eager.errors import ArgumentError, StateError
from fusewire.eager.ops.random.generator import Generator
from fusewire.eager.utils.data import (
    BatchSampler,
    DataLoader,
    Sampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    get_worker_info,
)


def no_workers_left():
    return not [t for t in threading.enumerate() if t.name.startswith("fusewire-loader")]


# ---- batches
def test_batches_of_tensors_come_in_order():
    loader = DataLoader(numbered(), batch_size=4)
    batches = list(loader)
    assert [b[0].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2][1].tolist() == [[16, 17], [18, 19]] and len(loader) == 3
    assert len(DataLoader(numbered(), batch_size=4, drop_last=True)) == 2


def test_a_subset_is_read_at_once_as_well():
    class Counting(TensorDataset):
        def __getitem__(self, index):
            raise AssertionError("one by one")

    part = Subset(Subset(numbered(), [9, 8, 7, 6]), [0, 3])
    x, y = next(iter(DataLoader(part, batch_size=2)))
    assert x.tolist() == [9, 6] and y.tolist() == [[18, 19], [12, 13]]
    with pytest.raises(AssertionError, match="one by one"):  # what a subclass overrides counts
        next(iter(DataLoader(Counting(fw.ones(3)))))


def test_shuffling_differs_from_pass_to_pass_and_follows_the_seed():
    def orders(workers):
        fw.manual_seed(2)
        loader = DataLoader(numbered(50), batch_size=10, shuffle=True, num_workers=workers)
        # numbers that the loop draws change nothing either
        return [[fw.rand(1) is not None and b[0].tolist() for b in loader] for _ in range(2)]

    first, second = orders(0)
    assert first != second and sorted(n for batch in first for n in batch) == list(range(50))
    assert orders(0) == orders(1) == orders(3) == [first, second]


def test_own_collate_function_and_no_batches():
    loader = DataLoader(Squares(3), batch_size=2, collate_fn=lambda samples: samples)
    assert list(loader) == [[(0, 0.0), (1, 1.0)], [(2, 4.0)]]
    assert list(DataLoader(Squares(2), batch_size=None)) == [[0, 0.0], [1, 1.0]]
    loader = DataLoader(numbered(), batch_sampler=[[3, 1], [2]])
    assert [b[0].tolist() for b in loader] == [[3, 1], [2]] and len(loader) == 2
    assert loader.batch_size is None and loader.drop_last is False
    loader = DataLoader(numbered(), sampler=[2, 1, 0], batch_size=2)
    assert [b[0].tolist() for b in loader] == [[2, 1], [0]]


def test_a_loop_left_with_an_open_batch_holds_no_other():
    batches = iter(DataLoader(Squares(8), batch_size=2, num_workers=1, prefetch_factor=1))
    first = next(batches)
    assert all(first is not x for x in batches.gi_frame.f_locals.values())


# ---- data sets that are gone through
@pytest.mark.parametrize("workers", [0, 1])
def test_iterable_dataset(workers):
    def read(**options):
        loader = DataLoader(Count(7), num_workers=workers, **options)
        return [b.tolist() for b in loader]

    assert read(batch_size=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert read(batch_size=3, drop_last=True) == [[0, 1, 2], [3, 4, 5]]
    assert read(batch_size=7) == [list(range(7))]
    assert list(DataLoader(Count(2), batch_size=None, num_workers=workers)) == [0, 1]
    assert len(DataLoader(Count(7), batch_size=3)) == 3
    assert len(DataLoader(Count(7), batch_size=None)) == 7


def test_workers_go_through_copies_in_turn():
    def read(data, **options):
        return [b.tolist() for b in DataLoader(data, batch_size=2, num_workers=2, **options)]

    assert read(Count(3)) == [[0, 1], [0, 1], [2], [2]]  # nobody said who reads what
    assert read(Count(7, shared=True)) == [[0, 2], [1, 3], [4, 6], [5]]
    data = Count(7)
    assert read(data, worker_init_fn=data_sets.take_share) == [[0, 2], [1, 3], [4, 6], [5]]
    assert (data.start, data.step) == (0, 1)  # what a worker changes is its own copy


def test_one_worker_may_have_much_more_than_another():
    class Uneven(Count):
        def __iter__(self):
            info = get_worker_info()
            return iter([(info.id, i) for i in range([1, 5, 3][info.id])])

    loader = DataLoader(Uneven(9), batch_size=None, num_workers=3)
    assert sorted(map(tuple, loader)) == [(0, 0), *((1, i) for i in range(5)),
                                          *((2, i) for i in range(3))]


# ---- threads
def test_workers_keep_the_order():
    data = Squares(24, delay=2e-4)
    loader = DataLoader(data, batch_size=2, num_workers=4)
    numbers = [n for x, _ in loader for n in x.tolist()]
    assert numbers == list(range(24))
    assert len(data.threads) > 1 and "MainThread" not in data.threads


def test_batches_as_they_come():
    class First(Squares):
        def __getitem__(self, i):
            time.sleep(0.2 if i == 0 else 0)
            return i

    loader = DataLoader(First(6), batch_size=1, num_workers=2, in_order=False)
    numbers = [x.item() for x in loader]
    assert sorted(numbers) == list(range(6)) and numbers[0] != 0


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_read_only_so_far_ahead(workers):
    seen = []

    class Noting(Squares):
        def __getitem__(self, i):
            seen.append(i)
            return i

    batches = iter(DataLoader(Noting(100), num_workers=workers, prefetch_factor=3))
    time.sleep(0.05)
    assert len(seen) == 3 * workers  # at once, before a batch was asked for
    next(batches)
    time.sleep(0.05)
    assert sorted(seen) == list(range(3 * workers + 1))
    batches.close()
    assert no_workers_left()


def test_leaving_and_dropping_a_loop_ends_its_threads():
    loader = DataLoader(Squares(100, 1e-5), num_workers=3)
    for _ in loader:
        break
    assert no_workers_left()
    batches = iter(loader)
    next(batches)
    del batches
    iter(loader)  # never asked for a batch
    assert no_workers_left()


def test_persistent_workers_are_the_same_threads():
    data = Squares(6)
    loader = DataLoader(data, num_workers=2, persistent_workers=True)
    first = [x.item() for x, _ in loader]
    threads = set(threading.enumerate())
    for _ in loader:
        break
    outer = [(x.item(), [y.item() for y, _ in loader]) for x, _ in loader]  # a loop in a loop
    assert outer == [(i, first) for i in range(6)]
    assert set(threading.enumerate()) == threads and not no_workers_left()
    del loader
    assert no_workers_left()


@pytest.mark.parametrize("workers", [0, 3])
def test_an_error_comes_out_in_its_turn_with_its_own_traceback(workers):
    loader = DataLoader(Failing(10, data_sets.key_error), batch_size=2, num_workers=workers)
    batches, got = iter(loader), []
    with pytest.raises(KeyError, match=r"sample 5.*is broken") as info:
        for x, _ in batches:
            got.append(x.tolist())
    assert got == [[0, 1], [2, 3]]
    assert "key_error" in [f.name for f in traceback.extract_tb(info.tb)]
    assert list(batches) == [] and no_workers_left()  # the loader has ended


def test_what_threads_draw_follows_from_the_seed():
    def draw():
        fw.manual_seed(11)
        return list(DataLoader(Draws(), collate_fn=data_sets.as_list, num_workers=2))

    first, second = draw(), draw()
    for (a,), (b,) in zip(first, second):
        assert a[:6] == b[:6] and a[2] == "thread"  # NumPy's and Python's own state are shared
    assert len({sample[3] for (sample,) in first}) == 8
    assert get_worker_info() is None


@pytest.mark.parametrize("method", [None, "spawn"])
@pytest.mark.parametrize("read", [0, 1, 3])
def test_what_workers_draw_depends_neither_on_their_number_nor_on_a_resume(read, method):
    """Thread workers draw fusewire's numbers and those of `rng`; processes also the global ones."""
    def loader(workers):
        return DataLoader(Draws(), 2, collate_fn=data_sets.as_list, num_workers=workers,
                          multiprocessing_context=method)

    def drawn(batches):
        return [sample[3 : 6 if method is None else 8] for batch in batches for sample in batch]

    fw.manual_seed(11)
    one = loader(1)
    whole = drawn(one)
    fw.manual_seed(11)
    first, resumed = loader(3), loader(2)
    batches = iter(first)
    part = drawn(next(batches) for _ in range(read))
    resumed.load_state_dict(first.state_dict())
    assert [*part, *drawn(resumed)] == whole
    assert len({sample[0] for sample in whole}) == 8


def test_threads_leave_the_default_generator_alone():
    fw.manual_seed(11)
    list(DataLoader(Squares(8), num_workers=2))
    wanted = fw.rand(2).tolist()
    fw.manual_seed(11)
    list(DataLoader(Draws(), collate_fn=data_sets.as_list, num_workers=2))
    assert fw.rand(2).tolist() == wanted


def test_threads_do_not_take_part_in_what_the_loop_does():
    with fw.no_grad():
        loader = DataLoader(Modes(), batch_size=None, num_workers=2)
        assert list(loader) == [[True, 2.0 * i] for i in range(4)]
    recording = fw.compile(lambda x: x.exp() * 2)
    for i, (x, _) in enumerate(DataLoader(numbered(8), batch_size=2, num_workers=2)):
        values = x.astype(fw.float32)
        assert np.allclose(recording(values).numpy(), 2 * np.exp(x.numpy()), rtol=1e-5), i
    assert recording.stats.recordings == 1


def test_a_loop_inside_of_a_compiled_function_runs_eagerly():
    loader = DataLoader(numbered(6), batch_size=3, num_workers=2)

    @fw.compile
    def total(w):
        return sum((w * x.sum() for x, _ in loader), fw.zeros(()))

    with pytest.warns(UserWarning, match="total"):
        for k in range(1, 4):
            assert total(fw.tensor(float(k))).item() == 15.0 * k


# ---- where the loop is
def batches_of(loader):
    return [x.tolist() for x, *_ in loader]


WAYS = {
    "plain": {"batch_size": 3},
    "shuffled": {"batch_size": 3, "shuffle": True},
    "drop_last": {"batch_size": 3, "shuffle": True, "drop_last": True},
    "samples": {"batch_size": None, "shuffle": True},
    "batch_sampler": {"batch_sampler": [[3, 1], [2], [0, 4], [5, 6]]},
    "own batches": {"batch_sampler": BatchSampler(SequentialSampler(range(20)), 3, False)},
}


@pytest.mark.parametrize("workers", [(0, 0), (2, 2), (0, 3), (2, 0)])
@pytest.mark.parametrize("way", WAYS)
def test_a_loop_goes_on_with_the_batches_that_were_left(way, workers):
    def loader(workers):
        options = {**WAYS[way], "generator": Generator(7)}
        return DataLoader(numbered(20), num_workers=workers, **options)

    first = loader(workers[0])
    for k in (0, 1, 3):
        batches = iter(first)
        for _ in range(k):
            next(batches)
        state = json.loads(json.dumps(first.state_dict()))
        left = [x.tolist() for x, *_ in batches]
        after = batches_of(first)
        fw.manual_seed(k)
        second = loader(workers[1])
        second.load_state_dict(state)
        assert second.state_dict() == state
        assert batches_of(second) == left and batches_of(second) == after
    assert len(left) == len(first) - 3


def test_a_state_taken_twice_and_at_the_end():
    loader = DataLoader(numbered(9), batch_size=2, num_workers=2, shuffle=True,
                        generator=Generator(7))
    second = DataLoader(numbered(9), batch_size=2, shuffle=True, generator=Generator(8))
    batches = iter(loader)
    next(batches)
    second.load_state_dict(loader.state_dict())
    again = iter(second)
    assert next(again)[0].tolist() == next(batches)[0].tolist()
    third = DataLoader(numbered(9), batch_size=2, shuffle=True, num_workers=3,
                       generator=Generator(9))
    third.load_state_dict(second.state_dict())
    assert batches_of(third) == [x.tolist() for x, _ in batches]
    third.load_state_dict(loader.state_dict())  # of a pass that is over: a new one begins
    assert batches_of(third) == batches_of(loader)


def test_order_of_the_default_generator_needs_its_state_for_later_passes():
    loader = DataLoader(numbered(9), batch_size=2, num_workers=2, shuffle=True)
    batches = iter(loader)
    next(batches)
    state, numbers = loader.state_dict(), fw.get_rng_state()
    wanted = [[x.tolist() for x, _ in batches], batches_of(loader)]
    loader.load_state_dict(state)
    fw.set_rng_state(numbers)
    assert [batches_of(loader), batches_of(loader)] == wanted


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_set_that_is_gone_through_is_gone_through_again(workers):
    def loader():
        return DataLoader(Count(11, shared=True), batch_size=2, num_workers=workers)

    first, second = loader(), loader()
    batches = iter(first)
    next(batches), next(batches)
    second.load_state_dict(first.state_dict())
    again = iter(second)
    assert second.state_dict() == first.state_dict()
    assert [b.tolist() for b in again] == [b.tolist() for b in batches]
    assert len(list(second)) == 6


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_overtake_one_another_are_not_lost(workers):
    loader = DataLoader(Squares(20, 1e-3), batch_size=2, num_workers=2, in_order=False)
    batches = iter(loader)
    had = [next(batches)[0].tolist() for _ in range(4)]
    other = DataLoader(Squares(20), batch_size=2, num_workers=workers)
    other.load_state_dict(loader.state_dict())
    batches.close()
    assert sorted(had + batches_of(other)) == [[i, i + 1] for i in range(0, 20, 2)]


def test_a_sampler_with_a_state_of_its_own_is_asked_for_it():
    class Backwards(Sampler):
        def __init__(self):
            self.at = 10

        def __iter__(self):
            while self.at:
                self.at -= 1
                yield self.at
            self.at = 10

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    first = DataLoader(numbered(), batch_size=2, num_workers=2, sampler=Backwards())
    second = DataLoader(numbered(), batch_size=2, num_workers=1, sampler=Backwards())
    batches = iter(first)
    next(batches)
    second.load_state_dict(first.state_dict())
    assert batches_of(second) == [[7, 6], [5, 4], [3, 2], [1, 0]]


def test_a_state_of_something_else():
    loader = DataLoader(numbered())
    with pytest.raises(StateError, match=r"lacks drained, ended, pending, sampler, seed, "
                                         r"yielded; it has the keys \['epoch'\]"):
        loader.load_state_dict({"epoch": 1})


# ---- arguments
def test_choices_that_contradict_one_another():
    data = Squares(4)
    for options in ({"shuffle": True, "sampler": SequentialSampler(data)},
                    {"batch_sampler": [[0]], "batch_size": 2},
                    {"batch_size": None, "drop_last": True},
                    {"num_workers": -1}, {"timeout": -1},
                    {"prefetch_factor": 2}, {"num_workers": 1, "prefetch_factor": 0},
                    {"persistent_workers": True}, {"multiprocessing_context": "spawn"}):
        with pytest.raises(ArgumentError, match="DataLoader: "):
            DataLoader(data, **options)
    with pytest.raises(ArgumentError, match="an order of its own"):
        DataLoader(Count(3), shuffle=True)
    with pytest.raises(ArgumentError, match="batch_size must be a whole number above 0, got 0"):
        DataLoader(Count(3), batch_size=0)
    DataLoader(data, pin_memory=True, pin_memory_device="cuda")  # means nothing here


def test_a_sampler_that_fails_ends_the_workers():
    class Broken(Sampler):
        def __iter__(self):
            yield 0
            raise KeyError("no more")

    for persistent in (False, True):
        loader = DataLoader(Squares(4), sampler=Broken(), num_workers=2,
                            persistent_workers=persistent)
        with pytest.raises(KeyError, match="no more"):
            iter(loader)
        assert no_workers_left()
