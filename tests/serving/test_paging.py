"""The cache of a served language model: texts wait for room, and share equal beginnings."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import small_tokenizers

import fusewire as fw
from fusewire import models
from fusewire.serving import Generator, running

LLAMA = {"model_type": "llama", "vocab_size": 400, "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
PAGE, CONTEXT, PAGES = 16, 96, 8  # a text of 96 tokens takes 6 pages


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    fw.manual_seed(0)
    folder = tmp_path_factory.mktemp("llama")
    models.save_pretrained(models.from_config(LLAMA), folder, LLAMA)
    small_tokenizers.save(small_tokenizers.byte_level(), folder)
    return models.from_pretrained(folder), models.load_tokenizer(folder)


@pytest.fixture(scope="module")
def server(parts: Any) -> Iterator[Any]:
    generator = Generator(*parts, slots=4, context=CONTEXT, page=PAGE, cache_tokens=PAGE * PAGES)
    with running({"llama": generator}) as started:
        yield started


def asked(prompt: list[int], count: int, **more: Any) -> dict[str, Any]:
    return {"model": "llama", "prompt": prompt, "max_tokens": count, "temperature": 0, **more}


def text_of(http: httpx.Client, *arguments: Any, **more: Any) -> str:
    answer = http.post("/v1/completions", json=asked(*arguments, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def expected(parts: Any, prompt: list[int], count: int) -> str:
    model, tokenizer = parts
    new = models.generate(model, fw.tensor([prompt]), count, stop_tokens=[1])[0, len(prompt):]
    return tokenizer.decode([t for t in new.tolist() if t], skip_special_tokens=True)


def test_texts_wait_until_the_cache_has_room_for_them(server: Any, parts: Any) -> None:
    pool = server.generators["llama"].steps.pool
    prompts = [[7 + i] * (10 + 5 * i) for i in range(12)]
    results, most = {}, []

    def ask(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            results[number] = text_of(client, prompts[number], 20)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most.append(pool.used)
        time.sleep(0.001)
    assert 2 < max(most) <= PAGES and pool.used == 0
    assert results == {i: expected(parts, prompt, 20) for i, prompt in enumerate(prompts)}


@pytest.mark.parametrize("seed", [None, 3])
def test_equal_beginnings_are_computed_once(http: httpx.Client, server: Any, parts: Any,
                                            seed: int | None) -> None:
    engine = server.generators["llama"].engine
    begin = 31 if seed is None else 32
    prompts = [[begin] * 40 + end for end in ([5], [6] * 20, [5])]
    sampled = {} if seed is None else {"temperature": 1.0, "seed": seed}
    texts, counts = [], []
    for prompt in prompts:
        prompted, reused = engine.prompted, engine.reused
        texts.append(text_of(http, prompt, 15, **sampled))
        counts.append((engine.prompted - prompted, engine.reused - reused))
    assert counts == [(41, 0), (28, 32), (9, 32)]
    assert texts[0] == texts[2]
    if seed is None:
        assert texts == [expected(parts, prompt, 15) for prompt in prompts]


def test_a_failed_step_forgets_the_cache_and_the_server_goes_on(
        http: httpx.Client, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, prompt = server.generators["llama"].steps, [9] * 40
    whole = text_of(http, prompt, 5)
    assert steps.pool.cached
    monkeypatch.setattr(steps, "decode", lambda tokens: 1 // 0)
    assert http.post("/v1/completions", json=asked(prompt, 5)).status_code == 500
    monkeypatch.undo()
    assert steps.pool.used == steps.pool.cached == 0
    assert text_of(http, prompt, 5) == whole


def test_a_client_that_leaves_gives_back_its_pages(http: httpx.Client, server: Any) -> None:
    pool = server.generators["llama"].steps.pool
    for _ in range(3):
        with http.stream("POST", "/v1/completions", json=asked(
                [8] * 70, 26, stream=True, logit_bias={"1": -100})) as answer:
            next(answer.iter_lines())
    end = time.monotonic() + 10
    while pool.used:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_cache_must_hold_the_longest_text(parts: Any) -> None:
    with pytest.raises(fw.ArgumentError, match="cache_tokens=80"):
        Generator(*parts, context=CONTEXT, page=PAGE, cache_tokens=80)


def test_metrics_count_pages_and_reused_tokens(http: httpx.Client) -> None:
    page = http.get("/metrics").text
    assert f'fusewire_cache_pages{{model="llama"}} {PAGES}.0' in page
    assert 'fusewire_cache_pages_used{model="llama"} 0.0' in page
    assert 'fusewire_reused_tokens{model="llama"}' in page
