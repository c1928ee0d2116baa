"""An error in a worker, on its way to the loop."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ...errors import FusewireError, WorkerError


class _Text(str):
    """A text that KeyError, which shows its argument's `repr`, shows as it is."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclass
class Failure:
    """An error's type and attributes, and a text that says where it came from."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]
    text: str
    traceback: TracebackType | None = None  # from a thread; no process can send its own

    @classmethod
    def of(cls, error: BaseException, where: str) -> Failure:
        """What happened in a worker: `where` says in which, and with which samples."""
        own = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        text = f"{type(error).__name__} in {where}: {error}\n\nThe worker's own traceback:\n{own}"
        attributes = {k: v for k, v in vars(error).items() if k != "layers"}
        given = error.args
        if isinstance(error, OSError) and error.errno is not None:
            given = (error.errno, error.strerror, error.filename)
        return cls(type(error), given, attributes, text.rstrip(), error.__traceback__)

    def sendable(self) -> Failure:
        """This failure without what cannot be pickled."""
        kind = self.kind if _pickles(self.kind) else WorkerError
        arguments = self.arguments if _pickles(self.arguments) else ()
        kept = {k: v for k, v in self.attributes.items() if _pickles(v)}
        return Failure(kind, arguments, kept, self.text)

    def error(self) -> BaseException:
        """An error of the same type that says what happened, and where."""
        try:
            made = self._same_type()
            if issubclass(self.kind, Exception) and self.text in str(made):
                return made.with_traceback(self.traceback)
        except Exception:  # of a type that cannot be made like this
            pass
        return WorkerError(self.text).with_traceback(self.traceback)

    def _same_type(self) -> BaseException:
        """Made past `__init__`, which may take anything."""
        kind, given, text = self.kind, self.arguments, self.text
        if (issubclass(kind, UnicodeError) and len(given) == 5) or issubclass(kind, OSError):
            # their texts come from several arguments, of which one is a text
            place = 4 if issubclass(kind, UnicodeError) else 1
            return kind(*given[:place], text, *given[place + 1:]) if len(given) > 1 else kind(text)
        made = kind.__new__(kind)
        vars(made).update(self.attributes)
        made.args = (_Text(text) if issubclass(kind, KeyError) else text,)
        if isinstance(made, FusewireError):
            made.message, made.layers = text, []
        return made


def _pickles(x: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(x))
    except Exception:
        return False
    return True
