"""Language models by OpenAI's client: texts beside others are those of one text alone."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import small_tokenizers

import fusewire as fw
from fusewire import models
from fusewire.serving import Embedder, Generator, running

LLAMA = {"model_type": "llama", "vocab_size": 400, "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
GPT2 = {"model_type": "gpt2", "vocab_size": 400, "n_positions": 64, "n_embd": 32, "n_layer": 2,
        "n_head": 4}
BERT = {"model_type": "bert", "vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 40}
PROMPTS = ["Get useful information", "def", "déjà vu, 漢字 🙂", "a " * 30, "module", "x"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for number, (name, config) in enumerate((("llama", LLAMA), ("gpt2", GPT2), ("bert", BERT))):
        fw.manual_seed(number)
        folder = tmp_path_factory.mktemp(name)
        models.save_pretrained(models.from_config(config), folder, config)
        made[name] = small_tokenizers.save(small_tokenizers.byte_level(), folder)
    return made


@pytest.fixture(scope="module")
def parts(folders: dict[str, Path]) -> dict[str, Any]:
    return {name: (models.from_pretrained(folder), models.load_tokenizer(folder))
            for name, folder in folders.items()}


@pytest.fixture(scope="module")
def server(parts: dict[str, Any]) -> Iterator[Any]:
    served = {"llama": Generator(*parts["llama"], slots=4, context=128, page=32, queue=40),
              "gpt2": Generator(*parts["gpt2"], slots=3, page=16),
              "bert": Embedder(*parts["bert"], lengths=(16, 32), max_batch=2)}
    with running(served) as started:
        yield started


@pytest.fixture
def client(server: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def expected(parts: dict[str, Any], name: str, prompt: str, count: int) -> str:
    """The greedy continuation by `fusewire.models`, one text alone."""
    model, tokenizer = parts[name]
    return models.generate_text(model, tokenizer, [prompt], max_new_tokens=count)[0]


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["llama", "gpt2", "bert"]
    assert client.models.retrieve("gpt2").owned_by == "fusewire"


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_texts_beside_others_are_those_of_one_text_alone(
        client: openai.OpenAI, server: Any, parts: dict[str, Any], name: str) -> None:
    engine = server.generators[name].engine
    steps, made, results = engine.steps_done, engine.generated, {}

    def ask(prompt: str) -> None:
        results[prompt] = client.completions.create(
            model=name, prompt=prompt, max_tokens=12, temperature=0).choices[0].text

    prompts = [prompt[:40] for prompt in PROMPTS]
    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {p: expected(parts, name, p, 12) for p in prompts}
    assert engine.steps_done - steps < engine.generated - made  # several texts a step


def test_no_request_records(client: openai.OpenAI, server: Any) -> None:
    before = server.generators["llama"].recordings
    for prompt in ("a", "a b c " * 15, "a", "a b " * 7, "a b c " * 20):
        client.completions.create(model="llama", prompt=prompt, max_tokens=3)
    assert server.generators["llama"].recordings == before


@pytest.mark.parametrize("extra", [
    {}, {"top_p": 0.7}, {"presence_penalty": 1.0, "frequency_penalty": 0.5},
    {"logit_bias": {"7": 5, "9": -100}}, {"extra_body": {"top_k": 3, "min_p": 0.01}}])
def test_a_seed_gives_the_same_text_beside_any_others(client: openai.OpenAI, extra: Any) -> None:
    def ask(n: int) -> list[str]:
        answer = client.completions.create(model="llama", prompt="Get", max_tokens=15, seed=5,
                                           temperature=0.9, n=n, **extra)
        return [choice.text for choice in answer.choices]

    alone = ask(1)
    assert ask(4)[:1] == alone == ask(2)[:1]
    assert len(set(ask(4))) > 1  # the others have seeds of their own


def test_usage_and_lengths(client: openai.OpenAI, parts: dict[str, Any]) -> None:
    answer = client.completions.create(model="llama", prompt=["Get", "module x"], max_tokens=5,
                                       temperature=0, n=2, echo=True)
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    assert answer.choices[0].text == answer.choices[1].text and \
        answer.choices[0].text.startswith("Get")
    tokenizer = parts["llama"][1]
    count = len(tokenizer.encode("Get")) + len(tokenizer.encode("module x"))
    usage = answer.usage
    assert usage is not None and usage.prompt_tokens == count
    assert usage.completion_tokens == sum(c.finish_reason == "length" for c in answer.choices) * 5


def test_a_text_ends_before_a_stop_string(client: openai.OpenAI, parts: dict[str, Any]) -> None:
    whole = expected(parts, "llama", "Get useful", 30)
    stop = whole[10:13]
    answer = client.completions.create(model="llama", prompt="Get useful", max_tokens=30,
                                       temperature=0, stop=[stop, "never there"])
    assert answer.choices[0].text == whole[:whole.find(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_a_stream_has_whole_characters_and_the_same_text(client: openai.OpenAI) -> None:
    bias = {str(t): 10.0 for t in range(100, 250)}  # bytes of characters of several bytes
    asked: Any = {"model": "llama", "prompt": "漢字", "max_tokens": 40, "seed": 3,
                  "temperature": 1.5, "logit_bias": bias}
    whole = client.completions.create(**asked)
    chunks = list(client.completions.create(**asked, stream=True,
                                            stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks[:-1]) == whole.choices[0].text
    assert chunks[-1].usage == whole.usage and chunks[-2].choices[0].finish_reason == "length"


def test_a_chat(client: openai.OpenAI, parts: dict[str, Any]) -> None:
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    answer = client.chat.completions.create(model="llama", messages=messages, temperature=0,
                                            max_completion_tokens=8, logprobs=True, top_logprobs=2)
    model, tokenizer = parts["llama"]
    wanted = models.generate_text(model, tokenizer, [[{"role": "user", "content": "Hello"}]], 8)
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", wanted[0])
    assert choice.logprobs is not None and choice.logprobs.content is not None
    for entry in choice.logprobs.content:
        assert entry.top_logprobs[0].logprob == entry.logprob <= 0  # greedy: the likeliest one
    chunks = list(client.chat.completions.create(
        model="llama", messages=messages, temperature=0, max_completion_tokens=8, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == wanted[0]


def test_embeddings(client: openai.OpenAI, parts: dict[str, Any]) -> None:
    texts = ["Get useful", "module", "a b c d e f g h"]
    for form in ("float", "base64"):
        answer = client.embeddings.create(
            model="bert", input=texts, encoding_format=form)  # type: ignore[arg-type]
        got = np.array([np.frombuffer(base64.b64decode(d.embedding), np.float32)
                        if isinstance(d.embedding, str) else d.embedding for d in answer.data])
        model, tokenizer = parts["bert"]
        for vector, text in zip(got, texts):
            features = model(fw.tensor([tokenizer.encode(text)]))[0].mean(1)[0].detach().numpy()
            np.testing.assert_allclose(vector, features / np.linalg.norm(features), atol=1e-5)
    with pytest.raises(openai.BadRequestError, match="makes no embeddings"):
        client.embeddings.create(model="gpt2", input="a")


CHAT = {"model": "llama", "messages": [{"role": "user", "content": "Hi"}]}
TEXT = {"model": "llama", "prompt": "Hi"}
BAD: list[tuple[str, Any, str]] = [
    ("completions", {**TEXT, "model": "none"}, "there is no model"),
    ("completions", {"model": "llama"}, "prompt is None"),
    ("completions", {**TEXT, "prompt": []}, "prompt is []"),
    ("completions", {**TEXT, "prompt": [5000]}, "token 5000 is not among the 400"),
    ("completions", {**TEXT, "prompt": "a " * 500}, "room for 128"),
    ("completions", {**TEXT, "max_tokens": 500}, "room for 128"),
    ("completions", {**TEXT, "max_tokens": 0}, "max_tokens is 0"),
    ("completions", {**TEXT, "temperature": 3}, "temperature is 3"),
    ("completions", {**TEXT, "top_p": "a"}, "top_p is 'a'"),
    ("completions", {**TEXT, "n": 99}, "n is 99"),
    ("completions", {**TEXT, "stop": ["a"] * 9}, "stop is"),
    ("completions", {**TEXT, "logit_bias": {"x": 1}}, "logit_bias is"),
    ("completions", {**TEXT, "logit_bias": {"999": 1}}, "token 999"),
    ("completions", {**TEXT, "suffix": "b"}, "suffix is not supported"),
    ("completions", {**TEXT, "stream": "yes"}, "stream is 'yes'"),
    ("chat/completions", {**CHAT, "messages": []}, "messages is []"),
    ("chat/completions", {**CHAT, "messages": [{"role": "user", "content": 7}]}, "has to be text"),
    ("chat/completions", {**CHAT, "tools": [{}]}, "tools is not supported"),
    ("chat/completions", {**CHAT, "response_format": {"type": "json_object"}}, "not supported"),
    ("chat/completions", {**CHAT, "messages": [{"role": "system", "content": "a"}]},
     "a user begins"),
    ("embeddings", {"model": "bert", "input": "a " * 99}, "takes 1 to 32"),
    ("embeddings", {"model": "bert", "input": 5}, "input is 5"),
    ("embeddings", {"model": "bert", "input": [1, 1 << 200]}, "is not among the 400"),
    ("embeddings", {"model": "bert", "input": [-1]}, "token -1 is not among the 400"),
    ("completions", {**TEXT, "prompt": [[1], [1 << 40]], "echo": True}, "is not among the 400"),
    ("embeddings", {"model": "bert", "input": "a\ud800"}, "half of a pair of surrogates"),
    ("completions", {**TEXT, "prompt": ["a", "\ud800"]}, "half of a pair of surrogates"),
    ("chat/completions", {**CHAT, "messages": [{"role": "user", "content": "\udfff"}]},
     "half of a pair of surrogates"),
    ("embeddings", [], "has to be an object")]


@pytest.mark.parametrize(("path", "body", "reason"), BAD)
def test_bad_requests_are_answered_with_the_reason(http: httpx.Client, path: str, body: Any,
                                                   reason: str) -> None:
    answer = http.post(f"/v1/{path}", content=json.dumps(body))
    assert answer.status_code in (400, 404) and reason in answer.json()["error"]["message"]


def test_a_client_that_leaves_frees_its_slot(http: httpx.Client, server: Any) -> None:
    engine = server.generators["llama"].engine
    asked = {**TEXT, "max_tokens": 120, "stream": True, "logit_bias": {"1": -100}}
    for _ in range(8):  # more than slots
        with http.stream("POST", "/v1/completions", json=asked) as answer:
            next(answer.iter_lines())
    for _ in range(200):
        if engine.pending == 0:
            break
        time.sleep(0.02)
    assert engine.pending == 0


def test_a_full_queue_refuses_and_goes_on(http: httpx.Client) -> None:
    many = {**TEXT, "max_tokens": 2, "n": 16, "prompt": ["a", "b", "c"]}  # 48 texts
    answer = http.post("/v1/completions", json=many)
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    assert "of 40 at most" in answer.json()["error"]["message"]
    assert http.post("/v1/completions", json=TEXT).status_code == 200


def test_texts_are_answered_in_their_order(http: httpx.Client, server: Any) -> None:
    order: list[str] = []
    generator = server.generators["gpt2"]
    join = generator.steps.join
    generator.steps.join = lambda slot, *text: (order.append("in"), join(slot, *text))
    asked = {**TEXT, "model": "gpt2", "max_tokens": 4, "n": 9, "stream": True, "temperature": 0}
    with http.stream("POST", "/v1/completions", json=asked) as answer:
        ends = [event["choices"][0]["index"] for line in answer.iter_lines()
                if line.startswith("data: {") and
                (event := json.loads(line[6:]))["choices"][0]["finish_reason"]]
    generator.steps.join = join
    assert len(order) == 9 and ends == sorted(ends)


def test_metrics_count_tokens(http: httpx.Client) -> None:
    page = http.get("/metrics").text
    assert 'fusewire_generated_tokens{model="llama"}' in page
    assert 'fusewire_pending_texts{model="gpt2"} 0.0' in page
