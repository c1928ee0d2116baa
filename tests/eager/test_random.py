"""Random numbers: a pure function of seed, counter and place."""

from __future__ import annotations

import numpy as np
import pytest
from rows.create import philox

import fusewire as fw
from fusewire.eager.arrays import cpu_kernels
from fusewire.eager.core.dispatch import apply
from fusewire.eager.core.op import OPS
from fusewire.eager.errors import FusewireError
from fusewire.eager.ops.random.generator import Generator, fork_rng, randperm
from fusewire.eager.ops.random.philox import blocks


@pytest.mark.parametrize(("block", "counter", "seed", "words"), [  # known answers of Random123
    (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (2 ** 64 - 1, 2 ** 64 - 1, 2 ** 64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (0x85A308D3243F6A88, 0x0370734413198A2E, 0x299F31D0A4093822,
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
])
def test_philox_gives_the_papers_numbers(block: int, counter: int, seed: int, words: str) -> None:
    expected = [int(w, 16) for w in words.split()]
    assert philox(block, counter, seed) == expected
    positions = np.array([block], np.uint64).view(np.int64)
    assert blocks(cpu_kernels, seed, counter, positions)[:, 0].tolist() == expected


def test_the_same_seed_gives_the_same_numbers() -> None:
    def draws() -> list[object]:
        return [fw.rand(3).tolist(), fw.randn(2).tolist(), fw.randint(9, size=4).tolist(),
                randperm(5).tolist()]

    fw.manual_seed(1)
    first = draws()
    fw.manual_seed(1)
    assert draws() == first
    fw.manual_seed(2)
    assert draws() != first


@pytest.mark.parametrize("seed", [0, -1, 2 ** 63, 2 ** 64 - 1, -2 ** 63, np.int32(5)])
def test_any_whole_seed(seed: int) -> None:
    assert 0 <= fw.rand(1, generator=Generator(seed)).item() < 1


def test_seeds_are_taken_by_their_lowest_64_bits() -> None:
    one, other = (fw.rand(4, generator=Generator(s)).tolist() for s in (-1, 2 ** 64 - 1))
    assert one == other


def test_every_call_moves_the_counter_on() -> None:
    g = Generator(0)
    assert fw.rand(3, generator=g).tolist() != fw.rand(3, generator=g).tolist()
    assert g.get_state().tolist() == [0, 2]


def test_a_state_can_be_kept_and_gone_back_to() -> None:
    g = Generator(5)
    fw.rand(2, generator=g)
    state = g.get_state()
    first = fw.rand(2, generator=g).tolist()
    g.set_state(state)
    assert fw.rand(2, generator=g).tolist() == first
    with pytest.raises(FusewireError, match="takes a state"):
        g.set_state(fw.zeros(3))


def test_fork_leaves_the_default_generator_as_it_was() -> None:
    fw.manual_seed(0)
    with fork_rng():
        inside = fw.rand(2).tolist()
    assert fw.rand(2).tolist() == inside


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rand_is_even_from_0_to_below_1(dtype: str) -> None:
    x = fw.rand(100_000, dtype=dtype, generator=Generator(0)).numpy()
    assert x.dtype == dtype and x.min() >= 0 and x.max() < 1
    counts = np.histogram(x.astype(float), 10, (0, 1))[0]
    assert abs(counts - 10_000).max() < 400  # 4 standard deviations


def test_randn_is_normal() -> None:
    x = fw.randn(100_000, generator=Generator(0)).numpy()
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02
    assert abs((x < -1).mean() - 0.1587) < 0.005


def test_randint_stays_in_its_limits() -> None:
    x = fw.randint(-2, 3, size=(50, 20), generator=Generator(0))
    assert (x.dtype, x.shape, set(x.numpy().ravel())) == (fw.int64, (50, 20), {-2, -1, 0, 1, 2})
    with pytest.raises(FusewireError, match="no whole numbers from 3 to below 3"):
        fw.randint(3, 3)


def test_randperm_is_a_permutation() -> None:
    assert sorted(randperm(100, Generator(0)).tolist()) == list(range(100))


def test_prefixes_agree() -> None:
    """Element i does not depend on the size of the result."""
    long, short = (fw.rand(n, generator=Generator(3)).numpy() for n in (1000, 70))
    np.testing.assert_array_equal(long[:70], short)


def test_an_op_can_leave_out_the_first_numbers() -> None:
    state = fw.Generator(2).get_state()
    for op, params in [("uniform", {"dtype": fw.float64}),
                       ("randint", {"dtype": fw.int64, "low": 3, "count": 1 << 50})]:
        whole, rest = (apply(OPS[op], (state, *before), {"shape": (n,), **params})
                       for n, before in [(300, ()), (108, (fw.tensor([3]),))])
        assert rest.tolist() == whole[192:].tolist()


@pytest.mark.parametrize("seed", [1.5, "a", None])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(FusewireError, match="a seed is a whole number"):
        fw.manual_seed(seed)

GOLDEN = {
    "rand": [0.4310784339904785, 0.9882805943489075, 0.6941791772842407, 0.7337064743041992],
    "randn": [-0.7073544859886169, 1.9197901487350464, 0.49874696135520935],
    "randint": [835, 22, 69, 413], "randperm": [3, 0, 1, 2, 4],
    "float64": [0.2968382808110469, 0.8918728632997811],
    "split": [7447136882827052337, 9952722313650893580],
}  # of seed 2026


def test_numbers_of_a_seed_stay_what_they_are() -> None:
    """Golden numbers: a change here breaks every experiment that somebody wants to repeat."""
    g = Generator(2026)
    assert fw.rand(4, generator=g).tolist() == GOLDEN["rand"]
    np.testing.assert_allclose(fw.randn(3, generator=g).numpy(), GOLDEN["randn"], rtol=1e-6)
    assert fw.randint(0, 1000, (4,), generator=g).tolist() == GOLDEN["randint"]
    assert fw.randperm(5, generator=g).tolist() == GOLDEN["randperm"]
    assert fw.rand(2, dtype=fw.float64, generator=g).tolist() == GOLDEN["float64"]
    assert [x.initial_seed() for x in g.split(2)] == GOLDEN["split"]


def test_wide_numbers_begin_as_narrow_ones_do() -> None:
    narrow, wide = (fw.rand(9, dtype=t, generator=Generator(1)).numpy() for t in ("f4", "f8"))
    np.testing.assert_allclose(wide, narrow, atol=2.0 ** -24)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_likes_take_shape_and_dtype(dtype: str) -> None:
    x = fw.zeros(200, 5, dtype=dtype)
    for like in (fw.rand_like, fw.randn_like):
        assert (like(x).shape, like(x).dtype) == (x.shape, x.dtype)
        assert like(x, dtype=fw.float64).dtype == fw.float64
    assert (fw.rand_like(x) < 1).all()
    assert fw.randint_like(x, 3).shape == x.shape


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                                   "uint64"])
def test_randint_over_a_whole_dtype(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = fw.randint(limits.min, limits.max + 1, (4000,), dtype=dtype, generator=Generator(0))
    assert x.dtype == dtype
    shares = (x.numpy().astype(float) - limits.min) / (float(limits.max) - limits.min)
    assert abs(np.histogram(shares, 10, (0, 1))[0] - 400).max() < 80  # 4 standard deviations


def test_ranges_that_no_float_holds_are_drawn_evenly() -> None:
    """With 53 bits, the lowest bits of numbers up to 3 * 2**61 would all be 0."""
    x = fw.randint(3 * 2 ** 61, size=(4000,), generator=Generator(0)).numpy()
    for bit in range(4):
        assert abs((x >> bit & 1).mean() - 0.5) < 0.032
    assert abs((x // 2 ** 61 == 2).mean() - 1 / 3) < 0.03


def test_fork_restores_after_an_error() -> None:
    fw.manual_seed(0)
    before = fw.get_rng_state()
    with pytest.raises(ZeroDivisionError), fork_rng():
        fw.rand(3)
        _ = 1 / 0
    assert fw.get_rng_state().tolist() == before.tolist()
    with fork_rng(enabled=False):
        fw.rand(3)
    assert fw.get_rng_state().tolist() != before.tolist()
    fw.set_rng_state(before)
    assert fw.get_rng_state().tolist() == before.tolist()


def test_seeds_are_told() -> None:
    assert fw.manual_seed(-1).initial_seed() == 2 ** 64 - 1
    drawn = fw.seed()
    assert fw.initial_seed() == drawn and fw.seed() != drawn
    assert Generator(3).device == "cpu"
    assert repr(Generator(3)) == "Generator(seed=3, counter=0)"


def test_a_clone_goes_its_own_way() -> None:
    g = Generator(1)
    fw.rand(1, generator=g)
    copy = g.clone()
    first = fw.rand(3, generator=g).tolist()
    assert fw.rand(3, generator=copy).tolist() == first


def test_split_streams_differ() -> None:
    g = Generator(1)
    streams = [*g.split(3), *g.split(2), g]
    assert len({tuple(fw.rand(4, generator=s).tolist()) for s in streams}) == 6


def test_tensors_are_filled_in_place() -> None:
    x = fw.zeros(1000)
    assert x.uniform_(2, 3, generator=Generator(0)) is x
    assert 2 <= x.min().item() < x.max().item() < 3
    assert abs(x.normal_(5, 0.1).mean().item() - 5) < 0.05
    assert set(x.bernoulli_(0.5).tolist()) == {0.0, 1.0}
