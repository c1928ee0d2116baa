"""The models of a server by name and version, for every protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fusewire as fw

from .base import tracing
from .base.data_types import Array
from .base.failures import INVALID, NOT_FOUND, UNAVAILABLE, RequestError
from .base.signature import TensorSpec
from .base.statistics import Statistics
from .batching import Batcher
from .model import Model
from .text.embedder import Embedder
from .text.generator import Generator

EXTENSIONS = ["binary_tensor_data", "model_repository", "statistics"]


@dataclass
class Served:
    """One version of a model that takes requests."""

    name: str
    version: str
    model: Model
    statistics: Statistics = field(default_factory=Statistics)

    def __post_init__(self) -> None:
        self.batcher = Batcher(self.model, self.statistics)

    def metadata(self) -> dict[str, Any]:
        """Name, versions, inputs and outputs, as the protocol has them in JSON."""
        return {"name": self.name, "versions": [self.version], "platform": "fusewire",
                "inputs": [spec.metadata() for spec in self.model.inputs],
                "outputs": [spec.metadata() for spec in self.model.outputs]}

    def chosen(self, names: Sequence[str] | None) -> list[int]:
        """The numbers of the outputs that a request names; all without names."""
        if names is None:
            return list(range(len(self.model.outputs)))
        known = {spec.name: number for number, spec in enumerate(self.model.outputs)}
        for name in names:
            if name not in known:
                raise RequestError(INVALID, f"model {self.name!r} has no output {name!r}; it has "
                                   f"{', '.join(known)}")
        return [known[name] for name in names]

    def ordered(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The inputs of a request in the order of the model's, with their dtypes checked."""
        specs = self.model.inputs
        if inputs.keys() != {spec.name for spec in specs}:
            raise RequestError(INVALID, f"the request has the inputs {', '.join(inputs) or 'none'};"
                               f" model {self.name!r} takes {', '.join(map(str, specs))}")
        for spec in specs:
            if inputs[spec.name].dtype != spec.dtype:
                raise _wrong_dtype(spec, inputs[spec.name])
        return [inputs[spec.name] for spec in specs]


def _wrong_dtype(spec: TensorSpec, array: Array) -> RequestError:
    got = TensorSpec(spec.name, array.dtype, array.shape)
    return RequestError(INVALID, f"the input is {got}; the model takes {spec}")


@dataclass(frozen=True)
class Answer:
    """The model that answered, and its outputs."""

    served: Served
    results: list[tuple[TensorSpec, Array]]


class Service:
    """The models that take requests, and whether the server is ready.

    All methods are called by the thread of the event loop.
    """

    def __init__(self) -> None:
        self.models: dict[str, dict[str, Served]] = {}  # name -> version -> model
        self.texts: dict[str, Generator | Embedder] = {}
        self.is_ready = False
        self.draining = False
        self.on_change: Callable[[], None] = lambda: None  # a model came, or has ended
        self._retiring: set[asyncio.Task[None]] = set()  # the event loop holds tasks weakly

    def add(self, name: str, model: Model, version: str = "1") -> None:
        """Serves a loaded model. One of the same name and version is replaced at once."""
        old = self.models.get(name, {}).get(version)
        self.models.setdefault(name, {})[version] = Served(name, version, model)
        self.on_change()
        if old is not None:
            self._retire(old)

    def add_texts(self, name: str, model: Generator | Embedder) -> None:
        """Serves a loaded language model."""
        self.texts[name] = model
        if isinstance(model, Embedder):
            self.add(name, model.model)
        else:
            model.engine.start()

    @property
    def generators(self) -> dict[str, Generator]:
        """The models that continue texts, by name."""
        return {name: model for name, model in self.texts.items() if isinstance(model, Generator)}

    def remove(self, name: str, version: str) -> None:
        """Takes a version away from new requests; those that it has taken are finished."""
        versions = self.models.get(name, {})
        if version in versions:
            self._retire(versions.pop(version))
        if not versions:
            self.models.pop(name, None)

    def _retire(self, served: Served) -> None:
        """Ends a model behind its last request."""
        def ended(task: asyncio.Task[None]) -> None:
            self._retiring.discard(task)
            self.on_change()

        task = asyncio.ensure_future(served.batcher.drain())
        self._retiring.add(task)
        task.add_done_callback(ended)

    def find(self, name: str, version: str = "") -> Served:
        """The model of a name, in its newest version if none is asked for."""
        versions = self.models.get(name)
        if not versions:
            check_ready(self)
            raise RequestError(NOT_FOUND, f"there is no model {name!r}; the models are "
                               f"{', '.join(sorted(self.models)) or 'not loaded'}")
        chosen = version or max(versions, key=version_order)
        if chosen not in versions:
            raise RequestError(NOT_FOUND, f"model {name!r} has no version {version!r}; it has "
                               f"{', '.join(sorted(versions, key=version_order))}")
        return versions[chosen]

    def all(self) -> list[Served]:
        """All models in all versions, by name."""
        return [served for _, versions in sorted(self.models.items())
                for served in versions.values()]

    def metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """The metadata of a model, with all its versions."""
        served = self.find(name, version)
        versions = sorted(self.models[name], key=version_order)
        return {**served.metadata(), "versions": versions}

    async def infer(self, name: str, version: str, inputs: Mapping[str, Array],
                    outputs: Sequence[str] | None, timeout: float | None = None,
                    headers: Mapping[str, str] | None = None) -> Answer:
        """The outputs of a request, in the order in which it names them.

        It is cancelled when the client leaves. The model is looked up when the request joins its
        queue, so that a model that is replaced meanwhile loses no request.

        Args:
            name, version: of the model; "" stands for the newest version.
            inputs: arrays by name.
            outputs: the names of the outputs that are wanted. None: all.
            timeout: seconds that the request may wait.
            headers: of the request, by names in lower case. Default none.

        Raises:
            RequestError: the request does not fit the model, or got no result in time.
        """
        served, start = self.find(name, version), time.monotonic_ns()
        statistics = served.statistics
        statistics.pending += 1
        try:
            chosen = served.chosen(outputs)
            with tracing.request("infer", headers or {}, {
                    "fusewire.model": name, "fusewire.version": served.version}) as link:
                results = await served.batcher.submit(served.ordered(inputs), timeout, link)
        except (RequestError, asyncio.CancelledError):
            statistics.fail.add(time.monotonic_ns() - start)
            raise
        finally:
            statistics.pending -= 1
        statistics.success.add(time.monotonic_ns() - start)
        specs = served.model.outputs
        return Answer(served, [(specs[number], results[number]) for number in chosen])

    async def drain(self) -> None:
        """Waits until no model has a request."""
        self.draining, self.is_ready = True, False
        await asyncio.gather(*(served.batcher.drain() for served in self.all()),
                             *(each.engine.drain() for each in self.generators.values()))


def version_order(version: str) -> tuple[int, str]:
    """A key that sorts versions by their number."""
    return (int(version), "") if version.isdecimal() else (-1, version)


def server_metadata() -> dict[str, Any]:
    """Name, version and extensions of the server."""
    return {"name": "fusewire", "version": fw.__version__, "extensions": EXTENSIONS}


def check_ready(service: Service) -> None:
    """RequestError if the server does not take requests yet, or any more."""
    if not service.is_ready:
        raise RequestError(UNAVAILABLE, "the server is shutting down" if service.draining else
                           "models are still being loaded")
