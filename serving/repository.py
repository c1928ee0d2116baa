"""A folder of models with versions, which are loaded, replaced and unloaded while others serve."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fusewire as fw

from .base.failures import INVALID, NOT_FOUND, RequestError, failure_of
from .loading import Settings, checked, load
from .model import Model
from .service import Service, version_order

_NAME = re.compile(r"\w[\w.-]{0,127}")
_FILES = ("model.onnx", "model.fw", "model.py")
_READY, _UNAVAILABLE = "READY", "UNAVAILABLE"


@dataclass
class Repository:
    """A folder of models, laid out as for Triton: NAME/VERSION/model.onnx.

    A version is a number. NAME/config.json may hold arguments of `Model`. Nothing outside of the
    folder is read: a name is one component of a path, and links that lead out are refused.

    Args:
        folder: the folder. None: there is none, and only the index answers.
        settings: how models are made; `runs_code` allows saved programs and Python files.
        service: serves the loaded models.
        takes_requests: False refuses to load and unload at a client's request, since other
            processes would not do so.
    """

    folder: Path | None
    settings: Settings
    service: Service
    takes_requests: bool = True

    def __post_init__(self) -> None:
        self._reasons: dict[str, str] = {}  # why a model is not ready
        self._locks: dict[str, asyncio.Lock] = {}

    def index(self, only_ready: bool = False) -> list[dict[str, str]]:
        """The versions of all models, with their state."""
        rows = [{"name": served.name, "version": served.version, "state": _READY, "reason": ""}
                for served in self.service.all()]
        absent = [] if only_ready else [name for name in self.names()
                                        if name not in self.service.models]
        rows += [{"name": name, "version": "", "state": _UNAVAILABLE,
                  "reason": self._reasons.get(name, "not loaded")} for name in absent]
        return sorted(rows, key=lambda row: (row["name"], row["version"]))

    def names(self) -> list[str]:
        """The models of the folder."""
        if self.folder is None:
            return []
        return sorted(path.name for path in self.folder.iterdir()
                      if path.is_dir() and _NAME.fullmatch(path.name))

    def check_request(self, parameters: Mapping[str, Any]) -> None:
        """RequestError if a request to load or unload a model is not allowed, or brings files or
        settings: models come from the folder only."""
        if not self.takes_requests:
            raise RequestError(INVALID, "the server has several workers, and a request reaches one "
                               "of them; SIGHUP makes all of them load the repository again")
        if parameters:
            raise RequestError(INVALID, f"the parameter {next(iter(parameters))!r:.60} is not "
                               "supported; models are loaded as they are in the repository")

    async def load_all(self) -> None:
        """Loads all models. Those that fail stay in the index, with the reason."""
        for name in self.names():
            try:
                await self.load(name)
            except RequestError:
                pass  # the index has its reason

    async def load(self, name: str) -> None:
        """Loads all versions of a model, or replaces them by what the folder holds now.

        New versions are warm before they take requests; old ones end with their last request. If
        one fails, nothing changes.

        Raises:
            RequestError: there is no such model, or it does not load.
        """
        folder = self._folder_of(name)
        async with self._locks.setdefault(name, asyncio.Lock()):
            try:
                loaded = await asyncio.get_running_loop().run_in_executor(
                    None, functools.partial(self._loaded, folder))
            except Exception as error:
                reason = failure_of(error).reason
                self._reasons[name] = reason
                raise RequestError(INVALID, f"model {name!r} does not load: {reason}") from error
            self._reasons.pop(name, None)
            for version, model in loaded.items():
                self.service.add(name, model, version)
            for version in self.service.models[name].keys() - loaded.keys():
                self.service.remove(name, version)

    def unload(self, name: str) -> None:
        """Takes all versions of a model away from new requests.

        RequestError if none is loaded.
        """
        if name not in self.service.models:
            raise RequestError(NOT_FOUND, f"model {name!r:.60} is not loaded")
        self._folder_of(name)
        for version in list(self.service.models[name]):
            self.service.remove(name, version)
        self._reasons[name] = "unloaded"

    def _folder_of(self, name: str) -> Path:
        """The folder of a model. RequestError if the name leads elsewhere, or to nothing."""
        if self.folder is None:
            raise RequestError(INVALID, "the server has no repository; start it with --repository")
        if not _NAME.fullmatch(name) or not (self.folder / name).is_dir():
            raise RequestError(NOT_FOUND, f"the repository has no model {name!r:.60}; it has "
                               f"{', '.join(self.names()) or 'none'}")
        return self._inside(self.folder / name)

    def _inside(self, path: Path) -> Path:
        """The path. RequestError if a link leads out of the repository."""
        assert self.folder is not None
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise RequestError(INVALID, f"{path.name} is a link that leads out of the repository")
        return path

    def _loaded(self, folder: Path) -> dict[str, Model]:
        """The loaded versions of a folder."""
        settings = self._settings(folder)
        versions = sorted((path.name for path in folder.iterdir()
                           if path.is_dir() and path.name.isdecimal()), key=version_order)
        if not versions:
            raise RequestError(INVALID, "it has no version, such as a folder 1")
        return {version: self._model(folder / version, settings) for version in versions}

    def _model(self, folder: Path, settings: Settings) -> Model:
        model = load(self._file(folder), settings)
        if not isinstance(model, Model):
            raise RequestError(INVALID, "language models are named on the command line")
        return model.load()

    def _settings(self, folder: Path) -> Settings:
        file = self._inside(folder / "config.json")
        if not file.exists():
            return self.settings
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise fw.ArgumentError(f"config.json is no JSON: {error}") from None
        values = checked(values, "config.json")
        sizes = values.pop("sizes", {})
        return replace(self.settings, model={**self.settings.model, **values},
                       sizes={**self.settings.sizes, **sizes})

    def _file(self, folder: Path) -> Path:
        for name in _FILES:
            if (folder / name).exists():
                return self._inside(folder / name)
        raise RequestError(INVALID, f"version {folder.name} has none of {', '.join(_FILES)}")
