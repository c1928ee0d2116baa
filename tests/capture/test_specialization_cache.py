"""The cache of compiled code and plans, against a model of it that is slow and plain."""

from __future__ import annotations

import gc
import os
import random
import threading
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.capture.runtime import specialization_cache
from fusewire.capture.runtime.specialization_cache import (
    POLICIES,
    Policy,
    Specializations,
    costlier_after,
    every_cache,
)


def cache_of(policy: Policy, making: Any = None) -> Specializations[Any]:
    cache: Specializations[Any] = Specializations("eager programs", making)
    cache.policy = policy
    return cache


@pytest.mark.parametrize("limit", [1, 2, 3, 16, 63])
@pytest.mark.parametrize("seed", range(8))
def test_the_least_recently_used_value_makes_room(limit: int, seed: int) -> None:
    rng, cache = random.Random(seed), cache_of(Policy(limit))
    model: dict[int, int] = {}  # the least recently used one first
    for _ in range(600):
        key = int(rng.triangular(0, 2 * limit + 2, 0))
        if rng.random() < 0.2:
            assert cache.find(key) == model.get(key)
        else:
            assert cache.get(key, lambda key=key: -key) == -key
            model.setdefault(key, -key)
        if key in model:
            model[key] = model.pop(key)
        if len(model) > limit:
            del model[next(iter(model))]
        assert dict(cache.items()) == model


def test_a_large_cache_makes_room_for_several_values_at_once() -> None:
    cache = cache_of(Policy(640))
    for key in range(640):
        cache.add(key, key)
    for key in range(0, 20, 2):
        cache.find(key)
    cache.add(640, 640)
    assert len(cache) == 631 and cache.evicted == 10
    assert [key for key in range(20) if key not in cache] == list(range(1, 20, 2))


def test_another_rank_decides_what_makes_room() -> None:
    cache = cache_of(Policy(3, rank=lambda cached: cached.value))
    for value in (5, 1, 9, 7):
        cache.add(value, value)
        cache.find(1)
    assert sorted(cache.values()) == [5, 7, 9]


def test_a_value_is_made_once_its_key_is_requested_often_enough() -> None:
    """Of each group alone, and by a count of requests that lookups do not change."""
    cache, made = cache_of(Policy(100, lambda made: 1 + made)), {"a": 0, "b": 0}
    for n in range(8):
        for group in made:
            requests = 1
            while cache.get((group, n), lambda: True, group) is None:
                assert cache.find((group, n)) is None
                requests += 1
            assert requests == 1 + made[group]
            made[group] += 1
    assert cache.made == made


def test_the_first_request_of_a_key_decides_whether_it_gets_a_value() -> None:
    """By the work of that request: later ones, with any work, get the same."""
    cache = cache_of(Policy(1000, least_work=costlier_after(2)))
    assert [cache.get(key, lambda: True, "a", 0.0) for key in range(4)] == [True, True, None, None]
    assert [cache.get(key, lambda: True, "a", 1e9) for key in range(4)] == [True, True, None, None]
    assert cache.get("long", lambda: True, "a", 1e6) is True
    assert cache.get("another group", lambda: True, "b", 0.0) is True


def test_the_least_work_doubles_with_the_number_of_values() -> None:
    least = costlier_after(32)
    assert [least(made) for made in (0, 31, 32, 96, 160)] == [0, 0, 1e6, 2e6, 4e6]


def test_requests_of_few_keys_are_counted() -> None:
    """A limit of 1: of 17 keys in turn, none is ever counted a second time."""
    cache = cache_of(Policy(1, lambda made: 2))
    for _ in range(3):
        assert [cache.get(key, lambda: True) for key in range(17)] == [None] * 17
    assert [cache.get(key, lambda: True) for key in (0, 0)] == [None, True]


def test_a_key_whose_value_made_room_is_counted_anew() -> None:
    cache = cache_of(Policy(1, lambda made: 2))
    found = [cache.get(key, lambda: True) for key in "aabbaa"]
    assert found == [None, True] * 3 and cache.evicted == 2


def test_none_is_a_value() -> None:
    cache, missing = cache_of(Policy(4)), object()
    assert cache.find("x", missing) is missing and cache.add("x", None) is None
    assert cache.find("x", missing) is None and cache.get("x", lambda: 1) is None


def test_an_error_leaves_no_value() -> None:
    cache = cache_of(Policy(4), threading.RLock())
    with pytest.raises(ZeroDivisionError):
        cache.get("x", lambda: 1 // 0)
    assert "x" not in cache and cache.get("x", lambda: 1) == 1


def test_hits_and_misses_are_counted() -> None:
    cache = cache_of(Policy(4))
    for key in "aabac":
        cache.get(key, str)
    cache.find("a"), cache.find("z")
    assert (cache.hits, cache.misses, cache.added, len(cache)) == (3, 4, 3, 3)


@pytest.mark.parametrize("making", [None, threading.RLock()], ids=["no lock", "a lock"])
def test_threads_share_values(making: Any) -> None:
    """Each thread gets the first value of a key; with a lock, values are made once."""
    cache, made = cache_of(Policy(50), making), []
    start, wrong = threading.Barrier(6), []

    def make(key: int) -> tuple[int]:
        made.append(key)
        return (key,)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        start.wait()
        for _ in range(3000):
            key = rng.randrange(80)
            if cache.get(key, lambda key=key: make(key)) != (key,) or len(cache) > 50:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong and len(cache) <= 50
    if making is not None:
        assert len(made) == cache.added == len(cache) + cache.evicted


def test_a_value_is_the_first_one_that_was_added() -> None:
    cache, inner = cache_of(Policy(4)), []

    def make() -> str:
        inner.append(cache.add("x", "of another thread"))
        return "too late"

    assert cache.get("x", make) == "of another thread"


def test_values_are_freed_outside_of_the_lock() -> None:
    """A value that takes a lock when it is freed, which a thread holds that adds a value."""
    lock, cache, freed = threading.Lock(), cache_of(Policy(1)), []

    class Value:
        def __del__(self) -> None:
            with lock:
                freed.append(True)

    cache.add(0, Value())
    with lock:
        adding = threading.Thread(target=lambda: cache.add(1, None))
        adding.start()
        while not cache.evicted:
            pass
        assert cache_of(Policy(4)).add("x", 1) == 1  # would wait for ever
    adding.join()
    assert freed == [True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_while_threads_add_values_leaves_a_cache_that_works() -> None:
    cache, done = cache_of(Policy(8)), False

    def work() -> None:
        n = 0
        while not done:
            n += 1
            cache.add(n, n)

    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                ok = len(cache) <= 8 and cache.add("child", 1) == 1 and cache.find("child") == 1
                os._exit(0 if ok else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done = True
        [t.join() for t in threads]


# ---- all caches
def test_caches_are_listed_until_they_are_gone() -> None:
    before = len(every_cache())
    cache = cache_of(Policy(4))
    assert cache in every_cache() and len(every_cache()) == before + 1
    del cache
    gc.collect()
    assert len(every_cache()) == before


def test_every_policy_has_a_cache_in_use() -> None:
    """A graph with a graph break, one of any size, and a backward have caches of their own."""
    f = fw.compile(lambda x: fw.exp(x).sum(), dynamic=True)
    for n in (3, 4, 4):
        f(fw.ones(n).requires_grad_()).backward()
    of_gpus = {"eager GPU programs", "CUDA graphs", "CUDA modules", "fastest kernels"}
    assert set(POLICIES) - {row["name"] for row in fw.caches().rows()} <= of_gpus
    assert all(row["values"] <= row["limit"] * row["caches"] for row in fw.caches().rows())


def test_clearing_all_caches_changes_no_result() -> None:
    f = fw.compile(lambda x: (fw.exp(x) * 2.5).sum(axis=0), dynamic=True)
    inputs = [fw.linspace(0, 1, n * 8).reshape(n, 8) for n in (2, 3, 3, 5)]
    eager = fw.linspace(-1, 1, 1 << 18)
    before = [*[f(x).numpy() for x in inputs], fw.exp(eager).numpy()]
    fw.clear_caches()
    assert all(row["values"] == 0 for row in fw.caches().rows())
    after = [*[f(x).numpy() for x in inputs], fw.exp(eager).numpy()]
    for a, b in zip(after, before):  # a first call runs op by op, which rounds otherwise
        np.testing.assert_allclose(a, b, 1e-6)


def test_the_list_is_a_table() -> None:
    text = str(fw.caches()).splitlines()
    assert text[0] == "caches of compiled code and plans"
    assert text[1].split() == ["name", "caches", "values", "limit", "hits", "misses", "evicted"]


def test_a_name_without_a_policy_is_an_error() -> None:
    with pytest.raises(KeyError):
        specialization_cache.Specializations("no such cache")
