"""The model classes by the name of their architecture in a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .config import ConfigError
from .pretrained_model import PretrainedModel

ARCHITECTURES: dict[str, tuple[str, str]] = {
    "BertModel": ("text.bert", "Bert"),
    "CLIPModel": ("multimodal.clip", "CLIP"),
    "DetrForObjectDetection": ("vision.detr", "Detr"),
    "DistilBertModel": ("text.distilbert", "DistilBert"),
    "GPT2LMHeadModel": ("text.gpt2", "GPT2"),
    "LlamaForCausalLM": ("text.llama", "Llama"),
    "MistralForCausalLM": ("text.llama", "Mistral"),
    "MixtralForCausalLM": ("text.llama", "Mixtral"),
    "Qwen2ForCausalLM": ("text.llama", "Qwen2"),
    "Qwen3ForCausalLM": ("text.llama", "Qwen3"),
    "RobertaModel": ("text.bert", "Roberta"),
    "T5ForConditionalGeneration": ("text.t5", "T5"),
    "WhisperForConditionalGeneration": ("audio.whisper", "Whisper"),
}
"""An architecture -> the module of this package and the class in it."""

DEFAULTS = {
    "bert": "BertModel", "clip": "CLIPModel", "detr": "DetrForObjectDetection",
    "distilbert": "DistilBertModel",
    "roberta": "RobertaModel", "t5": "T5ForConditionalGeneration",
    "whisper": "WhisperForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
}
"""The architecture of a `model_type`, for configs that name none that is implemented."""


def model_class(values: Mapping[str, Any]) -> type[PretrainedModel]:
    """The class of the model that a config.json describes.

    ConfigError if it is not among ARCHITECTURES.
    """
    named = list(values.get("architectures") or ())
    names = [name for name in named if name in ARCHITECTURES]
    name = names[0] if names else DEFAULTS.get(values.get("model_type", ""))
    if name is None:
        raise ConfigError(
            f"architectures={named!r} of model_type={values.get('model_type')!r} is not "
            "implemented",
            f"fusewire.models has {', '.join(sorted(ARCHITECTURES))}")
    module, cls = ARCHITECTURES[name]
    return getattr(import_module(f"{__package__}.{module}"), cls)  # type: ignore[no-any-return]
