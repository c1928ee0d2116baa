"""Loads torchvision also where its compiled part does not load: it was built for CUDA."""

from __future__ import annotations

from house.benchmark_package import benchmark_module

torchvision = benchmark_module("models.torchvision_ops").torchvision
