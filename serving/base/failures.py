"""Errors of requests, with the status that a client gets."""

from __future__ import annotations

from fusewire import FusewireError

INVALID, NOT_FOUND, TOO_SLOW, TOO_LARGE = 400, 404, 408, 413
GONE = 499  # the client left: nobody reads this status
FAILED, UNAVAILABLE, TIMEOUT = 500, 503, 504


class RequestError(Exception):
    """A request that gets no result.

    Args:
        status: the status of HTTP; gRPC's follows from it.
        reason: what happened, with which values, and what to do, for the client to read.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def failure_of(error: BaseException) -> RequestError:
    """The error of a request whose values made a model raise `error`.

    The reason has no paths and no lines of the server. A check of fusewire, of NumPy or of the
    model's own code (ValueError, IndexError) says that the values are wrong.
    """
    if isinstance(error, RequestError):
        return error
    if isinstance(error, FusewireError):
        help = getattr(error, "help", "")
        return RequestError(INVALID, error.message + (f"; {help}" if help else ""))
    if isinstance(error, (ValueError, IndexError)):
        return RequestError(INVALID, f"the model refuses these values: {error}")
    return RequestError(FAILED, f"the model failed with {type(error).__name__}")
