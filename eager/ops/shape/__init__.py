"""Ops that rearrange elements: views, joins, padding, windows."""
