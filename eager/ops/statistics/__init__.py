"""Cumulative sums, sets, quantiles and histograms."""
