"""The Open Inference Protocol over gRPC."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import grpc
import numpy as np

from .base.data_types import DTYPES, Array, from_bytes, from_values, to_bytes
from .base.failures import INVALID, NOT_FOUND, TIMEOUT, TOO_LARGE, UNAVAILABLE, RequestError
from .base.grpc_messages import MESSAGES, SERVICE
from .http.app import is_known
from .repository import Repository
from .service import Service, server_metadata

_OPEN = ("ServerLive", "ServerReady")  # probes have no token
_STATUS = {INVALID: grpc.StatusCode.INVALID_ARGUMENT, NOT_FOUND: grpc.StatusCode.NOT_FOUND,
           TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED, UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
           TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED}
_CONTENTS = {"BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents",
             "INT32": "int_contents", "INT64": "int64_contents", "UINT8": "uint_contents",
             "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
             "FP32": "fp32_contents", "FP64": "fp64_contents"}
"""The field of each data type that may be sent as numbers."""

Call = Callable[[Any, Any], Awaitable[Any]]


class InferenceService:
    """The methods of the service; each has the name that the protocol gives it.

    Args:
        service: the models.
        repository: the folder of models, if there is one.
        tokens: of clients; none lets everybody in.
    """

    def __init__(self, service: Service, repository: Repository, tokens: Collection[str]) -> None:
        self.service, self.repository, self.tokens = service, repository, tokens

    def handler(self) -> Any:
        """The handler of all methods, for a gRPC server."""
        names = [name.removesuffix("Request") for name in MESSAGES if name.endswith("Request")]
        handlers = {name: grpc.unary_unary_rpc_method_handler(
            self._answered(name), MESSAGES[f"{name}Request"].FromString,
            MESSAGES[f"{name}Response"].SerializeToString) for name in names}
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._stream, MESSAGES["ModelInferRequest"].FromString,
            MESSAGES["ModelStreamInferResponse"].SerializeToString)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _answered(self, name: str) -> Call:
        """A method behind the check of tokens, with a RequestError as a status."""
        method: Call = getattr(self, name)

        async def answer(request: Any, context: Any) -> Any:
            if name not in _OPEN:
                await self._check_token(context)
            try:
                return await method(request, context)
            except RequestError as error:
                await context.abort(_STATUS.get(error.status, grpc.StatusCode.INTERNAL),
                                    error.reason)

        return answer

    async def _check_token(self, context: Any) -> None:
        given = dict(context.invocation_metadata()).get("authorization", "")
        scheme, _, token = given.partition(" ")
        if self.tokens and not (scheme.lower() == "bearer" and is_known(token, self.tokens)):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED,
                                "the call has no valid token; send the metadata "
                                "authorization: Bearer TOKEN")

    # ---- the server and its models

    async def ServerLive(self, request: Any, context: Any) -> Any:
        return MESSAGES["ServerLiveResponse"](live=True)

    async def ServerReady(self, request: Any, context: Any) -> Any:
        return MESSAGES["ServerReadyResponse"](ready=self.service.is_ready)

    async def ModelReady(self, request: Any, context: Any) -> Any:
        versions = self.service.models.get(request.name, {})
        is_ready = request.version in versions if request.version else bool(versions)
        return MESSAGES["ModelReadyResponse"](ready=is_ready)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        return MESSAGES["ServerMetadataResponse"](**server_metadata())

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        return MESSAGES["ModelMetadataResponse"](**self.service.metadata(
            request.name, request.version))

    async def ModelStatistics(self, request: Any, context: Any) -> Any:
        models = [self.service.find(request.name, request.version)] if request.name else \
            self.service.all()
        return MESSAGES["ModelStatisticsResponse"](model_stats=[
            {"name": m.name, "version": m.version, **m.statistics.report()} for m in models])

    # ---- the repository

    async def RepositoryIndex(self, request: Any, context: Any) -> Any:
        return MESSAGES["RepositoryIndexResponse"](models=self.repository.index(request.ready))

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:
        self.repository.check_request(request.parameters)
        await self.repository.load(request.model_name)
        return MESSAGES["RepositoryModelLoadResponse"]()

    async def RepositoryModelUnload(self, request: Any, context: Any) -> Any:
        self.repository.check_request({})
        self.repository.unload(request.model_name)
        return MESSAGES["RepositoryModelUnloadResponse"]()

    # ---- inference

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        names = [output.name for output in request.outputs] or None
        answer = await self.service.infer(request.model_name, request.model_version,
                                          read_inputs(request), names,
                                          _timeout(request, context),
                                          dict(context.invocation_metadata() or ()))
        outputs = [{**spec.metadata(), "shape": array.shape} for spec, array in answer.results]
        return MESSAGES["ModelInferResponse"](
            model_name=answer.served.name, model_version=answer.served.version, id=request.id,
            outputs=outputs,
            raw_output_contents=[to_bytes(array) for _, array in answer.results])

    async def _stream(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Yields an answer to each request of a stream, in their order."""
        await self._check_token(context)
        async for request in requests:
            try:
                answer = {"infer_response": await self.ModelInfer(request, context)}
            except RequestError as error:
                answer = {"error_message": error.reason,
                          "infer_response": MESSAGES["ModelInferResponse"](id=request.id)}
            yield MESSAGES["ModelStreamInferResponse"](**answer)


def read_inputs(request: Any) -> dict[str, Array]:
    """The inputs of a ModelInferRequest by name. RequestError names the fault."""
    raw, inputs = request.raw_input_contents, {}
    if len(raw) not in (0, len(request.inputs)):
        raise RequestError(INVALID, f"{len(request.inputs)} inputs have {len(raw)} raw contents; "
                           "send one for each, or none")
    for number, entry in enumerate(request.inputs):
        if entry.datatype not in DTYPES:
            raise RequestError(INVALID, f"input {entry.name!r} has the datatype "
                               f"{entry.datatype!r:.60}; the data types are {', '.join(DTYPES)}")
        if entry.name in inputs:
            raise RequestError(INVALID, f"input {entry.name!r} is there twice")
        dtype, shape = DTYPES[entry.datatype], list(entry.shape)
        if raw and entry.HasField("contents"):
            raise RequestError(INVALID, f"input {entry.name!r} has contents and raw contents")
        inputs[entry.name] = from_bytes(raw[number], dtype, shape, entry.name) if raw else \
            _from_contents(entry, dtype, shape)
    return inputs


def _from_contents(entry: Any, dtype: np.dtype[Any], shape: list[int]) -> Array:
    field = _CONTENTS.get(entry.datatype)
    if field is None:
        raise RequestError(INVALID, f"input {entry.name!r} is {entry.datatype}, which has to be in "
                           "raw_input_contents")
    return from_values(list(getattr(entry.contents, field)), dtype, shape, entry.name)


def _timeout(request: Any, context: Any) -> float | None:
    """Seconds until the deadline of the call, or of its parameter `timeout` in microseconds."""
    limits = [context.time_remaining()]
    if "timeout" in request.parameters and request.parameters["timeout"].int64_param > 0:
        limits.append(request.parameters["timeout"].int64_param / 1e6)
    least = min((limit for limit in limits if limit is not None), default=math.inf)
    return None if math.isinf(least) else least
