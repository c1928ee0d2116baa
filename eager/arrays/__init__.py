"""Arrays below the tensor: dtypes, shapes, devices, memory, NumPy and CuPy."""
