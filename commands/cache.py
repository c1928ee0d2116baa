"""Implements `fusewire cache`, which shows and clears the compiled code on disk."""

from __future__ import annotations

import argparse

from ..codegen.runtime import disk_cache
from ..eager.settings import KNOBS, settings
from .support.command import Command, Result
from .support.screen import Screen, bytes_text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true",
                        help="remove all entries; they are compiled again when needed")


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    folder = disk_cache.folder()
    if folder is None:
        screen.say(f"the disk cache is off: {KNOBS['disk_mb'].variable}=0")
        return {"folder": None, "entries": 0, "bytes": 0, "limit_bytes": 0, "removed": 0}
    removed = disk_cache.clear() if options.clear else 0
    entries = disk_cache.entries(folder)
    result: Result = {
        "folder": folder, "entries": len(entries), "bytes": sum(e.size for e in entries),
        "limit_bytes": settings.disk_mb << 20, "removed": removed}
    screen.table({
        "folder": f"{folder}  (change it with {KNOBS['disk_dir'].variable})",
        "size": f"{bytes_text(result['bytes'])} in {len(entries)} entries",
        "limit": f"{bytes_text(result['limit_bytes'])}  (change it with "
                 f"{KNOBS['disk_mb'].variable}, in MiB); the least recently used entries are "
                 "removed first"})
    if options.clear:
        screen.say(f"removed {removed} entries")
    return result


COMMAND = Command(
    "show or clear the compiled code on disk",
    "Shows the folder that stores compiled code for later processes, its size and its limit. "
    "Entries are never out of date: the key of an entry covers everything its code depends on.",
    {"cache": "folder, size and limit",
     "cache --clear": "frees the space; the next call of a function compiles again",
     "cache --json": "folder, entries, bytes and limit_bytes as JSON"},
    _add_arguments, _run)
