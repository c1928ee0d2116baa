"""Serves this folder to a browser on this machine: python serve.py [port]."""

from __future__ import annotations

import functools
import os
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}


class Handler(SimpleHTTPRequestHandler):
    """Files with the types that browsers ask for, whatever the system believes."""

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        """The type of a file."""
        return TYPES.get(Path(path).suffix) or super().guess_type(path)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing of each file."""


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of a folder; of port 0 the system chooses a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port),
                               functools.partial(Handler, directory=str(folder)))


if __name__ == "__main__":
    running = server(Path(__file__).parent, int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
    print(f"open http://127.0.0.1:{running.server_port}/ (Ctrl-C ends)")
    try:
        running.serve_forever()
    except KeyboardInterrupt:
        pass
