"""The table against PyTorch is tested where PyTorch is installed: it is no dependency of ours."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
