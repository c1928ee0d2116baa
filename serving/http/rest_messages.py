"""Reads and writes inference requests of REST: JSON, perhaps with binary tensors behind it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..base.data_types import DTYPES, Array, from_bytes, from_values, to_bytes, to_values
from ..base.failures import INVALID, RequestError
from ..service import Answer

HEADER_LENGTH = "inference-header-content-length"


@dataclass(frozen=True)
class InferRequest:
    """A request for outputs.

    Args:
        id: is repeated in the answer; "" if there is none.
        inputs: arrays by name.
        outputs: names; None asks for all.
        binary: names of the outputs that are wanted in bytes; None means all of them.
        timeout: seconds; None if the request sets none.
    """

    id: str
    inputs: dict[str, Array]
    outputs: list[str] | None
    binary: set[str] | None
    timeout: float | None


def read_request(body: bytes, header_length: str | None) -> InferRequest:
    """The request in a body. RequestError names the fault.

    Args:
        body: JSON, and raw bytes of tensors behind it.
        header_length: the length of the JSON, if tensors follow.
    """
    length = _length(header_length, len(body))
    values = read_object(body[:length])
    raw, inputs, at = memoryview(body), {}, length
    for entry in _list(values, "inputs"):
        name, dtype, shape = _described(entry)
        if name in inputs:
            raise RequestError(INVALID, f"input {name!r} is there twice")
        size = parameters_of(entry).get("binary_data_size")
        if size is None:
            inputs[name] = from_values(entry.get("data"), dtype, shape, name)
            continue
        if type(size) is not int or not 0 <= size <= len(body) - at:
            raise RequestError(INVALID, f"input {name!r} has binary_data_size {size!r:.40}, and "
                               f"{len(body) - at} bytes are left")
        inputs[name] = from_bytes(raw[at:at + size], dtype, shape, name)
        at += size
    if at != len(body):
        raise RequestError(INVALID, f"{len(body) - at} bytes follow the last binary input")
    outputs, binary = _outputs(values)
    return InferRequest(_id(values), inputs, outputs, binary, _timeout(values))


def write_response(answer: Answer, request: InferRequest) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON if tensors follow as bytes."""
    entries, tail = [], []
    for spec, array in answer.results:
        entry: dict[str, Any] = {**spec.metadata(), "shape": list(array.shape)}
        if request.binary is None or spec.name in request.binary:
            data = to_bytes(array)
            entry["parameters"] = {"binary_data_size": len(data)}
            tail.append(data)
        else:
            entry["data"] = to_values(array)
        entries.append(entry)
    values: dict[str, Any] = {"model_name": answer.served.name,
                              "model_version": answer.served.version, "outputs": entries}
    if request.id:
        values["id"] = request.id
    head = json.dumps(values, separators=(",", ":")).encode()
    return b"".join([head, *tail]), len(head) if tail else None


# ---- the parts of a request

def _length(text: str | None, most: int) -> int:
    if text is None:
        return most
    if not text.isascii() or not text.isdecimal() or len(text) > 12 or int(text) > most:
        raise RequestError(INVALID, f"{HEADER_LENGTH} is {text!r:.40}, and the body has {most} "
                           "bytes")
    return int(text)


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in a body. RequestError if there is none."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError(INVALID, f"the request is not JSON: {error}") from None
    return _object(values, "the request")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(INVALID, f"{what} is {value!r:.60}; it has to be an object")
    return value


def _list(values: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries = values.get(name)
    if not isinstance(entries, list):
        raise RequestError(INVALID, f"{name} is {entries!r:.60}; it has to be a list")
    return [_object(entry, f"an entry of {name}") for entry in entries]


def _described(entry: dict[str, Any]) -> tuple[str, Any, list[int]]:
    name, kind, shape = entry.get("name"), entry.get("datatype"), entry.get("shape")
    if not isinstance(name, str):
        raise RequestError(INVALID, f"an input has the name {name!r:.60}; it has to be a string")
    if not isinstance(kind, str) or kind not in DTYPES:
        raise RequestError(INVALID, f"input {name!r} has the datatype {kind!r:.60}; the data types "
                           f"are {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > 64:
        raise RequestError(INVALID, f"input {name!r} has the shape {shape!r:.60}; it has to be a "
                           "list of numbers")
    return name, DTYPES[kind], shape


def parameters_of(values: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a request, or of one of its parts."""
    given = values.get("parameters")
    return {} if given is None else _object(given, "parameters")


def _outputs(values: dict[str, Any]) -> tuple[list[str] | None, set[str] | None]:
    """The names of the wanted outputs, and of those that are wanted in bytes."""
    everything = parameters_of(values).get("binary_data_output") is True
    if not values.get("outputs"):
        return None, None if everything else set()
    names, binary = [], set()
    for entry in _list(values, "outputs"):
        name = entry.get("name")
        if not isinstance(name, str):
            raise RequestError(INVALID, f"an output has the name {name!r:.60}; it has to be a "
                               "string")
        names.append(name)
        parameters = parameters_of(entry)
        if "classification" in parameters:
            raise RequestError(INVALID, "the extension `classification` is not supported")
        if parameters.get("binary_data", everything) is True:
            binary.add(name)
    return names, binary


def _id(values: dict[str, Any]) -> str:
    id = values.get("id", "")
    if not isinstance(id, str):
        raise RequestError(INVALID, f"the id is {id!r:.60}; it has to be a string")
    return id


def _timeout(values: dict[str, Any]) -> float | None:
    """Seconds, from the parameter `timeout` in microseconds."""
    given = parameters_of(values).get("timeout")
    if given is None or given == 0:
        return None
    if type(given) is not int or given < 0:
        raise RequestError(INVALID, f"timeout is {given!r:.60}; it has to be microseconds")
    return given / 1e6
