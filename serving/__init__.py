"""Serves compiled functions by the Open Inference Protocol and by OpenAI's interface."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .model import Model
from .text.embedder import Embedder
from .text.generator import Generator

if TYPE_CHECKING:
    from .server import Options, Server, running, serve

__all__ = ["Embedder", "Generator", "Model", "Options", "Server", "running", "serve"]

_OF_SERVER = ("Options", "Server", "running", "serve")
"""Names of the module `server`, which needs the packages of the extra `serve`."""


def __getattr__(name: str) -> Any:
    if name not in _OF_SERVER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has "
                             f"{', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.server"), name)
