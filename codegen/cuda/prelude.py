"""Device functions in CUDA C that generated kernels call.

NVRTC comes without CUDA's headers, so operations on 16-bit floats are inline PTX. An emulator
defines FW_EMULATOR and provides functions of these names itself.
"""

from __future__ import annotations

DEVICE = r"""
#ifndef FW_EMULATOR
__device__ __forceinline__ float fw_f16_to_f32(unsigned short x) {
    float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
__device__ __forceinline__ unsigned short fw_f32_to_f16(float x) {
    unsigned short y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
__device__ __forceinline__ float fw_bf16_to_f32(unsigned short x) {
    return __uint_as_float((unsigned)x << 16); }
__device__ __forceinline__ unsigned short fw_f32_to_bf16(float x) {
    unsigned short y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
// d += a b, of 16 by 16 elements times 16 by 8: what a lane has of them.
#define FW_MMA(TYPE) \
    __device__ __forceinline__ void fw_mma_m16n8k16_##TYPE( \
            float* d, const unsigned* a, const unsigned* b) { \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #TYPE "." #TYPE ".f32 " \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); }
FW_MMA(f16)
FW_MMA(bf16)
#endif
"""

SCALARS = r"""
// The float nearest to x that 16 bits can hold.
__device__ __forceinline__ float fw_round_f16(float x) { return fw_f16_to_f32(fw_f32_to_f16(x)); }
__device__ __forceinline__ float fw_round_bf16(float x) {
    return fw_bf16_to_f32(fw_f32_to_bf16(x)); }
// A double as that of the two floats around it whose last bit is odd: rounded once more, it comes
// out as if it were rounded only then.
__device__ __forceinline__ float fw_to_odd(double x) {
    float near = (float)x;
    if ((double)near == x || isnan(x) || (__float_as_uint(near) & 1u)) return near;
    bool beyond = fabs((double)near) > fabs(x);
    return __uint_as_float(__float_as_uint(near) + (beyond ? 0xffffffffu : 1u)); }
__device__ __forceinline__ float fw_round_f16(double x) { return fw_round_f16(fw_to_odd(x)); }
__device__ __forceinline__ float fw_round_bf16(double x) { return fw_round_bf16((float)x); }
// The number next to x on the way to y, among those that 16 bits can hold.
__device__ __forceinline__ unsigned short fw_next_bits(
    unsigned short bits, unsigned short goal, float x, float y) {
    if (x == 0) return (unsigned short)((goal & 0x8000u) | 1u);
    return (unsigned short)(((y > x) == (x > 0)) ? bits + 1 : bits - 1); }
__device__ __forceinline__ float fw_next_f16(float x, float y) {
    if (isnan(x) || isnan(y)) return x + y;
    if (x == y) return y;
    return fw_f16_to_f32(fw_next_bits(fw_f32_to_f16(x), fw_f32_to_f16(y), x, y)); }
__device__ __forceinline__ float fw_next_bf16(float x, float y) {
    if (isnan(x) || isnan(y)) return x + y;
    if (x == y) return y;
    return fw_bf16_to_f32(fw_next_bits(fw_f32_to_bf16(x), fw_f32_to_bf16(y), x, y)); }

// nan wins
template <class T> __device__ __forceinline__ T fw_maximum(T x, T y) { return x > y ? x : y; }
template <class T> __device__ __forceinline__ T fw_minimum(T x, T y) { return x < y ? x : y; }
__device__ __forceinline__ float fw_maximum(float x, float y) {
    return isnan(x) ? x : x > y ? x : y; }
__device__ __forceinline__ float fw_minimum(float x, float y) {
    return isnan(x) ? x : x < y ? x : y; }
__device__ __forceinline__ double fw_maximum(double x, double y) {
    return isnan(x) ? x : x > y ? x : y; }
__device__ __forceinline__ double fw_minimum(double x, double y) {
    return isnan(x) ? x : x < y ? x : y; }

template <class T> __device__ __forceinline__ T fw_sign(T x) {
    return (T)((x > (T)0) - (x < (T)0)); }
__device__ __forceinline__ float fw_sign(float x) {
    return isnan(x) ? x : (float)((x > 0) - (x < 0)); }
__device__ __forceinline__ double fw_sign(double x) {
    return isnan(x) ? x : (double)((x > 0) - (x < 0)); }

// Division of integers that never traps: by zero it gives 0, by -1 it wraps.
template <class T> __device__ __forceinline__ T fw_rest(T x, T y) {
    return y == (T)0 || y == (T)-1 && (T)-1 < (T)0 ? (T)0 : (T)(x % y); }
template <class T> __device__ __forceinline__ T fw_remainder(T x, T y) {
    T rest = fw_rest(x, y);
    return rest != (T)0 && ((rest < (T)0) != (y < (T)0)) ? (T)(rest + y) : rest; }
template <class T> __device__ __forceinline__ T fw_floor_divide(T x, T y) {
    if (y == (T)0) return (T)0;
    if (y == (T)-1 && (T)-1 < (T)0) return (T)(0ull - (unsigned long long)x);
    T rest = (T)(x % y);
    return (T)(x / y - (T)(rest != (T)0 && ((rest < (T)0) != (y < (T)0)))); }
__device__ __forceinline__ float fw_remainder(float x, float y) {
    float rest = fmodf(x, y);
    if (rest != 0) return (rest < 0) != (y < 0) ? rest + y : rest;
    return copysignf(0.0f, y); }
__device__ __forceinline__ double fw_remainder(double x, double y) {
    double rest = fmod(x, y);
    if (rest != 0) return (rest < 0) != (y < 0) ? rest + y : rest;
    return copysign(0.0, y); }
__device__ __forceinline__ float fw_floor_divide(float x, float y) {
    if (y == 0) return x / y;
    float rest = fmodf(x, y), exact = (x - rest) / y;
    if (rest != 0 && ((rest < 0) != (y < 0))) exact = exact - 1.0f;
    if (exact == 0) return copysignf(0.0f, x / y);
    float whole = floorf(exact);
    return exact - whole > 0.5f ? whole + 1.0f : whole; }
__device__ __forceinline__ double fw_floor_divide(double x, double y) {
    if (y == 0) return x / y;
    double rest = fmod(x, y), exact = (x - rest) / y;
    if (rest != 0 && ((rest < 0) != (y < 0))) exact = exact - 1.0;
    if (exact == 0) return copysign(0.0, x / y);
    double whole = floor(exact);
    return exact - whole > 0.5 ? whole + 1.0 : whole; }
// x to the power of an integer, wrapping; negative powers are 0 but for those of 1 and -1.
template <class T> __device__ __forceinline__ T fw_integer_pow(T x, T y) {
    if (y < (T)0) return x == (T)1 ? (T)1 : x == (T)-1 ? ((y & (T)1) ? (T)-1 : (T)1) : (T)0;
    unsigned long long base = (unsigned long long)x, left = (unsigned long long)y, result = 1;
    for (; left; left >>= 1, base *= base) if (left & 1) result *= base;
    return (T)result; }
// Shifts in which all bits may leave.
template <class T> __device__ __forceinline__ T fw_shl(T x, T y) {
    unsigned long long by = (unsigned long long)y;
    return by < 8 * sizeof(T) ? (T)((unsigned long long)x << by) : (T)0; }
template <class T> __device__ __forceinline__ T fw_shr(T x, T y) {
    unsigned long long by = (unsigned long long)y;
    const int last = 8 * sizeof(T) - 1;
    return by <= last ? (T)(x >> (int)by) : (T)-1 < (T)0 ? (T)(x >> last) : (T)0; }

// Words of several small numbers, and sums of products of them.
__device__ __forceinline__ unsigned fw_pair(float x, float y) {
    return fw_f32_to_bf16(x) | (unsigned)fw_f32_to_bf16(y) << 16; }
__device__ __forceinline__ float fw_dot2(unsigned x, unsigned y) {
    return fw_bf16_to_f32(x & 0xffffu) * fw_bf16_to_f32(y & 0xffffu)
         + fw_bf16_to_f32(x >> 16) * fw_bf16_to_f32(y >> 16); }
__device__ __forceinline__ unsigned fw_pair16(unsigned x, unsigned y) {
    return (x & 0xffffu) | y << 16; }
__device__ __forceinline__ int fw_dot16(unsigned x, unsigned y) {
    int low = (short)x * (short)y, high = (short)(x >> 16) * (short)(y >> 16);
    return (int)((unsigned)low + (unsigned)high); }
__device__ __forceinline__ unsigned fw_quad8(unsigned a, unsigned b, unsigned c, unsigned d) {
    return (a & 255u) | (b & 255u) << 8 | (c & 255u) << 16 | d << 24; }
__device__ __forceinline__ int fw_dot8(unsigned x, unsigned y) {
    int total = 0;
    for (int n = 0; n < 32; n += 8) total += (int)((x >> n) & 255u) * (int)(signed char)(y >> n);
    return total; }
"""

MEMORY = r"""
// N bytes moved at once, or 16 at a time; both addresses are multiples of that.
template <int N> __device__ __forceinline__ void fw_move(void* to, const void* from) {
    if constexpr (N >= 16) {
        for (int n = 0; n < N / 16; ++n) ((uint4*)to)[n] = ((const uint4*)from)[n];
    } else if constexpr (N == 8) { *(uint2*)to = *(const uint2*)from;
    } else if constexpr (N == 4) { *(unsigned*)to = *(const unsigned*)from;
    } else { *(unsigned short*)to = *(const unsigned short*)from; } }
// What the lane so far away has, of any type.
template <class T> __device__ __forceinline__ T fw_from_lane(T x, int distance) {
    if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)x, distance);
    else return __shfl_xor_sync(0xffffffffu, x, distance); }
"""

TILES = r"""
// M by N products of tiles added to the sums that a lane has of them. Rows and columns, in shared
// memory PITCH elements apart, begin where the lane's first ones are.
template <bool BF16, int M, int N, int PITCH> __device__ __forceinline__ void fw_multiply(
        float* sums, const unsigned short* rows, const unsigned short* columns) {
    unsigned a[M][4], b[N][2];
    #pragma unroll
    for (int i = 0; i < 4 * M; ++i)
        a[i / 4][i % 4] =
            *(const unsigned*)(rows + (i / 4 * 16 + i % 2 * 8) * PITCH + i % 4 / 2 * 8);
    #pragma unroll
    for (int j = 0; j < 2 * N; ++j)
        b[j / 2][j % 2] = *(const unsigned*)(columns + j / 2 * 8 * PITCH + j % 2 * 8);
    #pragma unroll
    for (int n = 0; n < M * N; ++n) {
        if constexpr (BF16) fw_mma_m16n8k16_bf16(sums + 4 * n, a[n / N], b[n % N]);
        else fw_mma_m16n8k16_f16(sums + 4 * n, a[n / N], b[n % N]);
    } }
"""

PRELUDE = DEVICE + SCALARS + MEMORY + TILES
