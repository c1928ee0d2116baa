"""Runs a server: loads models, listens, and ends without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import uvicorn

import fusewire as fw

from .base.garbage import settle
from .grpc_service import InferenceService
from .http.app import application
from .http.requests import Limits
from .http.rest import routes
from .loading import Settings
from .model import Model
from .repository import Repository
from .service import Served, Service
from .text import openai_routes
from .text.embedder import Embedder
from .text.generator import Generator

try:
    import uvloop
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:  # it exists for Linux and macOS only
    new_event_loop = asyncio.new_event_loop

_GRACE_SECONDS = 60.0  # for calls of gRPC that run when the server ends
_SETTLE_SECONDS = 1.0  # after a model came or went

Servable = Model | Generator | Embedder
Made = Servable | Callable[[], Servable]  # a model, or a function that makes it


@dataclass(frozen=True)
class Options:
    """The addresses and the limits of a server.

    Args:
        host: the address to listen on. Default 127.0.0.1: this machine only.
        http: the port of REST; 0 takes a free one. Default 8000.
        grpc: the port of gRPC; 0 takes a free one. Default None: no gRPC.
        repository: a folder of models. Default None.
        settings: how models of the repository are made.
        tokens: of clients, each sent as `Authorization: Bearer TOKEN`. Default none: everybody.
        certificate, key: files of PEM for TLS. Default None: no TLS.
        limits: sizes, times and numbers of requests.
        drain_seconds: that clients have to notice that the server ends. Default 1.
        share_port: True if several processes listen on the port. Each one begins when it is ready.
    """

    host: str = "127.0.0.1"
    http: int = 8000
    grpc: int | None = None
    repository: Path | None = None
    settings: Settings = field(default_factory=lambda: Settings(runs_code=False))
    tokens: Collection[str] = ()
    certificate: str | None = None
    key: str | None = None
    limits: Limits = field(default_factory=Limits)
    drain_seconds: float = 1.0
    share_port: bool = False

    @property
    def url(self) -> str:
        """The address of REST."""
        scheme, host = "https" if self.certificate else "http", self.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.http}"


def listening_socket(host: str, port: int, share: bool = False) -> socket.socket:
    """A socket that is bound to an address; `share` lets other processes bind it, too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if share:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise fw.ArgumentError(f"cannot listen on {host}:{port}: {error.strerror}",
                               "choose another port, or 0 for a free one") from None
    bound.set_inheritable(True)
    return bound


def _bind(server: Any, options: Options) -> int:
    """The port of gRPC, to which the server is bound."""
    address = f"{options.host}:{options.grpc}"
    try:
        if options.certificate is None or options.key is None:
            return int(server.add_insecure_port(address))
        pair = Path(options.key).read_bytes(), Path(options.certificate).read_bytes()
        return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))
    except RuntimeError:
        raise fw.ArgumentError(f"cannot listen on {address}",
                               "choose another port, or 0 for a free one") from None


class _Uvicorn(uvicorn.Server):
    """uvicorn, whose signals the server around it handles."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A context that leaves signals alone."""
        yield


class Server:
    """A server of models.

    Args:
        models: the served models, by name.
        options: how.
    """

    def __init__(self, models: Mapping[str, Made], options: Options) -> None:
        self.models, self.options = models, options
        self.service: Service | None = None
        self.ready = threading.Event()
        self._reloads: set[asyncio.Task[None]] = set()
        self._settling: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._socket = listening_socket(options.host, options.http, options.share_port)
        self.grpc_port: int | None = None
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        """The address of REST."""
        return replace(self.options, http=self.port).url

    @property
    def served(self) -> list[Served]:
        """The models that take requests, or did before the server ended."""
        return self.service.all() if self.service else []

    @property
    def generators(self) -> dict[str, Generator]:
        """The models that continue texts, by name."""
        return self.service.generators if self.service else {}

    def run(self, when_ready: Callable[[], None] = lambda: None, parent: Any = None) -> None:
        """Serves until `stop`, SIGTERM or Ctrl-C. SIGHUP loads the repository again.

        Args:
            when_ready: is called when all models take requests.
            parent: a connection to another process; the server ends when that process does.

        Raises the error of a model that does not load.
        """
        self._when_ready, self._parent = when_ready, parent
        self._loop = new_event_loop()
        try:
            self._loop.run_until_complete(self._run())
        finally:
            self._loop.close()

    def stop(self) -> None:
        """Ends the server behind the requests that it has taken. For any thread."""
        if self._loop is not None and self._end is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end.set)

    async def _run(self) -> None:
        self._end = asyncio.Event()
        self.service = Service()
        options = self.options
        repository = Repository(options.repository, options.settings, self.service,
                                takes_requests=not options.share_port)
        self._handle_signals(repository)
        table = [*routes(self.service, repository, options.limits),
                 *openai_routes.routes(self.service, options.limits)]
        app = application(table, self.service, options.tokens, options.limits)
        if options.share_port:  # listens when it is ready: the other processes answer until then
            await self._load(repository)
        rpc = await self._grpc_server(InferenceService(self.service, repository, options.tokens))
        http = _Uvicorn(uvicorn.Config(
            app, lifespan="off", ws="none", access_log=False, log_level="warning",
            log_config=None,  # logging belongs to the process, which may be the user's own
            server_header=False, proxy_headers=False,
            ssl_certfile=options.certificate, ssl_keyfile=options.key,
            timeout_keep_alive=60))
        serving = asyncio.ensure_future(http.serve([self._socket]))
        try:
            if not options.share_port:
                await self._load(repository)
            while not (http.started or serving.done()):
                await asyncio.sleep(0.001)
            self._settle()
            self.service.on_change = self._settle_soon
            self.service.is_ready = True
            self.ready.set()
            self._when_ready()
            await self._end.wait()
            self.service.is_ready, self.service.draining = False, True
            await asyncio.sleep(options.drain_seconds)
        finally:
            http.should_exit = True
            await asyncio.gather(serving, rpc.stop(_GRACE_SECONDS))
            await self.service.drain()

    def _settle_soon(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        self._settling = asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._settle)

    def _settle(self) -> None:
        """Tells the garbage collector what lives long, if the process is the server's own."""
        if threading.current_thread() is threading.main_thread():
            settle()

    async def _grpc_server(self, service: InferenceService) -> Any:
        """A gRPC server that has started."""
        options = self.options
        server = grpc.aio.server(options=[
            ("grpc.max_receive_message_length", options.limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", int(options.share_port))],
            maximum_concurrent_rpcs=options.limits.concurrency)
        server.add_generic_rpc_handlers((service.handler(),))
        if options.grpc is not None:
            self.grpc_port = _bind(server, options)
        await server.start()
        return server

    def _handle_signals(self, repository: Repository) -> None:
        loop = asyncio.get_running_loop()
        if self._parent is not None:
            loop.add_reader(self._parent.fileno(), self.stop)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            loop.add_signal_handler(signal.SIGHUP, self._reload, repository)

    def _reload(self, repository: Repository) -> None:
        task = asyncio.ensure_future(repository.load_all())
        self._reloads.add(task)  # the event loop holds tasks weakly
        task.add_done_callback(self._reloads.discard)

    async def _load(self, repository: Repository) -> None:
        """Loads all models, one after the other, in a thread of their own."""
        loop, service = asyncio.get_running_loop(), repository.service
        for name, made in self.models.items():
            model = await loop.run_in_executor(None, _loaded, made)
            if isinstance(model, Model):
                service.add(name, model)
            else:
                service.add_texts(name, model)
        await repository.load_all()


def _loaded(made: Made) -> Servable:
    model = made if isinstance(made, (Model, Generator, Embedder)) else made()
    return model.load()


def serve(models: Mapping[str, Made], **options: Any) -> None:
    """Serves models until SIGTERM or Ctrl-C.

    Args:
        models: the served models, by name: a `Model`, or a function that makes it.
        options: see `Options`.

    Raises:
        ArgumentError: the port is taken, or a model cannot be served.
    """
    Server(models, Options(**options)).run()


@contextlib.contextmanager
def running(models: Mapping[str, Made], **options: Any) -> Iterator[Server]:
    """A context in which a server of models runs in another thread, on free ports.

    Args:
        models: the served models, by name.
        options: see `Options`. Default port 0, and no seconds to drain.
    """
    server = Server(models, Options(**{"http": 0, "grpc": 0, "drain_seconds": 0.0, **options}))
    failure: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        except BaseException as error:
            failure.append(error)
        finally:
            server.ready.set()

    thread = threading.Thread(target=run, name="fusewire server", daemon=True)
    thread.start()
    server.ready.wait()
    try:
        if failure:
            raise failure[0]
        yield server
    finally:
        server.stop()
        thread.join()
