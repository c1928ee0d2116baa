"""Reads models from GGUF files, the format of llama.cpp, by the package `gguf`.

Weights in few bits become float32, since all layers compute with floats.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import fusewire as fw

from .config import ConfigError

_LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_CONFIG = {
    "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta",
    "attention.sliding_window": "sliding_window",
}
_MODEL_TYPES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "mistral": "mistral"}
_IGNORED = ("rope_freqs",)  # tables that are computed from the config


class GGUF(NamedTuple):
    """The contents of a file: those of a config.json, and the weights by Hugging Face's names."""

    values: dict[str, Any]
    weights: dict[str, fw.Tensor]


def read_gguf(file: str | os.PathLike[str]) -> GGUF:
    """The config and the weights of a GGUF file.

    Raises:
        ConfigError: the architecture is not implemented.
        StateError: the package `gguf` is not installed, or the file is not of this format.
    """
    package = _package()
    try:
        reader = package.GGUFReader(file)
    except (ValueError, IndexError) as error:
        raise fw.StateError(f"{os.fspath(file)} is not a GGUF file: {error}",
                            "get another copy") from None
    architecture = reader.fields["general.architecture"].contents()
    if architecture not in _MODEL_TYPES:
        raise ConfigError(f"the architecture {architecture!r} of a GGUF file is not implemented",
                          f"the architectures are {', '.join(_MODEL_TYPES)}")
    values = _values(reader, architecture)
    weights = {}
    for tensor in reader.tensors:
        name = _name(tensor.name)
        if name is not None:
            array = package.dequantize(tensor.data, tensor.tensor_type)
            weights[name] = _unpermuted(name, fw.tensor(array), values, architecture)
    values["tie_word_embeddings"] = "lm_head.weight" not in weights
    values["vocab_size"] = weights["model.embed_tokens.weight"].shape[0]
    return GGUF(values, weights)


def _package() -> Any:
    try:
        import gguf
    except ImportError:
        raise fw.StateError("GGUF files need the package gguf",
                            'pip install "fusewire[gguf]"') from None
    return gguf


def _values(reader: Any, architecture: str) -> dict[str, Any]:
    """The contents of a config.json with the hyperparameters of a file."""
    values: dict[str, Any] = {"model_type": _MODEL_TYPES[architecture]}
    for key, name in _CONFIG.items():
        field = reader.fields.get(f"{architecture}.{key}")
        if field is not None:
            values[name] = field.contents()
    scaling = reader.fields.get(f"{architecture}.rope.scaling.type")
    if scaling is not None and scaling.contents() != "none":
        raise ConfigError(f"rope.scaling.type={scaling.contents()!r} of a GGUF file is not "
                          "implemented", "load the checkpoint in safetensors")
    return values


def _name(name: str) -> str | None:
    """Hugging Face's name of a tensor, None for one that is computed."""
    parts = name.split(".")
    if parts[0] in _IGNORED:
        return None
    if parts[0] == "blk" and parts[2] in _LAYER:
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.{parts[3]}"
    if parts[0] in _OUTSIDE:
        return f"{_OUTSIDE[parts[0]]}.{parts[1]}"
    return name  # loading names it as unexpected


def _unpermuted(name: str, weight: fw.Tensor, values: dict[str, Any], architecture: str
                ) -> fw.Tensor:
    """A weight whose rows have the sequence of Hugging Face.

    The two features that are rotated as a pair are neighbours in files of the architecture "llama",
    and half a head apart there.
    """
    heads = _ROTATED.get(name.split(".")[-2])
    if architecture != "llama" or heads is None:
        return weight
    n = heads(values)
    return weight.reshape(n, weight.shape[0] // n // 2, 2, -1).permute_dims((0, 2, 1, 3)) \
        .reshape(weight.shape)


_ROTATED: dict[str, Callable[[dict[str, Any]], int]] = {
    "q_proj": lambda values: values["num_attention_heads"],
    "k_proj": lambda values: values.get("num_key_value_heads", values["num_attention_heads"]),
}
