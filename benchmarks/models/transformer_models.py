"""Models of transformers: texts, images, sound, and pairs of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusewire as fw

from .catalogue import MODELS, Inputs, Model, floats, joined, tokens, with_weights

_NO_DROPOUT = ("attention_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob",
               "dropout", "dropout_rate", "resid_pdrop", "embd_pdrop", "attn_pdrop",
               "activation_dropout")


def _hf(model: str, config: str, **given: Any) -> Callable[[], Any]:
    """Makes the model of a config, without dropout, so that steps of training are comparable."""
    def make() -> Any:
        import transformers

        from . import torchvision_ops  # noqa: F401 (before transformers, which imports it)

        values = getattr(transformers, config)(**given)
        for name in _NO_DROPOUT:
            if hasattr(values, name):
                setattr(values, name, 0.0)
        values.use_cache = False
        return getattr(transformers, model)(values)

    return make


def _ours(module: Any) -> Any:
    config = {**module.config.to_dict(), "architectures": [type(module).__name__]}
    return with_weights(fw.models.from_config(config), module)


def _last(out: Any) -> Any:
    return out.last_hidden_state


def _logits(out: Any) -> Any:
    return out.logits


def _second(name: str, length: int) -> Callable[[int], Inputs]:
    """Token numbers under another name."""
    made = tokens(length, False)
    return lambda batch: {name: made(batch)["input_ids"]}


_SMALL = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 6,
          "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 16000,
          "max_position_embeddings": 512}

for _name, _model in {
    "bert_base": Model("text encoder", _hf("BertModel", "BertConfig"), tokens(128), _last, _ours,
                       True),
    "distilbert": Model("text encoder", _hf("DistilBertModel", "DistilBertConfig"), tokens(128),
                        _last, _ours, True),
    "minilm": Model("text encoder", _hf(
        "BertModel", "BertConfig", hidden_size=384, num_hidden_layers=6, intermediate_size=1536),
        tokens(64), _last),
    "roberta_base": Model("text encoder", _hf("RobertaModel", "RobertaConfig"), tokens(64), _last,
                          _ours),
    "albert_base": Model("text encoder", _hf(
        "AlbertModel", "AlbertConfig", hidden_size=768, num_attention_heads=12,
        intermediate_size=3072), tokens(128), _last),
    "electra_small": Model("text encoder", _hf("ElectraModel", "ElectraConfig"), tokens(128),
                           _last),
    "mpnet_base": Model("text encoder", _hf("MPNetModel", "MPNetConfig"), tokens(64), _last),
    "modernbert": Model("text encoder", _hf("ModernBertModel", "ModernBertConfig",
                                            num_hidden_layers=8), tokens(128), _last),
    "gpt2": Model("text decoder", _hf("GPT2LMHeadModel", "GPT2Config"), tokens(128, False), _logits,
                  _ours, True),
    "opt_125m": Model("text decoder", _hf("OPTForCausalLM", "OPTConfig"), tokens(64), _logits),
    "llama_small": Model("text decoder", _hf("LlamaForCausalLM", "LlamaConfig", **_SMALL),
                         tokens(128, False), _logits, _ours, True),
    "qwen3_small": Model("text decoder", _hf("Qwen3ForCausalLM", "Qwen3Config", **_SMALL,
                                             head_dim=64), tokens(128, False), _logits, _ours),
    "t5_small": Model("text pair", _hf("T5ForConditionalGeneration", "T5Config"), joined(
        tokens(128), _second("decoder_input_ids", 32)), _logits, _ours),
    "bart_base": Model("text pair", _hf(
        "BartModel", "BartConfig", d_model=768, encoder_layers=6, decoder_layers=6,
        encoder_ffn_dim=3072, decoder_ffn_dim=3072, encoder_attention_heads=12,
        decoder_attention_heads=12), joined(tokens(128), _second("decoder_input_ids", 32)), _last),
    "whisper_tiny": Model("sound", _hf(
        "WhisperForConditionalGeneration", "WhisperConfig", d_model=384, encoder_layers=4,
        decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536), joined(
            floats("input_features", 80, 3000), _second("decoder_input_ids", 16)), _logits, _ours),
    "wav2vec2_base": Model("sound", _hf("Wav2Vec2Model", "Wav2Vec2Config"),
                           floats("input_values", 16000), _last),
    "audio_spectrogram": Model("sound", _hf("ASTModel", "ASTConfig", num_hidden_layers=6,
                                            max_length=512), floats("input_values", 512, 128),
                               _last),
    "clip_vision": Model("image transformer", _hf("CLIPVisionModel", "CLIPVisionConfig"),
                         floats("pixel_values", 3, 224, 224), _last),
    "deit_small": Model("image transformer", _hf(
        "DeiTModel", "DeiTConfig", hidden_size=384, num_attention_heads=6, intermediate_size=1536),
        floats("pixel_values", 3, 224, 224), _last),
    "dinov2_small": Model("image transformer", _hf(
        "Dinov2Model", "Dinov2Config", hidden_size=384, num_attention_heads=6),
        floats("pixel_values", 3, 224, 224), _last),
    "mobilevit_small": Model("image transformer", _hf("MobileViTModel", "MobileViTConfig"),
                             floats("pixel_values", 3, 256, 256), _last),
    "segformer_b0": Model("pixels", _hf("SegformerForSemanticSegmentation", "SegformerConfig"),
                          floats("pixel_values", 3, 256, 256), _logits),
    "depth_anything": Model("pixels", _hf("DPTForDepthEstimation", "DPTConfig",
                                          num_hidden_layers=12, hidden_size=384,
                                          num_attention_heads=6, intermediate_size=1536,
                                          is_hybrid=False),
                            floats("pixel_values", 3, 224, 224), lambda out: out.predicted_depth),
}.items():
    MODELS[_name] = _model
