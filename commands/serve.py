"""Implements `fusewire serve`, which answers requests for models over HTTP and gRPC."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

from .support.command import Command, Failed, Result, WrongUsage, positive
from .support.screen import Screen

_NAME = re.compile(r"[\w][\w.-]*")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", type=_named_path, nargs="*", metavar="NAME=PATH",
                        help="an ONNX model, a saved program, a folder of a language model, or a "
                        "Python file whose load() returns a fusewire.serving.Model")
    parser.add_argument("--repository", type=Path, metavar="FOLDER",
                        help="serve the models of a folder, NAME/VERSION/model.onnx")
    parser.add_argument("--allow-code", action="store_true",
                        help="also run saved programs (model.fw) and Python files (model.py) of "
                        "the repository")
    _add_network(parser)
    _add_batching(parser)
    _add_texts(parser)


def _add_network(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("network")
    group.add_argument("--host", default="127.0.0.1", metavar="ADDRESS",
                       help="address to listen on (default: this machine only)")
    group.add_argument("--http", type=_port, default=8000, metavar="PORT",
                       help="port of REST, 0 for a free one (default: 8000)")
    group.add_argument("--grpc", type=_port, metavar="PORT",
                       help="port of gRPC, 0 for a free one (default: no gRPC)")
    group.add_argument("--tokens", type=Path, metavar="FILE",
                       help="tokens of clients, one a line; without it, everybody is let in")
    group.add_argument("--tls-certificate", metavar="FILE", help="certificate for TLS, in PEM")
    group.add_argument("--tls-key", metavar="FILE", help="its key, in PEM")
    group.add_argument("--max-body", type=positive, default=64 << 20, metavar="BYTES",
                       help="the most bytes of a request (default: 67108864)")
    group.add_argument("--concurrency", type=positive, default=4096, metavar="N",
                       help="the most requests at once (default: 4096)")
    group.add_argument("--drain", type=_seconds, default=1.0, metavar="SECONDS",
                       help="time for clients to notice that the server ends (default: 1)")


def _add_batching(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("batches")
    group.add_argument("--max-batch", type=_count, metavar="N",
                       help="the most rows of a batch; 0 runs each request alone (default: 64)")
    group.add_argument("--delay-us", type=_count, default=0, metavar="US",
                       help="microseconds that a request waits for others (default: 0)")
    group.add_argument("--queue", type=positive, default=1024, metavar="ROWS",
                       help="the most rows that wait for a model (default: 1024)")
    group.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS",
                       help="the longest that a request waits (default: 10)")
    group.add_argument("--size", type=_sizes, action="append", default=[], dest="sizes",
                       metavar="NAME=N,...", help="the numbers that a named size of an ONNX model "
                       "has, beside the rows")
    group.add_argument("--workers", type=positive, default=1, metavar="N",
                       help="processes that share the port; one that dies is replaced (default: "
                       "1)")
    group.add_argument("--threads", type=positive, metavar="N",
                       help="threads of a model, in each worker (default: all processors)")


def _add_texts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("language models")
    group.add_argument("--slots", type=positive, default=8, metavar="N",
                       help="texts that are continued side by side (default: 8)")
    group.add_argument("--context", type=positive, metavar="TOKENS",
                       help="the most tokens of a text with its prompt (default: what the model "
                       "has positions for, at most 2048)")
    group.add_argument("--cache-tokens", type=positive, metavar="TOKENS",
                       help="tokens of all texts that the cache has room for; texts wait for room "
                       "(default: the context of every slot)")


def _named_path(text: str) -> tuple[str, Path]:
    name, sign, path = text.partition("=")
    if not sign or not path:
        raise argparse.ArgumentTypeError(f"{text!r}: write it like digits=digits.onnx")
    if not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{name!r} is no name of a model: use letters, digits, "
                                         "'_', '-' and '.'")
    return name, Path(path)


def _port(text: str) -> int:
    return _ranged(text, 65535)


def _count(text: str) -> int:
    return _ranged(text, 1 << 40)


def _ranged(text: str, most: int) -> int:
    if not text.isdecimal() or int(text) > most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {most}")
    return int(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _sizes(text: str) -> tuple[str, tuple[int, ...]]:
    name, sign, numbers = text.rpartition("=")
    parts = numbers.split(",")
    if not sign or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: write it like length=16,32")
    return name, tuple(map(int, parts))


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    if not options.models and options.repository is None:
        raise WrongUsage("no model is named", "write fusewire serve digits=digits.onnx, or "
                         "--repository FOLDER")
    if options.repository is not None and not options.repository.is_dir():
        raise WrongUsage(f"there is no folder {options.repository}", "name the folder of models")
    try:
        serving = importlib.import_module("fusewire.serving.launch")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fusewire"):
            raise
        raise Failed(f"a server needs the package {error.name}",
                     'pip install "fusewire[serve]"') from None
    serving.launch(options, screen.say)
    return {}


COMMAND = Command(
    "answer requests for models over HTTP and gRPC",
    "Serves models by the Open Inference Protocol, and language models by OpenAI's interface. The "
    "server is ready when code for every batch size is compiled. SIGTERM and Ctrl-C end it "
    "behind the requests that it has taken.",
    {"serve digits=digits.onnx": "http://127.0.0.1:8000/v2/models/digits/infer",
     "serve text=model.onnx --size length=32,128 --max-batch 8":
         "code for two lengths and batches of 1, 2, 4 and 8 rows",
     "serve chat=Qwen3-0.6B --slots 4":
         "http://127.0.0.1:8000/v1/chat/completions",
     "serve net=net.py --host 0.0.0.0 --tokens tokens.txt":
         "for other machines, with the Model that load() of net.py returns"},
    _add_arguments, _run)
