"""Makes served models from files: ONNX models, saved programs, Python files."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fusewire as fw

from .. import models
from .model import Model
from .sources import Sizes
from .text.embedder import Embedder
from .text.generator import Generator

_SETTINGS = {"max_batch": int, "buckets": list, "sizes": dict, "outputs": list, "delay": float,
             "queue": int, "timeout": float, "check_rows": bool}


@dataclass(frozen=True)
class Settings:
    """How the models of a server are made.

    Args:
        model: arguments of `Model`, such as `max_batch`.
        sizes: numbers of the named sizes of ONNX models.
        text: arguments of `Generator`, such as `slots`.
        runs_code: False refuses files whose code would run: Python files and saved programs.
    """

    model: Mapping[str, Any] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)
    runs_code: bool = True


def load(path: Path, settings: Settings) -> Model | Generator | Embedder:
    """The model of a file, not loaded yet.

    Args:
        path: `*.onnx`, `*.py` with a function `load()`, a file of `compiled.save`, or a folder of
            `fusewire.models`.
        settings: how.

    Raises:
        ArgumentError: there is no such file, it is of no known kind, or its code must not run.
    """
    if not path.exists():
        raise fw.ArgumentError(f"there is no {path}", "name a file or a folder")
    if path.suffix == ".onnx":
        return Model(fw.onnx.load(path), sizes=settings.sizes, **settings.model)
    if path.is_dir() and (path / "config.json").exists():
        return _language_model(path, settings)
    if path.is_dir():
        raise fw.ArgumentError(f"{path} is a folder without a config.json",
                               "pass a file, or --repository for a folder of models")
    if not settings.runs_code:
        raise fw.ArgumentError(f"{path.name} holds code, which a repository must not run",
                               "use an ONNX model, or --allow-code if you trust the folder")
    if path.suffix == ".py":
        return _made_by(path)
    return Model(fw.load_compiled(path), **settings.model)


def _language_model(path: Path, settings: Settings) -> Generator | Embedder:
    """What continues texts, or makes vectors of them."""
    model, tokenizer = models.from_pretrained(path), models.load_tokenizer(path)
    if hasattr(model, "new_cache"):
        return Generator(model, tokenizer, **settings.text)
    return Embedder(model, tokenizer)


def _made_by(path: Path) -> Model | Generator | Embedder:
    """What the function `load` of a Python file returns."""
    make = runpy.run_path(str(path)).get("load")
    if not callable(make):
        raise fw.ArgumentError(f"{path} has no function load()",
                               "define one that returns a fusewire.serving.Model")
    made = make()
    if not isinstance(made, (Model, Generator, Embedder)):
        raise fw.ArgumentError(f"load() of {path} returns a {type(made).__name__}",
                               "return a Model, Generator or Embedder of fusewire.serving")
    return made


def checked(values: Any, where: str) -> dict[str, Any]:
    """The arguments of `Model` in the JSON of a file. ArgumentError names one that is wrong."""
    if not isinstance(values, dict):
        raise fw.ArgumentError(f"{where} is not a JSON object",
                               'write settings such as {"max_batch": 8}')
    for name, value in values.items():
        wanted = _SETTINGS.get(name)
        if wanted is None:
            raise fw.ArgumentError(f"{where} has the setting {name!r}",
                                   f"the settings are {', '.join(_SETTINGS)}")
        fits = type(value) in (int, float) if wanted is float else type(value) is wanted
        if not fits:
            raise fw.ArgumentError(f"{name} in {where} is {value!r:.60}",
                                   f"it has to be of type {wanted.__name__}")
    return values
