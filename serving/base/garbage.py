"""The garbage collector and what lives as long as a server."""

from __future__ import annotations

import gc


def settle() -> None:
    """Collects garbage, and then leaves all objects that are alive out of later collections.

    Compiled models are a hundred thousand objects. A full collection reads all of them, during
    which no request is answered for a tenth of a second; the objects of requests start several of
    these a second.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
