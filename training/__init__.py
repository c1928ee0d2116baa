"""Trains models by a readable loop, with checkpoints, exact resume, logs and callbacks."""

import sys

from ..eager.front import hints
from .callback import Callback
from .checkpoints import Checkpoints, checkpoints_in, latest_checkpoint
from .csv_log import CSVLog
from .early_stopping import EarlyStopping
from .errors import StepError
from .history import History
from .html_report import HTMLReport
from .learning_rate_finder import RateSearch, find_learning_rate
from .progress import ProgressBar
from .tensorboard_log import TensorBoardLog
from .trainer import Trainer

__all__ = ["CSVLog", "Callback", "Checkpoints", "EarlyStopping", "HTMLReport", "History",
           "ProgressBar",
           "RateSearch", "StepError", "TensorBoardLog", "Trainer", "checkpoints_in",
           "find_learning_rate", "latest_checkpoint"]

hints.add("training", sys.modules[__name__])
