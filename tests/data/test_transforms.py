"""Transforms of batches of images are those of torchvision, follow from a seed, and compile."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.data import transforms
from fusewire.data.transforms.rand_augment import OPERATIONS, apply_chosen

SEEDS = range(3)


def images(seed: int = 0, size: tuple[int, int] = (12, 15), count: int = 5) -> fw.Tensor:
    """Images of 256 levels, of which the first is grey and the second of one colour."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (count, 3, *size)).astype(np.float32)
    pixels[0] = pixels[0, :1]
    pixels[1] = np.array([0, 128, 255]).reshape(3, 1, 1)
    return fw.asarray(pixels / np.float32(255))


def sounds(seed: int = 0) -> fw.Tensor:
    return fw.asarray(np.random.default_rng(seed).normal(size=(3, 1600)).astype(np.float32))


RANDOM: dict[str, Callable[[fw.Generator], Any]] = {
    "random_crop": lambda g: transforms.random_crop(images(), (12, 13), 2, generator=g),
    "random_horizontal_flip": lambda g: transforms.random_horizontal_flip(images(), generator=g),
    "colour_jitter": lambda g: transforms.colour_jitter(images(), 0.4, 0.4, 0.4, 0.2, generator=g),
    "rand_augment": lambda g: transforms.rand_augment(images(), generator=g),
    "mixup": lambda g: transforms.mixup(images(), fw.arange(5), 6, generator=g)[0],
    "cutmix": lambda g: transforms.cutmix(images(), fw.arange(5), 6, generator=g)[1],
    "spec_augment": lambda g: transforms.spec_augment(fw.ones(4, 20, 30), 2, 6, 2, 9, generator=g),
}


@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_decides(name: str) -> None:
    first, again, other = (RANDOM[name](fw.Generator(seed)).numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


COMPILED: dict[str, Callable[[Any, fw.Generator], Any]] = {
    "random_crop": lambda x, g: transforms.random_crop(x, (12, 13), 2, generator=g),
    "random_horizontal_flip": lambda x, g: transforms.random_horizontal_flip(x, generator=g),
    "resize": lambda x, g: transforms.resize(x, (6, 7)),
    "normalize": lambda x, g: transforms.normalize(x, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
    "colour_jitter": lambda x, g: transforms.colour_jitter(x, 0.4, 0.4, 0.4, 0.2, generator=g),
    "rand_augment": lambda x, g: transforms.rand_augment(x, generator=g),
    "mixup": lambda x, g: transforms.mixup(x, fw.arange(5), 6, generator=g),
    "cutmix": lambda x, g: transforms.cutmix(x, fw.arange(5), 6, generator=g),
    "mel_spectrogram": lambda x, g: transforms.mel_spectrogram(
        x.reshape(3, -1), 8000, n_fft=64, hop_length=32, n_mels=12),
    "spec_augment": lambda x, g: transforms.spec_augment(x[:, 0], 2, 4, 2, 5, generator=g),
}


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_step_changes_batches_as_eager_does(name: str) -> None:
    """Without a graph break, by one recording, with new random numbers in each call."""
    change = COMPILED[name]
    step = fw.compile(change, fullgraph=True)
    ours, theirs = fw.Generator(3), fw.Generator(3)
    for seed in range(4):
        actual, expected = step(images(seed), ours), change(images(seed), theirs)
        pairs = zip(actual, expected) if isinstance(actual, tuple) else [(actual, expected)]
        for x, y in pairs:
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-4, atol=1e-5)
    assert step.stats.recordings == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crop_is_a_part_of_its_own_padded_image(seed: int) -> None:
    source = images(seed)
    parts = transforms.random_crop(source, (10, 9), 2, generator=fw.Generator(seed)).numpy()
    padded = np.pad(source.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)))
    for part, image in zip(parts, padded):
        places = [(i, j) for i in range(7) for j in range(11)
                  if np.array_equal(image[:, i:i + 10, j:j + 9], part)]
        assert places


def test_every_place_of_a_crop_is_drawn_equally_often() -> None:
    whole = fw.arange(9).reshape(1, 1, 3, 3).broadcast_to((9000, 1, 3, 3))
    drawn = np.bincount(transforms.random_crop(whole, (1, 1)).numpy().reshape(-1), minlength=9)
    assert np.abs(drawn - 1000).max() < 150


def test_about_half_of_the_images_are_mirrored() -> None:
    source = fw.arange(2).reshape(1, 1, 1, 2).broadcast_to((1000, 1, 1, 2))
    mirrored = transforms.random_horizontal_flip(source)[:, 0, 0, 0].sum().item()
    assert 430 < mirrored < 570


@pytest.mark.parametrize("seed", SEEDS)
def test_mixup_mixes_targets_as_images(seed: int) -> None:
    """Images of one value, their class, show the shares."""
    classes = fw.arange(6)
    source = classes.astype(fw.float32).reshape(-1, 1, 1, 1).broadcast_to((6, 1, 2, 2))
    mixed, shares = transforms.mixup(source, classes, 6, 1.0, fw.Generator(seed))
    expected = (shares * classes).sum(axis=1).numpy()
    np.testing.assert_allclose(mixed[:, 0, 0, 0].numpy(), expected, atol=1e-5)
    assert (shares.numpy() > 0).sum(axis=1).max() == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_cutmix_gives_targets_the_shares_of_pixels(seed: int) -> None:
    classes = fw.arange(6)
    source = classes.reshape(-1, 1, 1, 1).broadcast_to((6, 1, 7, 5))
    mixed, shares = transforms.cutmix(source, classes, 6, 1.0, fw.Generator(seed))
    for image, share in zip(mixed.numpy(), shares.numpy()):
        counted = np.bincount(image.reshape(-1), minlength=6) / image.size
        np.testing.assert_allclose(counted, share, atol=1e-6)


def torchvision() -> Any:
    """The library; the tests that compare with it are skipped where it is not installed."""
    for name in ("torch", "torchvision"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"no {name}")
    from parity.torchvision_ops import torchvision as library

    importlib.import_module("torchvision.transforms.functional")
    return library


def theirs(name: str, *args: Any, **options: Any) -> Callable[[fw.Tensor], Any]:
    """A function of torchvision for a batch of ours, as an array."""
    torch = pytest.importorskip("torch")
    functional = torchvision().transforms.functional
    return lambda x: getattr(functional, name)(torch.tensor(x.numpy()), *args, **options).numpy()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("ours", "name"), [
    (transforms.brightness, "adjust_brightness"), (transforms.contrast, "adjust_contrast"),
    (transforms.saturation, "adjust_saturation"), (transforms.sharpness, "adjust_sharpness")])
@pytest.mark.parametrize("factor", [0.0, 0.4, 1.7])
def test_colours_are_those_of_torchvision(ours: Any, name: str, factor: float, seed: int) -> None:
    x = images(seed)
    expected = theirs(name, factor)(x)
    np.testing.assert_allclose(ours(x, factor).numpy(), expected, atol=1e-6)
    each = ours(x, fw.tensor([1.0, factor, 1.0, factor, factor])).numpy()
    np.testing.assert_allclose(each[[1, 3, 4]], expected[[1, 3, 4]], atol=1e-6)
    np.testing.assert_allclose(each[[0, 2]], x.numpy()[[0, 2]], atol=1e-6)


@pytest.mark.parametrize("shift", [-0.5, -0.13, 0.0, 0.3])
def test_hues_are_those_of_torchvision(shift: float) -> None:
    x = images()
    np.testing.assert_allclose(transforms.hue(x, shift).numpy(), theirs("adjust_hue", shift)(x),
                               atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_levels_are_those_of_torchvision(seed: int) -> None:
    """Which computes posterize and equalize on bytes."""
    x = images(seed)
    np.testing.assert_allclose(transforms.autocontrast(x).numpy(), theirs("autocontrast")(x),
                               atol=1e-6)
    np.testing.assert_allclose(transforms.solarize(x, 0.5).numpy(), theirs("solarize", 0.5)(x))
    levels = (x * 255).round().astype(fw.uint8)
    for ours, expected in ((transforms.equalize(x), theirs("equalize")(levels)),
                           (transforms.posterize(x, 3), theirs("posterize", 3)(levels))):
        np.testing.assert_array_equal((ours * 255).round().numpy(), expected)


def test_equalize_of_many_pixels() -> None:
    """With more pixels than levels, so that steps are above 1; and a plane of two levels."""
    x = images(7, (40, 40))
    x = x * x
    x = fw.concat([x, (x > 0.3).astype(fw.float32)])
    levels = (x * 255).round().astype(fw.uint8)
    np.testing.assert_array_equal((transforms.equalize(x) * 255).round().numpy(),
                                  theirs("equalize")(levels))


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(5, 8), (20, 31), (12, 15)])
def test_sizes_are_those_of_torchvision(size: tuple[int, int], antialias: bool) -> None:
    x = images()
    expected = theirs("resize", list(size), antialias=antialias)(x)
    np.testing.assert_allclose(transforms.resize(x, size, antialias).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(("degrees", "shift", "shear"), [
    (30, (0, 0), (0, 0)), (-77, (2, -3), (0, 0)), (0, (1.5, 2), (0, 0)), (0, (0, 0), (20, 0)),
    (0, (0, 0), (0, -15)), (40, (3, 1), (10, 0))])
def test_turns_are_those_of_torchvision(degrees: float, shift: Any, shear: Any) -> None:
    """Which turns clockwise in `affine`, and takes shears as angles of the other direction."""
    modes = torchvision().transforms.InterpolationMode
    x = images()
    expected = theirs("affine", -degrees, list(shift), 1.0, [-s for s in shear],
                      interpolation=modes.BILINEAR)(x)
    tangents = [float(np.tan(np.radians(s))) for s in shear]
    np.testing.assert_allclose(transforms.affine(x, degrees, shift, tangents).numpy(), expected,
                               atol=1e-4)


@pytest.mark.parametrize("size", [0.5, 1.0])
def test_each_image_takes_the_operation_that_is_drawn_for_it(size: float) -> None:
    source = images(0, count=3)[2:].broadcast_to((len(OPERATIONS), 3, 12, 15))
    strength = fw.full((len(OPERATIONS),), size)
    changed = apply_chosen(source, fw.arange(len(OPERATIONS)), strength)
    one = source[:1]
    expected = {"identity": one, "rotate": transforms.affine(one, 30 * size),
                "shear_x": transforms.affine(one, shear=(0.3 * size, 0.0)),
                "shift_y": transforms.affine(one, shift=(0.0, size * 150 / 331 * 12)),
                "brightness": transforms.brightness(one, 1 + 0.9 * size),
                "colour": transforms.saturation(one, 1 + 0.9 * size),
                "sharpness": transforms.sharpness(one, 1 + 0.9 * size),
                "posterize": transforms.posterize(one, 8 - 4 * size),
                "solarize": transforms.solarize(one, 1 - size),
                "autocontrast": transforms.autocontrast(one), "equalize": transforms.equalize(one)}
    for name, image in expected.items():
        np.testing.assert_allclose(changed[OPERATIONS.index(name)].numpy(), image[0].numpy(),
                                   atol=1e-5, err_msg=name)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
@pytest.mark.parametrize("norm", [None, "slaney"])
@pytest.mark.parametrize(("rate", "mels", "low", "high"), [(16000, 80, 0, None),
                                                           (22050, 40, 20, 8000)])
def test_mel_frequencies_are_those_of_transformers(scale: str, norm: str | None, rate: int,
                                                   mels: int, low: float, high: Any) -> None:
    audio = pytest.importorskip("transformers.audio_utils")
    expected = audio.mel_filter_bank(201, mels, low, high or rate / 2, rate, norm, scale)
    actual = transforms.mel_filters(201, mels, rate, low, high, scale, norm)
    np.testing.assert_allclose(actual.numpy().T, expected, atol=1e-10)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_spectrograms_are_those_of_transformers(power: float) -> None:
    audio = pytest.importorskip("transformers.audio_utils")
    filters = audio.mel_filter_bank(101, 30, 0.0, 8000.0, 16000, None, "htk")
    sound = sounds()
    actual = transforms.mel_spectrogram(sound, 16000, 200, 80, 30, power=power).numpy()
    for one, result in zip(sound.numpy(), actual):
        expected = audio.spectrogram(one.astype(np.float64), audio.window_function(200, "hann"),
                                     200, 80, power=power, mel_filters=filters, mel_floor=0.0)
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=1e-3)


def test_masks_are_whole_bands_of_at_most_their_width() -> None:
    masked = transforms.spec_augment(fw.ones(200, 20, 30), 1, 6, 1, 9, value=-1.0).numpy() == -1
    rows, columns = masked.all(axis=2), masked.all(axis=1)
    np.testing.assert_array_equal(masked, rows[:, :, None] | columns[:, None, :])
    assert set(rows.sum(axis=1)) == set(range(7)) and set(columns.sum(axis=1)) == set(range(10))
    assert all(np.diff(np.flatnonzero(band)).max(initial=1) == 1 for band in rows)


def test_batches_that_do_not_fit_are_errors() -> None:
    with pytest.raises(fw.ShapeError, match="a part \\(9, 9\\) does not fit"):
        transforms.random_crop(fw.zeros(1, 3, 8, 8), (9, 9))
    with pytest.raises(fw.DTypeError, match=r"(?s)images are floats.*to_float"):
        transforms.colour_jitter(fw.zeros(1, 3, 8, 8, dtype=fw.uint8))
    with pytest.raises(fw.ShapeError, match=r"\(3, 8, 8\)"):
        transforms.random_horizontal_flip(fw.zeros(3, 8, 8))
    with pytest.raises(fw.ArgumentError, match="alpha=0"):
        transforms.mixup(fw.zeros(1, 3, 8, 8), fw.zeros(1, dtype=fw.int64), 2, alpha=0)
    with pytest.raises(fw.ShapeError, match="2 means and 3 deviations"):
        transforms.normalize(fw.zeros(1, 3, 8, 8), [0, 0], [1, 1, 1])
