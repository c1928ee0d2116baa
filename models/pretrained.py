"""Makes models from folders of published checkpoints."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fusewire as fw

from .checkpoint import load_weights, read_weights
from .config import ConfigError
from .few_bits import convert_layers
from .gguf import read_gguf
from .pretrained_model import PretrainedModel
from .registry import model_class


def from_pretrained(folder: str | os.PathLike[str], dtype: Any = None) -> PretrainedModel:
    """The model of a folder or of a GGUF file, with its weights, in eval mode.

    Nothing is downloaded: `huggingface_hub.snapshot_download` returns such a folder.

    Args:
        folder: holds config.json and safetensors, in one file or in several with an index; or the
            path of a GGUF file.
        dtype: of the parameters. Default None: as they are stored.

    Raises:
        ConfigError: config.json is absent, or describes a model that is not implemented.
        StateError: there are no weights, or a name or shape does not match the model.

    Example:
        >>> from fusewire import models
        >>> model = models.from_pretrained("gpt2")  # doctest: +SKIP
        >>> model(tokens).shape  # doctest: +SKIP
        (1, 5, 50257)
    """
    path = Path(folder)
    if path.suffix == ".gguf":
        values, weights = read_gguf(path)
    else:
        values, weights = read_config(path), read_weights(path)
    cls = model_class(values)
    model = cls.empty(cls.CONFIG.from_dict(values))
    if "quantization_config" in values:
        weights = convert_layers(model, weights, values["quantization_config"])
    load_weights(model, weights, dtype)
    return model.eval()


def from_config(values: dict[str, Any] | str | os.PathLike[str]) -> PretrainedModel:
    """The model that a config describes, with random weights.

    Args:
        values: the contents of a config.json, or the folder that holds it.
    """
    if not isinstance(values, dict):
        values = read_config(Path(values))
    return model_class(values).from_config(values)


def read_config(folder: Path) -> dict[str, Any]:
    """The contents of the config.json of a folder."""
    file = folder / "config.json"
    if not file.exists():
        raise ConfigError(f"{folder} has no config.json",
                          "pass the folder of a checkpoint, not a file or the name of a repository")
    values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return values


def save_pretrained(model: PretrainedModel, folder: str | os.PathLike[str],
                    values: dict[str, Any]) -> None:
    """Writes config.json and model.safetensors, which `from_pretrained` reads.

    Tied parameters are written once.

    Args:
        model: the model.
        folder: is made if it does not exist.
        values: the contents of config.json.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    tied = model.tied_names()
    state = {name: x for name, x in model.state_dict().items() if name not in tied}
    fw.save(state, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(values, indent=2), encoding="utf-8")
