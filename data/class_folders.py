"""Reads folders whose subfolders are classes: of images by Pillow, of sound by soundfile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.utils.data import Dataset

from .files import FileError, StrPath, damaged, existing, package


class ClassFolder(Dataset[tuple[fw.Tensor, int]]):
    """Base of data sets of files; a class is a subfolder, with files at any depth.

    Attributes:
        classes: names of the subfolders, sorted.
        files: the path and the class of each sample, sorted.

    Args:
        folder: has a subfolder for each class.
        endings: of the names of files that are read, such as ".png", in lower case.

    Raises:
        FileError: the folder is missing, or a class has no file.
    """

    def __init__(self, folder: StrPath, endings: tuple[str, ...]) -> None:
        root = existing(folder)
        self.classes = sorted(path.name for path in root.iterdir()
                              if path.is_dir() and not path.name.startswith("."))
        if not self.classes:
            raise FileError(f"{root} has no subfolders", "each class needs a folder of its own")
        self.files: list[tuple[Path, int]] = []
        for number, name in enumerate(self.classes):
            found = sorted(path for path in (root / name).rglob("*")
                           if path.suffix.lower() in endings)
            if not found:
                raise FileError(f"{root / name} has no file that ends in {', '.join(endings)}",
                                "remove the folder, or convert its files")
            self.files += [(path, number) for path in found]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[fw.Tensor, int]:
        path, number = self.files[index]
        return self.read(path), number

    def read(self, path: Path) -> fw.Tensor:
        """The sample in a file."""
        raise NotImplementedError(f"{type(self).__name__} does not define read")


class ImageFolder(ClassFolder):
    """Images of uint8 (channels, height, width) and their classes; extra `data`.

    Args:
        folder: has a subfolder for each class.
        size: height and width to which images are resized, so that they form batches. Default None:
            as they are.
        mode: of Pillow: "RGB" or "L". Default "RGB".
        endings: of the names of files that are read. Default those of JPEG, PNG and others.

    Raises:
        StateError: the package Pillow is not installed.
        FileError: the folder is missing, a class has no image; for a sample: it is damaged.

    Example:
        >>> import fusewire as fw
        >>> images = fw.data.ImageFolder("flowers", size=(64, 64))  # doctest: +SKIP
        >>> loader = fw.utils.data.DataLoader(images, 32, shuffle=True)  # doctest: +SKIP
    """

    ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".tif", ".tiff", ".webp")

    def __init__(self, folder: StrPath, size: tuple[int, int] | None = None, mode: str = "RGB",
                 endings: tuple[str, ...] = ENDINGS) -> None:
        package("PIL.Image", "images")
        self.size, self.mode = size, mode
        super().__init__(folder, endings)

    def read(self, path: Path) -> fw.Tensor:
        """The image in a file, uint8 (channels, height, width)."""
        return read_image(path, self.size, self.mode)


def read_image(path: StrPath, size: tuple[int, int] | None = None, mode: str = "RGB") -> fw.Tensor:
    """The image in a file, uint8 (channels, height, width), upright; extra `data`.

    Args:
        path: a file of any format that Pillow reads.
        size: height and width to which it is resized. Default None: as it is.
        mode: of Pillow: "RGB" or "L". Default "RGB".

    Raises:
        StateError: the package Pillow is not installed.
        FileError: the file is missing or damaged.

    Example:
        >>> import fusewire as fw
        >>> fw.data.read_image("flower.jpg").shape  # doctest: +SKIP
        (3, 480, 640)
    """
    library, found = package("PIL.Image", "images"), existing(path)
    try:
        with library.open(found) as file:
            image = package("PIL.ImageOps", "images").exif_transpose(file).convert(mode)
    except (OSError, ValueError, SyntaxError) as error:
        raise damaged(found, error) from error
    if size is not None:
        image = image.resize(size[::-1], library.Resampling.BILINEAR)
    pixels = np.array(image, np.uint8)
    return fw.asarray(pixels[None] if pixels.ndim == 2 else
                      np.ascontiguousarray(pixels.transpose(2, 0, 1)))


class SoundFolder(ClassFolder):
    """Sound, float32 (channels, samples), and its class; extra `data`.

    Args:
        folder: has a subfolder for each class.
        sample_rate: that every file must have, in samples in a second.
        samples: each sound is cut, or filled with zeros, to this length, so that sounds form
            batches. Default None: as they are.
        endings: of the names of files that are read. Default those of WAV, FLAC, Ogg and MP3.

    Raises:
        StateError: the package soundfile is not installed.
        FileError: the folder is missing, a class has no sound; for a sample: it is damaged, or has
            another sample rate.

    Example:
        >>> import fusewire as fw
        >>> sounds = fw.data.SoundFolder("words", 16000, samples=16000)  # doctest: +SKIP
    """

    ENDINGS = (".wav", ".flac", ".ogg", ".mp3")

    def __init__(self, folder: StrPath, sample_rate: int, samples: int | None = None,
                 endings: tuple[str, ...] = ENDINGS) -> None:
        package("soundfile", "files of sound")
        self.sample_rate, self.samples = sample_rate, samples
        super().__init__(folder, endings)

    def read(self, path: Path) -> fw.Tensor:
        """The sound in a file, float32 (channels, samples)."""
        sound, rate = read_sound(path)
        if rate != self.sample_rate:
            raise FileError(f"{path} has {rate} samples in a second, the data set "
                            f"{self.sample_rate}", "convert the file, or its folder")
        if self.samples is None:
            return sound
        sound = sound[:, :self.samples]
        missing = self.samples - sound.shape[1]
        return fw.concat([sound, fw.zeros(len(sound), missing)], axis=1) if missing else sound


def read_sound(path: StrPath) -> tuple[fw.Tensor, int]:
    """The sound in a file, float32 (channels, samples) from -1 to 1, and its sample rate.

    Args:
        path: a file of any format that soundfile reads; extra `data`.

    Raises:
        StateError: the package soundfile is not installed.
        FileError: the file is missing or damaged.

    Example:
        >>> import fusewire as fw
        >>> sound, sample_rate = fw.data.read_sound("word.wav")  # doctest: +SKIP
    """
    library: Any = package("soundfile", "files of sound")
    found = existing(path)
    try:
        sound, rate = library.read(str(found), dtype="float32", always_2d=True)
    except (RuntimeError, OSError) as error:
        raise damaged(found, error) from error
    return fw.asarray(np.ascontiguousarray(sound.T)), int(rate)
