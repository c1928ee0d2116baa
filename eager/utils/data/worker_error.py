"""Carries an error from a worker to the loop."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ...errors import FusewireError, WorkerError


class _Text(str):
    """A text whose `repr` is the text itself, since KeyError shows the `repr` of its argument."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclass
class Failure:
    """The type and attributes of an error, and a text with its origin."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]
    text: str
    traceback: TracebackType | None = None  # of a thread; a process cannot send one

    @classmethod
    def of(cls, error: BaseException, where: str) -> Failure:
        """The failure for `error`; `where` names the worker and its samples."""
        own = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        text = f"{type(error).__name__} in {where}: {error}\n\nThe worker's own traceback:\n{own}"
        attributes = {k: v for k, v in vars(error).items() if k != "layers"}
        arguments = error.args
        if isinstance(error, OSError) and error.errno is not None:
            arguments = (error.errno, error.strerror, error.filename)
        return cls(type(error), arguments, attributes, text.rstrip(), error.__traceback__)

    def sendable(self) -> Failure:
        """This failure without attributes that cannot be pickled."""
        kind = self.kind if _pickles(self.kind) else WorkerError
        arguments = self.arguments if _pickles(self.arguments) else ()
        attributes = {k: v for k, v in self.attributes.items() if _pickles(v)}
        return Failure(kind, arguments, attributes, self.text)

    def error(self) -> BaseException:
        """An error of the same type, or else a WorkerError, with the text."""
        try:
            error = self._same_type()
            if issubclass(self.kind, Exception) and self.text in str(error):
                return error.with_traceback(self.traceback)
        except Exception:  # some types cannot be created like this
            pass
        return WorkerError(self.text).with_traceback(self.traceback)

    def _same_type(self) -> BaseException:
        """An error of the same type, made without `__init__`, whose arguments are unknown."""
        kind, arguments, text = self.kind, self.arguments, self.text
        if (issubclass(kind, UnicodeError) and len(arguments) == 5) or issubclass(kind, OSError):
            # `str` of these errors is built from several arguments, of which one is a text
            text_position = 4 if issubclass(kind, UnicodeError) else 1
            if len(arguments) <= 1:
                return kind(text)
            return kind(*arguments[:text_position], text, *arguments[text_position + 1:])
        error = kind.__new__(kind)
        vars(error).update(self.attributes)
        error.args = (_Text(text) if issubclass(kind, KeyError) else text,)
        if isinstance(error, FusewireError):
            error.message, error.layers = text, []
        return error


def _pickles(x: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(x))
    except Exception:
        return False
    return True
