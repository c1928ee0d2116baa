"""Decoding steps of other libraries, for `benchmarks.decoding`.

Each function returns the seconds of the prefill, and a step for one token of each text, or raises
ImportError where the library is not installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Step = Callable[[], Any]
_PRECISIONS = {"float32": "fp32", "int4": "int4"}  # of the builder, on a processor
_SEED = 0


def _of_transformers(config: dict[str, Any]) -> Any:
    """The model of transformers with random weights."""
    import torch
    import transformers as hf

    torch.manual_seed(_SEED)
    values = {k: v for k, v in config.items() if k != "model_type"}
    return hf.AutoModelForCausalLM.from_config(
        hf.AutoConfig.for_model(config["model_type"], **values)).eval()


def transformers(config: dict[str, Any], precision: str, ids: Any, compiled: bool
                 ) -> tuple[float, Step]:
    """transformers, perhaps on torch.compile."""
    import torch

    model = _of_transformers(config).to(getattr(torch, precision))
    run = torch.compile(model.forward) if compiled else model.forward
    state: dict[str, Any] = {}

    @torch.inference_mode()
    def forward(tokens: Any) -> None:
        out = run(input_ids=tokens, past_key_values=state.get("cache"), use_cache=True,
                  logits_to_keep=1)
        state["cache"], state["next"] = out.past_key_values, out.logits[:, -1:].argmax(-1)

    forward(torch.tensor(ids))
    state.clear()
    began = time.perf_counter()
    forward(torch.tensor(ids))
    return time.perf_counter() - began, lambda: forward(state["next"])


def onnxruntime_genai(folder: Path, ids: Any, most: int) -> tuple[float, Step]:
    """onnxruntime-genai, on a model that `built` has written."""
    import onnxruntime_genai as og

    model = og.Model(str(folder))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=ids.shape[1] + most, min_length=ids.shape[1] + most,
                              batch_size=len(ids), do_sample=False)
    generator = og.Generator(model, params)
    began = time.perf_counter()
    generator.append_tokens(ids.astype(np.int32))
    generator.generate_next_token()
    return time.perf_counter() - began, generator.generate_next_token


def _builder() -> Path:
    """The program that writes models of onnxruntime-genai. It imports files beside it."""
    import onnxruntime_genai

    return Path(onnxruntime_genai.__file__).parent / "models" / "builder.py"


def _save_tokenizer(folder: Path) -> None:
    """Writes a tokenizer of one token: the builder copies one."""
    import tokenizers
    import transformers as hf

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0}, "<unk>"))
    hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(folder)


def built(config: dict[str, Any], precision: str, root: Path) -> Path:
    """The folder of a model of onnxruntime-genai with random weights, below `root`."""
    source, target = root / "transformers", root / precision
    if not target.exists():
        if not source.exists():
            _of_transformers(config).save_pretrained(source)
            _save_tokenizer(source)
        options = ["--extra_options", "int4_block_size=64", "int4_accuracy_level=4"] \
            if precision == "int4" else []
        subprocess.run([sys.executable, str(_builder()), "-i", str(source), "-o", str(target),
                        "-p", _PRECISIONS[precision], "-e", "cpu", "-c",
                        tempfile.gettempdir(), *options], check=True,
                       stdout=subprocess.DEVNULL)
    return target
