"""Metrics for Prometheus, with Triton's names, so that its dashboards fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .service import Served, Service
from .text.generator import Generator

Value = Callable[[Served], float]

_VALUES: dict[str, tuple[str, Value]] = {
    "nv_inference_request_success": ("requests with a result",
                                     lambda m: m.statistics.success.count),
    "nv_inference_request_failure": ("requests without a result",
                                     lambda m: m.statistics.fail.count),
    "nv_inference_count": ("rows that were computed", lambda m: m.statistics.rows),
    "nv_inference_exec_count": ("batches that ran", lambda m: m.statistics.executions),
    "nv_inference_request_duration_us": ("time of requests with a result",
                                         lambda m: m.statistics.success.ns / 1e3),
    "nv_inference_queue_duration_us": ("time in the queue", lambda m: m.statistics.queue.ns / 1e3),
    "nv_inference_compute_input_duration_us": ("time in which batches were put together",
                                               lambda m: m.statistics.compute_input.ns / 1e3),
    "nv_inference_compute_infer_duration_us": ("time in which batches ran",
                                               lambda m: m.statistics.compute_infer.ns / 1e3),
    "nv_inference_compute_output_duration_us": ("time in which results were handed out",
                                                lambda m: m.statistics.compute_output.ns / 1e3),
    "nv_inference_pending_request_count": ("requests that wait or run",
                                           lambda m: m.statistics.pending),
    "fusewire_recordings": ("traces that were recorded; the number stays when a model is ready",
                            lambda m: m.model.recordings),
}
"""A metric -> its help, and its value for a model."""

_TEXT_VALUES: dict[str, tuple[str, Callable[[Generator], float]]] = {
    "fusewire_prompt_tokens": ("tokens of prompts that were computed",
                               lambda g: g.engine.prompted),
    "fusewire_reused_tokens": ("tokens of prompts that were in the cache already",
                               lambda g: g.engine.reused),
    "fusewire_cache_pages_used": ("pages of the cache of texts that have not ended",
                                  lambda g: g.steps.pool.used),
    "fusewire_cache_pages": ("pages of the cache", lambda g: g.steps.pool.count),
    "fusewire_generated_tokens": ("tokens that were added to texts", lambda g: g.engine.generated),
    "fusewire_decoding_steps": ("steps that added a token to each text in a slot",
                                lambda g: g.engine.steps_done),
    "fusewire_pending_texts": ("texts that wait or are being continued",
                               lambda g: g.engine.pending),
    "fusewire_text_recordings": ("traces that were recorded; the number stays when a model is "
                                 "ready", lambda g: g.recordings),
}
"""The same for a model that continues texts."""


class _Models(Collector):
    """The metrics of all models."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        for name, (help, value) in _VALUES.items():
            # The type "counter" would add `_total` to Triton's names.
            metric = Metric(name, help, "unknown")
            for served in self.service.all():
                metric.add_sample(name, {"model": served.name, "version": served.version},
                                  value(served))
            yield metric
        for name, (help, text_value) in _TEXT_VALUES.items():
            metric = Metric(name, help, "unknown")
            for model, generator in self.service.generators.items():
                metric.add_sample(name, {"model": model}, text_value(generator))
            yield metric
        batches = Metric("fusewire_batches", "batches that ran, by their rows", "unknown")
        for served in self.service.all():
            for rows, duration in served.statistics.batches.items():
                batches.add_sample("fusewire_batches", {
                    "model": served.name, "version": served.version, "rows": str(rows)},
                    duration.count)
        yield batches


def page(service: Service) -> tuple[bytes, Any]:
    """The page of metrics, and its media type."""
    registry = CollectorRegistry()
    registry.register(_Models(service))
    return generate_latest(registry), CONTENT_TYPE_LATEST
