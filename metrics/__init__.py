"""Measures predictions: metrics that accumulate on the device and merge across processes."""

import sys

from ..eager.front import hints
from .accuracy import Accuracy
from .boxes import BoxIoU, box_iou
from .calibration import CalibrationError
from .confusion import ConfusionMatrix, IoU
from .detection import MeanAveragePrecision
from .images import PSNR, SSIM
from .metric import Metric
from .perplexity import Perplexity
from .precision_recall import F1, Precision, Recall
from .ranking import AUROC, AveragePrecision
from .regression import R2, MeanAbsoluteError, MeanSquaredError
from .text import BLEU, ROUGE

__all__ = ["AUROC", "BLEU", "F1", "PSNR", "R2", "ROUGE", "SSIM", "Accuracy", "AveragePrecision",
           "BoxIoU", "CalibrationError", "ConfusionMatrix", "IoU", "MeanAbsoluteError",
           "MeanAveragePrecision", "MeanSquaredError", "Metric", "Perplexity", "Precision",
           "Recall", "box_iou"]

hints.add("metrics", sys.modules[__name__])
