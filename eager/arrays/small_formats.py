"""Describes the formats of floats of at most 8 bits, by which formulas encode and decode them."""

from __future__ import annotations

from typing import NamedTuple

from .dtypes import (
    DType,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    int2,
    int4,
    uint2,
    uint4,
)


class FloatFormat(NamedTuple):
    """A format with a sign, an exponent and a fraction.

    `fraction`: bits of the fraction. `bias` of the exponent. `sign`: the bit of the sign.
    `largest`: the code of the largest number. `beyond`: the code of larger ones and of inf. `nan`:
    the code of nan. `has_inf`: the codes above `largest` are inf and nan as in IEEE 754.
    `negative_zero`: False where the code of -0 means nan.
    """

    fraction: int
    bias: int
    sign: int
    largest: int
    beyond: int
    nan: int
    has_inf: bool = False
    negative_zero: bool = True

    @property
    def smallest_normal(self) -> float:
        """The number from which on the exponent counts; smaller ones are equally spaced."""
        return 2.0 ** (1 - self.bias)

    @property
    def step(self) -> float:
        """The distance of numbers up to `smallest_normal`, which is the smallest number."""
        return 2.0 ** (1 - self.bias - self.fraction)


FLOATS: dict[DType, FloatFormat] = {
    float8_e4m3fn: FloatFormat(3, 7, 7, 0x7E, 0x7F, 0x7F),
    float8_e5m2: FloatFormat(2, 15, 7, 0x7B, 0x7C, 0x7E, has_inf=True),
    float8_e4m3fnuz: FloatFormat(3, 8, 7, 0x7F, 0x80, 0x80, negative_zero=False),
    float8_e5m2fnuz: FloatFormat(2, 16, 7, 0x7F, 0x80, 0x80, negative_zero=False),
    float4_e2m1fn: FloatFormat(1, 1, 3, 7, 7, 8),  # without nan: it becomes -0, and inf 6
}
INTEGER_BITS: dict[DType, int] = {int4: 4, uint4: 4, int2: 2, uint2: 2}
