// Halves as float32 and back, by their bits: the same on every processor.
#include "interface.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// value / 2**shift, rounded to nearest even.
static uint32_t shifted(uint32_t value, unsigned shift) {
    const uint32_t half = 1u << (shift - 1), odd = value >> shift & 1u;
    return (value + half - 1 + odd) >> shift;
}

extern "C" {

float fw_bf16_to_f32(emulator_half bits) { return of_bits((uint32_t)bits << 16); }

emulator_half fw_f32_to_bf16(float value) {
    const uint32_t bits = bits_of(value);
    if (isnan(value)) return (emulator_half)(bits >> 16 | 0x40);  // quiet, whatever is cut off
    return (emulator_half)shifted(bits, 16);
}

float fw_f16_to_f32(emulator_half bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00) return of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    const float scaled = of_bits(rest << 13) * 0x1p112f;  // the exponents' biases are 15 and 127
    return of_bits(sign | bits_of(scaled));
}

emulator_half fw_f32_to_f16(float value) {
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (isnan(value)) return (emulator_half)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= bits_of(65520.0f)) return (emulator_half)(sign | 0x7c00);
    if (rest < bits_of(0x1p-14f)) {  // a multiple of 2**-24, which the addition rounds to
        const float rounded = of_bits(rest) + 0.5f;
        return (emulator_half)(sign | (bits_of(rounded) - bits_of(0.5f)));
    }
    return (emulator_half)(sign | shifted(rest - (112u << 23), 13));
}

}
