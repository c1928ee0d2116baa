"""Writes numbers for TensorBoard, by the package `tensorboard`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

try:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    raise ImportError("torch.utils.tensorboard needs the package tensorboard: "
                      "pip install tensorboard") from error


class SummaryWriter:
    """Writes an event file into a folder, by default `runs/<time>_<host>`."""

    def __init__(self, log_dir: str | None = None, comment: str = "", **options: Any) -> None:
        name = f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
        self.log_dir = os.path.join("runs", name) if log_dir is None else str(log_dir)
        self._writer = EventFileWriter(self.log_dir)

    def add_scalar(self, tag: str, scalar_value: Any, global_step: Any = None,
                   walltime: float | None = None, **ignored: Any) -> None:
        """Adds a number under a name."""
        value = Summary.Value(tag=tag, simple_value=float(scalar_value))
        self._writer.add_event(Event(wall_time=time.time() if walltime is None else walltime,
                                     step=0 if global_step is None else int(global_step),
                                     summary=Summary(value=[value])))

    def add_scalars(self, main_tag: str, tag_scalar_dict: Mapping[str, Any],
                    global_step: Any = None, walltime: float | None = None) -> None:
        """Adds several numbers, under the names `main_tag/name`."""
        for name, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step, walltime)

    def flush(self) -> None:
        """Writes the added values to the file."""
        self._writer.flush()

    def close(self) -> None:
        """Writes the added values, and closes the file."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
