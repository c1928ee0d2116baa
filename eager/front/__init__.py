"""Saves and loads tensors, and advises users of other libraries; the top of eager."""
