"""Saves and loads adapters in the format of PEFT: adapter_config.json and safetensors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ....arrays.devices import host
from ....core.tensor import Tensor, from_numpy
from ....errors import StateError
from ....files import safetensors_file
from ....files.atomic_files import replacing
from ...base.module import Module
from ...base.parameter import Parameter
from .adapters import Adapter
from .model import adapted, attach, listed, need_adapted, new_adapter, possible, tree

__all__ = ["load", "save"]

M = TypeVar("M", bound=Module)
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."  # of all names in files

# What each key of a config may say besides nothing (null, false, empty), and _ANY.
_ANY: tuple[Any, ...] = ()
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",), "bias": ("none",),
    # The others change the base as they start, so that the file does not fit the one here.
    "init_lora_weights": (True, "gaussian", "eva", "orthogonal"),
    **dict.fromkeys(("r", "lora_alpha", "lora_dropout", "use_rslora", "rank_pattern",
                     "alpha_pattern", "target_modules", "exclude_modules", "layers_to_transform",
                     "layers_pattern", "fan_in_fan_out"), _ANY),
    # These are notes, or arguments of features that other keys turn on.
    **dict.fromkeys(("auto_mapping", "base_model_name_or_path", "revision", "task_type",
                     "inference_mode", "peft_version", "megatron_core", "qalora_group_size",
                     "eva_config", "ensure_weight_tying"), _ANY),
}


# ---- saving
def save(model: Module, folder: str | os.PathLike[str]) -> None:
    """Writes the adapters of `model` to a folder, in the format of PEFT.

    Args:
        model: a model with adapters.
        folder: is made if it does not exist; gets adapter_config.json and
            adapter_model.safetensors.

    Raises:
        StateError: the model has no adapters, or the format cannot describe them: it has one
            dropout and one rslora for all.

    Example:
        >>> import fusewire as fw, os, tempfile
        >>> model = fw.nn.utils.lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), 2, targets="0")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fw.nn.utils.lora.save(model, folder)
        ...     sorted(os.listdir(folder))
        ['adapter_config.json', 'adapter_model.safetensors']
    """
    layers = dict(need_adapted("save", model))
    config, path = _config(model, layers), Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.asarray(host(p._data)) for name, p in _named(layers).items()}
    with replacing(os.path.realpath(path / WEIGHTS)) as file:
        safetensors_file.write(file, arrays, {"format": "pt"})
    with replacing(os.path.realpath(path / CONFIG)) as file:
        Path(file).write_text(json.dumps(config, indent=2, sort_keys=True), encoding="utf-8")


def _config(model: Module, layers: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of adapter_config.json."""
    adapters: dict[str, Adapter] = {path: layer.lora for path, layer in layers.items()}
    first = next(iter(adapters.values()))
    for name in ("dropout", "rslora"):
        values = {getattr(adapter, name) for adapter in adapters.values()}
        if len(values) > 1:
            raise StateError(f"lora.save: the adapters have several values of {name}: "
                             f"{sorted(values)}", "the format has one for all: add them with one")
    return {
        "peft_type": "LORA", "r": first.rank, "lora_alpha": first.alpha,
        "rank_pattern": {re.escape(p): a.rank for p, a in adapters.items() if a.rank != first.rank},
        "alpha_pattern": {re.escape(p): a.alpha for p, a in adapters.items()
                          if a.alpha != first.alpha},
        "lora_dropout": first.dropout, "use_rslora": first.rslora, "bias": "none",
        "fan_in_fan_out": any(a.transposed for a in adapters.values()),
        "target_modules": _targets(model, adapters), "init_lora_weights": True,
        "inference_mode": False, "modules_to_save": None, "task_type": None,
        "base_model_name_or_path": None,
    }


def _targets(model: Module, adapters: Mapping[str, Adapter]) -> list[str] | str:
    """The last parts of names if they mean these layers and no others, or a regular expression."""
    last = sorted({path.rpartition(".")[2] for path in adapters})
    meant = {path for path, _ in model.named_modules() if _is_target(path, last)}
    return last if meant == set(adapters) else "|".join(map(re.escape, adapters))


def _named(layers: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of adapters by their names in files."""
    return {f"{_PREFIX}{path}.{name}": p for path, layer in layers.items()
            for name, p in zip(layer.lora.NAMES, (layer.lora.A, layer.lora.B))}


# ---- loading
def load(model: M, folder: str | os.PathLike[str]) -> M:
    """`model` with the adapters of a folder in the format of PEFT, and otherwise frozen.

    Args:
        model: the model that the adapters were trained for, without adapters; changed in place.
        folder: holds adapter_config.json and adapter_model.safetensors.

    Raises:
        StateError: a file is absent, the config asks for what is not implemented, a name or a shape
            does not fit the model, or the model has adapters.

    Example:
        >>> import fusewire as fw, tempfile
        >>> lora = fw.nn.utils.lora
        >>> model = lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), rank=2, targets="0")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lora.save(model, folder)
        ...     other = lora.load(fw.nn.Sequential(fw.nn.Linear(6, 4)), folder)
        >>> fw.all(other[0].lora.A == model[0].lora.A).item()
        True
    """
    if adapted(model):
        raise StateError("lora.load: the model has adapters already",
                         "call lora.merge or lora.remove first")
    path = Path(folder)
    config, tensors = _read_config(path), _read_tensors(path)
    layers = _layers_of(model, config, tensors)
    new = {name: _adapter(name, layer, config) for name, layer in layers.items()}
    named = {f"{_PREFIX}{name}.{in_file}": p for name, adapter in new.items()
             for in_file, p in zip(adapter.NAMES, (adapter.A, adapter.B))}
    tree(named).load_state_dict(_without_base(model, tensors))
    attach(model, new)
    return model


def _read_config(folder: Path) -> dict[str, Any]:
    file = _existing(folder, CONFIG)
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for key, value in config.items():
        allowed = _SUPPORTED.get(key)
        if value and allowed is not _ANY and (allowed is None or value not in allowed):
            raise StateError(f"{file}: {key}={value!r} is not implemented",
                             "train plain LoRA adapters, or merge them in PEFT and load the model")
    missing = {"peft_type", "r", "lora_alpha"} - config.keys()
    if missing:
        raise StateError(f"{file} does not say {', '.join(sorted(missing))}",
                         "pass a folder that PEFT or lora.save wrote")
    return config


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    file = str(_existing(folder, WEIGHTS))
    arrays, _ = safetensors_file.read(file, file)
    return {name: from_numpy(array) for name, array in arrays.items()}


def _existing(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        held = ", ".join(sorted(os.listdir(folder))) if folder.is_dir() else "no files"
        raise StateError(f"{folder} has no {name}, but {held}",
                         "pass the folder of adapters; files of pickles (.bin) are not read")
    return folder / name


def _layers_of(model: Module, config: Mapping[str, Any], tensors: Mapping[str, Any]
               ) -> dict[str, Module]:
    """The layers of the model that the names in a file and the targets of its config mean."""
    layers, marks = possible(model), (".lora_A.", ".lora_B.", ".lora_embedding_")
    named = {name.removeprefix(_PREFIX).partition(mark)[0] for name in tensors
             for mark in marks if mark in name}
    if not all(config.get(key) is None for key in ("layers_to_transform", "layers_pattern")):
        wanted = named  # they select among the targets
    else:
        wanted = named | {path for path in layers if _is_target(path, config.get("target_modules"))
                          and not _is_target(path, config.get("exclude_modules"))}
    absent = sorted(wanted - layers.keys())
    if absent or not wanted:
        raise StateError(f"lora.load: the model has no layer {', '.join(absent) or 'of the file'}",
                         f"load the model that the adapters were trained for; here, adapters "
                         f"may be at {listed(layers)}")
    return {path: layer for path, layer in layers.items() if path in wanted}


def _is_target(path: str, targets: str | Sequence[str] | None) -> bool:
    """True if PEFT means the layer by `targets`: names or their ends, or a regular expression."""
    if isinstance(targets, str):
        return re.fullmatch(targets, path) is not None
    return any(path == t or path.endswith(f".{t}") for t in targets or ())


def _adapter(path: str, layer: Module, config: Mapping[str, Any]) -> Adapter:
    return new_adapter(layer, _of_layer(path, config, "rank_pattern", "r"),
                       _of_layer(path, config, "alpha_pattern", "lora_alpha"),
                       config.get("lora_dropout") or 0.0, bool(config.get("use_rslora")))


def _of_layer(path: str, config: Mapping[str, Any], patterns: str, otherwise: str) -> Any:
    """The value of the first pattern that the end of a name fits."""
    for pattern, value in (config.get(patterns) or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", path):
            return value
    return config[otherwise]


def _without_base(model: Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of adapters; PEFT may add weights of embeddings, which must be the model's."""
    own, kept = model.state_dict(), dict[str, Tensor]()
    for name, value in tensors.items():
        base = own.get(name.removeprefix(_PREFIX).replace(".base_layer.", "."))
        if base is None or not name.startswith(_PREFIX):
            kept[name] = value
        elif base.shape != value.shape or not bool((base == value.to(base.device)).all()):
            raise StateError(f"lora.load: the file holds {name} with other values than the model",
                             "load the model that the adapters were trained with")
    return kept
