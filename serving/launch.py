"""Starts a server from the options of the command line."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Collection
from pathlib import Path

import fusewire as fw

from .http.requests import Limits
from .loading import Settings, load
from .server import Made, Options, Server
from .workers import Supervisor


def launch(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Serves until SIGTERM or Ctrl-C.

    Args:
        options: those of `fusewire serve`.
        say: shows a line.
    """
    if options.workers > 1:
        supervisor = Supervisor(functools.partial(made_models, options), server_options(options),
                                options.workers, say)
        say(f"listening on {supervisor.options.url}")
        supervisor.run()
        return
    server = Server(made_models(options), server_options(options))
    say(f"listening on {server.url}")
    server.run(lambda: say(_ready(server)))


def made_models(options: argparse.Namespace) -> dict[str, Made]:
    """The served models, by name."""
    if options.threads:
        fw.set_num_threads(options.threads)
    settings = _settings(options, runs_code=True)  # whoever names a file trusts it
    return {name: functools.partial(load, path, settings) for name, path in options.models}


def server_options(options: argparse.Namespace) -> Options:
    """The addresses and the limits of the server."""
    limits = Limits(body_bytes=options.max_body, concurrency=options.concurrency)
    return Options(options.host, options.http, options.grpc, options.repository,
                   _settings(options, options.allow_code), _tokens(options.tokens),
                   options.tls_certificate, options.tls_key, limits, options.drain)


def _settings(options: argparse.Namespace, runs_code: bool) -> Settings:
    """How models are made."""
    model = {"max_batch": options.max_batch, "delay": options.delay_us / 1e6,
             "queue": options.queue, "timeout": options.timeout}
    text = {"slots": options.slots, "context": options.context,
            "cache_tokens": options.cache_tokens}
    return Settings(model, dict(options.sizes), text, runs_code)


def _tokens(file: Path | None) -> Collection[str]:
    """The tokens of clients, one a line of a file."""
    if file is None:
        return ()
    tokens = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()
              if line.strip()]
    if not tokens:
        raise fw.ArgumentError(f"{file} has no token", "write one token a line")
    return tokens


def _ready(server: Server) -> str:
    models = [f"{served.name}: {', '.join(map(str, served.model.inputs))} -> "
              f"{', '.join(map(str, served.model.outputs))}" for served in server.served]
    texts = [f"{name}: texts of up to {each.context} tokens, {each.slots} at once"
             for name, each in server.generators.items()]
    return "\n".join(["ready", *models, *texts])


