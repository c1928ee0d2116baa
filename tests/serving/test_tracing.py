"""Requests, batches and steps are spans of OpenTelemetry if the program has set up a provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import tritonclient.grpc as triton
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from served_models import net
from small_texts import small_generator

import fusewire as fw
from fusewire.serving import Model, running
from fusewire.serving.base import tracing

TRACE, CLIENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE}-{CLIENT}-01"}
ASKED = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [0] * 4}]}


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def spans(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
          ) -> Iterator[InMemorySpanExporter]:
    """What was exported. The provider is that of this test only: a process has one for good."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    model = Model(net(), {"input": fw.zeros(1, 4)}, max_batch=2)
    with running({"net": model, "gpt": small_generator(slots=2)}) as started:
        yield started


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def check_parent(span: ReadableSpan) -> None:
    """The span continues the trace of the client."""
    assert span.parent is not None and span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE and f"{span.parent.span_id:016x}" == CLIENT
    assert span.kind == trace.SpanKind.SERVER


def test_a_request_and_its_batch_are_spans(http: httpx.Client, spans: Any) -> None:
    assert http.post("/v2/models/net/infer", json=ASKED, headers=HEADERS).status_code == 200
    [request], [batch] = named(spans, "infer"), named(spans, "batch")
    check_parent(request)
    assert request.attributes == {"fusewire.model": "net", "fusewire.version": "1"}
    assert batch.attributes == {"fusewire.rows": 1, "fusewire.requests": 1}
    assert [link.context for link in batch.links] == [request.context]
    assert request.start_time <= batch.start_time <= batch.end_time  # type: ignore[operator]


def test_a_request_by_grpc_continues_the_trace_of_its_client(server: Any, spans: Any) -> None:
    client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    tensor = triton.InferInput("input", [1, 4], "FP32")
    tensor.set_data_from_numpy(fw.zeros(1, 4).numpy())
    client.infer("net", [tensor], headers=HEADERS)
    [request] = named(spans, "infer")
    check_parent(request)


def test_a_refused_request_is_a_span_with_the_reason(http: httpx.Client, spans: Any) -> None:
    wrong = {"inputs": [{**ASKED["inputs"][0], "shape": [4]}]}
    assert http.post("/v2/models/net/infer", json=wrong).status_code == 400
    [request] = named(spans, "infer")
    assert request.status.status_code == trace.StatusCode.ERROR and request.parent is None
    assert "the model takes" in request.status.description  # type: ignore[operator]


@pytest.mark.parametrize("stream", [False, True])
def test_a_text_and_its_steps_are_spans(http: httpx.Client, spans: Any, stream: bool) -> None:
    asked = {"model": "gpt", "prompt": [1 + stream] * 20, "max_tokens": 4, "temperature": 0,
             "stream": stream}
    assert http.post("/v1/completions", json=asked, headers=HEADERS).status_code == 200
    [request] = named(spans, "continue")
    check_parent(request)
    assert request.attributes == {"fusewire.model": "gpt", "fusewire.texts": 1}
    assert [s.attributes for s in named(spans, "prefill")] == [
        {"fusewire.tokens": 16}, {"fusewire.tokens": 20}]
    steps = named(spans, "decode")
    assert len(steps) == 3  # the first token comes from the prompt
    for step in steps:
        assert [link.context for link in step.links] == [request.context]


def test_without_a_provider_nothing_is_recorded(http: httpx.Client) -> None:
    assert not tracing.is_active()
    assert http.post("/v2/models/net/infer", json=ASKED, headers=HEADERS).status_code == 200


def test_without_the_package_nothing_is_recorded(http: httpx.Client,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "trace", None)
    assert http.post("/v2/models/net/infer", json=ASKED, headers=HEADERS).status_code == 200
