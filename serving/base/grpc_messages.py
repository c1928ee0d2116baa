"""The messages of the Open Inference Protocol for gRPC, built from a table of their fields.

The numbers and types are those of the published protocol. They are data here, since generated
modules are tied to one version of protobuf.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = "inference.GRPCInferenceService"

_MODEL = "string name = 1, string version = 2"
_TENSOR = "string name = 1, string datatype = 2, repeated int64 shape = 3"
_PARAMETERS = "map InferParameter parameters = {}"
_REPOSITORY = "string repository_name = 1, string model_name = 2, " \
    "map ModelRepositoryParameter parameters = 3"
_DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output",
              "cache_hit", "cache_miss")

FIELDS = {
    "ServerLiveRequest": "", "ServerLiveResponse": "bool live = 1",
    "ServerReadyRequest": "", "ServerReadyResponse": "bool ready = 1",
    "ModelReadyRequest": _MODEL, "ModelReadyResponse": "bool ready = 1",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": _MODEL + ", repeated string extensions = 3",
    "ModelMetadataRequest": _MODEL,
    "ModelMetadataResponse.TensorMetadata": _TENSOR,
    "ModelMetadataResponse": "string name = 1, repeated string versions = 2, string platform = 3, "
    "repeated ModelMetadataResponse.TensorMetadata inputs = 4, "
    "repeated ModelMetadataResponse.TensorMetadata outputs = 5",
    "InferParameter": "oneof bool bool_param = 1, oneof int64 int64_param = 2, "
    "oneof string string_param = 3, oneof double double_param = 4, oneof uint64 uint64_param = 5",
    "InferTensorContents": "repeated bool bool_contents = 1, repeated int32 int_contents = 2, "
    "repeated int64 int64_contents = 3, repeated uint32 uint_contents = 4, "
    "repeated uint64 uint64_contents = 5, repeated float fp32_contents = 6, "
    "repeated double fp64_contents = 7, repeated bytes bytes_contents = 8",
    "ModelInferRequest.InferInputTensor": f"{_TENSOR}, {_PARAMETERS.format(4)}, "
    "InferTensorContents contents = 5",
    "ModelInferRequest.InferRequestedOutputTensor": "string name = 1, " + _PARAMETERS.format(2),
    "ModelInferRequest": "string model_name = 1, string model_version = 2, string id = 3, "
    f"{_PARAMETERS.format(4)}, repeated ModelInferRequest.InferInputTensor inputs = 5, "
    "repeated ModelInferRequest.InferRequestedOutputTensor outputs = 6, "
    "repeated bytes raw_input_contents = 7",
    "ModelInferResponse.InferOutputTensor": f"{_TENSOR}, {_PARAMETERS.format(4)}, "
    "InferTensorContents contents = 5",
    "ModelInferResponse": "string model_name = 1, string model_version = 2, string id = 3, "
    f"{_PARAMETERS.format(4)}, repeated ModelInferResponse.InferOutputTensor outputs = 5, "
    "repeated bytes raw_output_contents = 6",
    "ModelStreamInferResponse": "string error_message = 1, ModelInferResponse infer_response = 2",
    "ModelStatisticsRequest": _MODEL,
    "StatisticDuration": "uint64 count = 1, uint64 ns = 2",
    "InferStatistics": ", ".join(f"StatisticDuration {name} = {i}"
                                 for i, name in enumerate(_DURATIONS, 1)),
    "InferBatchStatistics": "uint64 batch_size = 1, StatisticDuration compute_input = 2, "
    "StatisticDuration compute_infer = 3, StatisticDuration compute_output = 4",
    "ModelStatistics": _MODEL + ", uint64 last_inference = 3, uint64 inference_count = 4, "
    "uint64 execution_count = 5, InferStatistics inference_stats = 6, "
    "repeated InferBatchStatistics batch_stats = 7",
    "ModelStatisticsResponse": "repeated ModelStatistics model_stats = 1",
    "ModelRepositoryParameter": "oneof bool bool_param = 1, oneof int64 int64_param = 2, "
    "oneof string string_param = 3, oneof bytes bytes_param = 4",
    "RepositoryIndexRequest": "string repository_name = 1, bool ready = 2",
    "RepositoryIndexResponse.ModelIndex": _MODEL + ", string state = 3, string reason = 4",
    "RepositoryIndexResponse": "repeated RepositoryIndexResponse.ModelIndex models = 1",
    "RepositoryModelLoadRequest": _REPOSITORY, "RepositoryModelLoadResponse": "",
    "RepositoryModelUnloadRequest": _REPOSITORY, "RepositoryModelUnloadResponse": "",
}
"""A message -> its fields, as in a .proto file; `map T` stands for map<string, T>, and `oneof` for
a field of the only oneof of its message."""

_FIELD = re.compile(r"(?:(repeated|map|oneof) )?([\w.]+) (\w+) = (\d+)")
_Field = descriptor_pb2.FieldDescriptorProto


def _classes() -> dict[str, Any]:
    """The classes of all messages, by name. They are in a pool of their own, since other packages
    define the same messages."""
    file = descriptor_pb2.FileDescriptorProto(
        name="fusewire/inference.proto", package=PACKAGE, syntax="proto3")
    found: dict[str, Any] = {}
    for name in sorted(FIELDS, key=lambda name: name.count(".")):
        outer, _, inner = name.rpartition(".")
        messages = found[outer].nested_type if outer else file.message_type
        found[name] = messages.add(name=inner)
    for name, fields in FIELDS.items():
        for match in _FIELD.finditer(fields):
            _add_field(found[name], name, *match.groups())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
            for name in FIELDS}


def _add_field(message: Any, owner: str, label: str | None, kind: str, name: str, number: str
               ) -> None:
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if label in ("repeated", "map"):
        field.label = _Field.LABEL_REPEATED
    if label == "oneof":
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    if label == "map":
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, "", None, "string", "key", "1")
        _add_field(entry, "", None, kind, "value", "2")
        kind = f"{owner}.{entry.name}"
    _set_type(field, kind)


def _set_type(field: Any, kind: str) -> None:
    number = getattr(_Field, f"TYPE_{kind.upper()}", None)
    if number is not None:
        field.type = number
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


MESSAGES: dict[str, Any] = _classes()
"""The class of each message by its name."""
