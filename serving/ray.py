"""Serves a `Model` by Ray Serve, for many machines and for chains of models.

It needs the package `ray[serve]`, which is imported when a deployment is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .base.signature import array_of
from .model import Model
from .service import Service


def ray_deployment(make: Callable[[], Model], **options: Any) -> Any:
    """A bound deployment of Ray Serve, for `serve.run`.

    Its method `infer(inputs)` takes arrays by name, and returns the outputs by name.

    Args:
        make: returns the model. Each replica calls it once.
        options: those of `serve.deployment`, such as `num_replicas`.

    Example:
        >>> from ray import serve  # doctest: +SKIP
        >>> from fusewire.serving.ray import ray_deployment  # doctest: +SKIP
        >>> handle = serve.run(ray_deployment(make, num_replicas=2))  # doctest: +SKIP
        >>> handle.infer.remote({"images": images}).result()  # doctest: +SKIP
    """
    from ray import serve

    return serve.deployment(**{"name": "fusewire", **options})(Replica).bind(make)


class Replica:
    """One process of the deployment."""

    def __init__(self, make: Callable[[], Model]) -> None:
        self.model, self.service = make().load(), Service()

    async def infer(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, for inputs by name."""
        if "model" not in self.service.models:  # the event loop is known now
            self.service.add("model", self.model)
        arrays = {name: array_of(value) for name, value in inputs.items()}
        answer = await self.service.infer("model", "", arrays, None)
        return {spec.name: array for spec, array in answer.results}
