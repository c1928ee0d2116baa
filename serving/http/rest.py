"""The Open Inference Protocol over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .. import metrics
from ..repository import Repository
from ..service import Service, check_ready, server_metadata
from .answers import answered, json_response
from .inference import PATHS, Inference
from .requests import Limits, body_of
from .rest_messages import parameters_of, read_object


def routes(service: Service, repository: Repository, limits: Limits) -> list[BaseRoute]:
    """The routes of the protocol.

    Args:
        service: the models.
        repository: the folder of models.
        limits: what a client may use.
    """
    end = Endpoints(service, repository, limits)
    table = [
        ("/v2", "GET", end.server), ("/v2/health/live", "GET", end.live),
        ("/v2/health/ready", "GET", end.ready), ("/metrics", "GET", end.metrics),
        ("/v2/models/stats", "GET", end.statistics), ("/v2/repository/index", "POST", end.index),
        ("/v2/repository/models/{name}/load", "POST", end.load),
        ("/v2/repository/models/{name}/unload", "POST", end.unload)]
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        table += [(model, "GET", end.model), (model + "/ready", "GET", end.model_ready),
                  (model + "/stats", "GET", end.statistics)]
    inference = Inference(service, limits)
    return [*(Route(path, inference, methods=["POST"]) for path in PATHS),
            *(Route(path, answered(handler), methods=[method]) for path, method, handler in table)]


class Endpoints:
    """The handlers of the protocol."""

    def __init__(self, service: Service, repository: Repository, limits: Limits) -> None:
        self.service, self.repository, self.limits = service, repository, limits

    async def server(self, request: Request) -> Response:
        return json_response(server_metadata())

    async def live(self, request: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, request: Request) -> Response:
        check_ready(self.service)
        return json_response({"ready": True})

    async def model(self, request: Request) -> Response:
        return json_response(self.service.metadata(**request.path_params))

    async def model_ready(self, request: Request) -> Response:
        served = self.service.find(**request.path_params)
        return json_response({"name": served.name, "ready": True})

    async def statistics(self, request: Request) -> Response:
        models = [self.service.find(**request.path_params)] if request.path_params else \
            self.service.all()
        return json_response({"model_stats": [
            {"name": served.name, "version": served.version, **served.statistics.report()}
            for served in models]})

    async def metrics(self, request: Request) -> Response:
        text, kind = metrics.page(self.service)
        return Response(text, media_type=kind)

    async def index(self, request: Request) -> Response:
        values = await self._values(request)
        return json_response(self.repository.index(values.get("ready") is True))

    async def load(self, request: Request) -> Response:
        values = await self._values(request)
        self.repository.check_request(parameters_of(values))
        await self.repository.load(request.path_params["name"])
        return json_response({})

    async def unload(self, request: Request) -> Response:
        await self._values(request)  # Triton's clients ask for dependents, of which there are none
        self.repository.check_request({})
        self.repository.unload(request.path_params["name"])
        return json_response({})

    async def _values(self, request: Request) -> dict[str, Any]:
        """The JSON object of a request; an empty body stands for an empty one."""
        return read_object(await body_of(request.scope, request.receive, self.limits) or b"{}")
