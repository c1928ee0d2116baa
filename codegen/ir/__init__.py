"""The loop IR: loops over scalars, affine indices, an expression builder and a reference
interpreter."""
