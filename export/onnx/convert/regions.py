"""Writes the ops of regions of images as ONNX's operators for detectors."""

from __future__ import annotations

import numpy as np

from ....capture.graph.graph import Node
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from .op_table import row


@row("roi_align")
def _roi_align(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    w, p, rois = c.writer, node.params, xs[1]
    image, corners = (w.op("Slice", [rois, w.ints([start]), w.ints([end]), w.ints([1])], rois.dtype)
                      for start, end in ((0, 1), (1, 5)))
    images = w.cast(w.op("Squeeze", [image, w.ints([1])], rois.dtype), np.int64)
    mode = "half_pixel" if p["aligned"] else "output_half_pixel"
    return w.op("RoiAlign", [xs[0], corners, images], xs[0].dtype,
                coordinate_transformation_mode=mode, output_height=p["output_size"][0],
                output_width=p["output_size"][1], sampling_ratio=p["sampling_ratio"],
                spatial_scale=float(p["spatial_scale"]))


@row("nms_mask")
def _nms_mask(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """NonMaxSuppression, whose result has a row (batch, class, box) for each kept box, as a mask.
    """
    w, p = c.writer, node.params
    boxes = w.op("Unsqueeze", [w.cast(xs[0], np.float32), w.ints([0])], np.float32)
    scores = w.op("Unsqueeze", [w.cast(xs[1], np.float32), w.ints([0, 1])], np.float32)
    most = w.const(np.array([np.iinfo(np.int32).max], np.int64))
    threshold = w.const(np.array([p["iou_threshold"]], np.float32))
    rows = w.op("NonMaxSuppression", [boxes, scores, most, threshold], np.int64)
    kept = w.op("Slice", [rows, w.ints([2]), w.ints([3]), w.ints([1])], np.int64)
    none = c.expand(w.const(np.array(0, np.int32)), (), node.type.shape)
    one = w.const(np.array([1], np.int32))
    count = w.op("Slice", [w.op("Shape", [kept], np.int64), w.ints([0]), w.ints([1])], np.int64)
    ones = w.op("Expand", [one, count], np.int32)
    return w.cast(w.op("ScatterND", [none, kept, ones], np.int32), np.bool_)
