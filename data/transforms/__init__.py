"""Changes batches by functions of tensors, which are random by a generator and compile."""

import sys

from ...eager.front import hints
from .colour import (
    brightness,
    colour_jitter,
    contrast,
    hue,
    normalize,
    saturation,
    sharpness,
    to_float,
)
from .geometry import affine, random_crop, random_horizontal_flip, resize
from .levels import autocontrast, equalize, posterize, solarize
from .mixing import cutmix, mixup
from .rand_augment import rand_augment
from .spectrogram import mel_filters, mel_spectrogram, spec_augment

__all__ = ["affine", "autocontrast", "brightness", "colour_jitter", "contrast", "cutmix",
           "equalize", "hue", "mel_filters", "mel_spectrogram", "mixup", "normalize", "posterize",
           "rand_augment", "random_crop", "random_horizontal_flip", "resize", "saturation",
           "sharpness", "solarize", "spec_augment", "to_float"]

hints.add("data.transforms", sys.modules[__name__])
