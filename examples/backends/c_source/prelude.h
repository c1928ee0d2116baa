#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* 16-bit floats are held as float: these functions read, round and write them. */
static inline uint32_t bits_f32(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
static inline uint64_t bits_f64(double x) { uint64_t y; memcpy(&y, &x, 8); return y; }
static inline float of_bits_f32(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }
static inline double of_bits_f64(uint64_t x) { double y; memcpy(&y, &x, 8); return y; }

static inline float load_bf16(uint16_t x) { return of_bits_f32((uint32_t)x << 16); }
static inline uint16_t store_bf16(float x) {
    uint32_t y = bits_f32(x);
    return isnan(x) ? (uint16_t)(y >> 16 | 64) : (uint16_t)((y + 0x7fff + (y >> 16 & 1)) >> 16); }
static inline float load_f16(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = x & 0x7fff;
    if (rest >= 0x7c00) return of_bits_f32(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    float y = rest < 0x400 ? ldexpf((float)rest, -24) : of_bits_f32((rest << 13) + (112u << 23));
    return of_bits_f32(sign | bits_f32(y)); }
static inline uint16_t store_f16(float x) {
    uint32_t y = bits_f32(x), sign = y >> 16 & 0x8000, rest = y & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) return (uint16_t)(sign | (uint32_t)nearbyintf(ldexpf(fabsf(x), 24)));
    return (uint16_t)(sign | ((rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13)); }
/* A double rounded to float such that a further rounding gives what one rounding would. */
static inline float to_odd(double x) {
    float y = (float)x;
    if ((double)y == x || isnan(x) || isinf(y)) return y;
    uint32_t z = bits_f32(y);
    if (fabs((double)y) > fabs(x)) z -= 1;
    return of_bits_f32(z | 1); }
static inline float round_bf16(double x) { return load_bf16(store_bf16(to_odd(x))); }
static inline float round_f16(double x) { return load_f16(store_f16(to_odd(x))); }
static inline uint16_t next_small(uint16_t x, float from, float to, uint16_t target) {
    if (isnan(from) || isnan(to)) return (uint16_t)(x | 0x7fff);
    if (from == to) return target;
    if (from == 0) return (uint16_t)(to > 0 ? 1 : 0x8001);
    return (uint16_t)((to > from) == (from > 0) ? x + 1 : x - 1); }
static inline float next_bf16(float x, float y) {
    return load_bf16(next_small(store_bf16(x), x, y, store_bf16(y))); }
static inline float next_f16(float x, float y) {
    return load_f16(next_small(store_f16(x), x, y, store_f16(y))); }

/* Integers: a division by zero gives 0, by -1 it wraps; all bits may be shifted out. */
#define INTEGER(T, NAME) \
    static inline T sign_##NAME(T x) { return (T)((x > 0) - (x < 0)); } \
    static inline T maximum_##NAME(T x, T y) { return x > y ? x : y; } \
    static inline T minimum_##NAME(T x, T y) { return x < y ? x : y; } \
    static inline T fmod_##NAME(T x, T y) { \
        return y == 0 || y == (T)-1 ? 0 : (T)(x % y); } \
    static inline T remainder_##NAME(T x, T y) { \
        if (y == 0) return 0; \
        T rest = y == (T)-1 && (T)-1 < 0 ? 0 : (T)(x % y); \
        return rest != 0 && (rest < 0) != (y < 0) ? (T)(rest + y) : rest; } \
    static inline T floor_divide_##NAME(T x, T y) { \
        if (y == 0) return 0; \
        if (y == (T)-1 && (T)-1 < 0) return (T)(0 - (uint64_t)x); \
        T rest = (T)(x % y); \
        return (T)(x / y - (rest != 0 && (rest < 0) != (y < 0))); } \
    static inline T pow_##NAME(T x, T y) { \
        if (y < 0) return x == 1 ? 1 : x == (T)-1 ? ((y & 1) ? (T)-1 : 1) : 0; \
        uint64_t base = (uint64_t)x, left = (uint64_t)y, result = 1; \
        for (; left; left >>= 1, base *= base) if (left & 1) result *= base; \
        return (T)result; } \
    static inline T shl_##NAME(T x, T y) { \
        return (uint64_t)y < 8 * sizeof(T) ? (T)((uint64_t)x << y) : 0; } \
    static inline T shr_##NAME(T x, T y) { \
        const int last = 8 * sizeof(T) - 1; \
        return (uint64_t)y <= (uint64_t)last ? (T)(x >> y) : x < 0 ? (T)-1 : 0; }
INTEGER(int8_t, int8) INTEGER(int16_t, int16) INTEGER(int32_t, int32) INTEGER(int64_t, int64)
INTEGER(uint8_t, uint8) INTEGER(uint16_t, uint16) INTEGER(uint32_t, uint32)
INTEGER(uint64_t, uint64)

/* Floats: nan wins; quotients and remainders as in Python. */
#define FLOAT(T, NAME, F) \
    static inline T sign_##NAME(T x) { return isnan(x) ? x : (T)((x > 0) - (x < 0)); } \
    static inline T maximum_##NAME(T x, T y) { return isnan(x) ? x : x > y ? x : y; } \
    static inline T minimum_##NAME(T x, T y) { return isnan(x) ? x : x < y ? x : y; } \
    static inline T fmod_##NAME(T x, T y) { return fmod##F(x, y); } \
    static inline T pow_##NAME(T x, T y) { return pow##F(x, y); } \
    static inline T remainder_##NAME(T x, T y) { \
        T rest = fmod##F(x, y); \
        if (rest != 0) return (rest < 0) != (y < 0) ? rest + y : rest; \
        return copysign##F(0, y); } \
    static inline T floor_divide_##NAME(T x, T y) { \
        if (y == 0) return x / y; \
        T rest = fmod##F(x, y), exact = (x - rest) / y; \
        if (rest != 0 && (rest < 0) != (y < 0)) exact = exact - 1; \
        if (exact == 0) return copysign##F(0, x / y); \
        T whole = floor##F(exact); \
        return exact - whole > (T)0.5 ? whole + 1 : whole; }
FLOAT(float, float32, f) FLOAT(double, float64, )

/* The high halves of products, and words of several small numbers. */
static inline uint32_t mulhi(uint32_t x, uint32_t y) {
    return (uint32_t)((uint64_t)x * y >> 32); }
static inline uint32_t pair(float x, float y) {
    return store_bf16(x) | (uint32_t)store_bf16(y) << 16; }
static inline float dot2(uint32_t x, uint32_t y) {
    return load_bf16((uint16_t)x) * load_bf16((uint16_t)y)
         + load_bf16((uint16_t)(x >> 16)) * load_bf16((uint16_t)(y >> 16)); }
