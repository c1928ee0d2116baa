"""Spans by OpenTelemetry, where its API is installed and the program has set up a provider.

A request has a span, whose parent is the client's (W3C's header `traceparent`). Batches and steps
serve several requests, so their spans are linked to those of the requests. Without a provider,
nothing is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fusewire as fw

try:
    from opentelemetry import propagate, trace
except ImportError:  # the extra `serve-traces` is not installed
    propagate = trace = None  # type: ignore[assignment]

Link = Any  # the context of a span; None if there is none


def _tracer() -> Any:
    """The tracer of the provider; None if the program has not set one up."""
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace.get_tracer("fusewire.serving", fw.__version__)


def is_active() -> bool:
    """True if spans are recorded."""
    return _tracer() is not None


@contextlib.contextmanager
def request(name: str, headers: Mapping[str, str], attributes: Mapping[str, Any]) -> Iterator[Link]:
    """A context that is the span of a request. Yields its link for batches and steps.

    Args:
        name: of the span.
        headers: of the request, by names in lower case.
        attributes: of the span.
    """
    tracer = _tracer()
    if tracer is None:
        yield None
        return
    span = tracer.start_span(name, propagate.extract(headers), trace.SpanKind.SERVER,
                             dict(attributes))
    try:
        yield span.get_span_context()
    except Exception as error:
        span.record_exception(error)
        span.set_status(trace.StatusCode.ERROR, str(error))
        raise
    finally:
        span.end()


def record(name: str, begin: int, end: int, links: Sequence[Link], attributes: Mapping[str, Any]
           ) -> None:
    """Records a span that has ended.

    Args:
        name: of the span.
        begin, end: nanoseconds of `time.time_ns`.
        links: of the requests that it served.
        attributes: of the span.
    """
    tracer = _tracer()
    if tracer is not None:
        known = [trace.Link(link) for link in links if link is not None]
        tracer.start_span(name, links=known, attributes=dict(attributes), start_time=begin).end(end)
