"""Writes the docstrings of functions that are made from the declarations of pointwise ops."""

from __future__ import annotations

OF_ONE = "tensor, array or number, {taken}."
OF_TWO = "tensors, arrays or numbers, {taken}. Shapes broadcast."


def docstring(call: str, doc: str, taken: str, result: str, example: tuple[str, ...]) -> str:
    """The docstring of a function of one or two operands.

    call: the function as users call it, such as `fw.exp`. doc: its first line. taken: the dtypes of
    the operands in words. result: "bool" or "real", or empty for the dtype of the operands.
    example: the operands and the result as they stand inside `fw.tensor(...)`; an operand without
    brackets is a number.
    """
    *operands, numbers = example
    arguments = ", ".join(f"fw.tensor({x})" if x.startswith("[") else x for x in operands)
    errors = "DTypeError: an operand is of another type or dtype."
    if len(operands) == 1:
        names, about, shape, dtype = "x", OF_ONE, "the shape of `x`", "in its dtype"
    else:
        names, about, shape = "x, y", OF_TWO, "the shape to which `x` and `y` broadcast"
        dtype = "in the dtype to which theirs promote"
        errors += "\n        ShapeError: the shapes do not broadcast."
    return f"""{doc}

    Args:
        {names}: {about.format(taken=taken)}

    Returns:
        Tensor of {shape}, {result or dtype}.

    Raises:
        {errors}

    Example:
        >>> import fusewire as fw
        >>> {call}({arguments})
        tensor({numbers})
    """
