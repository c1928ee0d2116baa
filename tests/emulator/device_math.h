// Functions of numbers, with CUDA's names. Most are those of the system's libm, declared here.
#pragma once

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif

// ---- libm: a float's function ends in f; the other name takes both, as in CUDA's C++ ------------

#define EMULATOR_UNARY(name) \
    extern "C" double name(double); \
    extern "C" float name##f(float); \
    inline float name(float x) { return name##f(x); }
#define EMULATOR_BINARY(name) \
    extern "C" double name(double, double); \
    extern "C" float name##f(float, float); \
    inline float name(float x, float y) { return name##f(x, y); }

EMULATOR_UNARY(acos) EMULATOR_UNARY(acosh) EMULATOR_UNARY(asin) EMULATOR_UNARY(asinh)
EMULATOR_UNARY(atan) EMULATOR_UNARY(atanh) EMULATOR_UNARY(cbrt) EMULATOR_UNARY(ceil)
EMULATOR_UNARY(cos) EMULATOR_UNARY(cosh) EMULATOR_UNARY(erf) EMULATOR_UNARY(erfc)
EMULATOR_UNARY(exp) EMULATOR_UNARY(exp10) EMULATOR_UNARY(exp2) EMULATOR_UNARY(expm1)
EMULATOR_UNARY(fabs) EMULATOR_UNARY(floor) EMULATOR_UNARY(lgamma) EMULATOR_UNARY(log)
EMULATOR_UNARY(log10) EMULATOR_UNARY(log1p) EMULATOR_UNARY(log2) EMULATOR_UNARY(logb)
EMULATOR_UNARY(nearbyint) EMULATOR_UNARY(rint) EMULATOR_UNARY(round) EMULATOR_UNARY(sin)
EMULATOR_UNARY(sinh) EMULATOR_UNARY(sqrt) EMULATOR_UNARY(tan) EMULATOR_UNARY(tanh)
EMULATOR_UNARY(tgamma) EMULATOR_UNARY(trunc)
EMULATOR_BINARY(atan2) EMULATOR_BINARY(copysign) EMULATOR_BINARY(fdim) EMULATOR_BINARY(fmod)
EMULATOR_BINARY(hypot) EMULATOR_BINARY(nextafter) EMULATOR_BINARY(pow) EMULATOR_BINARY(remainder)

extern "C" {
double fma(double, double, double);
float fmaf(float, float, float);
double ldexp(double, int);
float ldexpf(float, int);
double frexp(double, int*);
float frexpf(float, int*);
double modf(double, double*);
float modff(float, float*);
void sincos(double, double*, double*);
void sincosf(float, float*, float*);
int ilogb(double);
int ilogbf(float);
long lrint(double);
long lrintf(float);
long long llrint(double);
long long llrintf(float);
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
}
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float ldexp(float x, int n) { return ldexpf(x, n); }
inline long abs(long x) { return labs(x); }
inline long long abs(long long x) { return llabs(x); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

// ---- what kind of number --------------------------------------------------------------------

#define EMULATOR_KIND(name) \
    inline bool name(float x) { return __builtin_##name(x); } \
    inline bool name(double x) { return __builtin_##name(x); }
EMULATOR_KIND(isnan) EMULATOR_KIND(isinf) EMULATOR_KIND(isfinite)
inline bool signbit(float x) { return __builtin_signbitf(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }

// ---- the smaller and the larger: a nan loses, and -0 is smaller than 0 ---------------------------

namespace emulator {
template <class T> inline T smaller(T x, T y) {
    if (isnan(x)) return y;
    if (x == y) return signbit(x) ? x : y;
    return y < x ? y : x;
}
template <class T> inline T larger(T x, T y) {
    if (isnan(x)) return y;
    if (x == y) return signbit(x) ? y : x;
    return y > x ? y : x;
}
}
inline float fminf(float x, float y) { return emulator::smaller(x, y); }
inline float fmaxf(float x, float y) { return emulator::larger(x, y); }
inline double fmin(double x, double y) { return emulator::smaller(x, y); }
inline double fmax(double x, double y) { return emulator::larger(x, y); }
inline float fmin(float x, float y) { return emulator::smaller(x, y); }
inline float fmax(float x, float y) { return emulator::larger(x, y); }

#define EMULATOR_ORDERED(A, B, T) \
    inline T min(A x, B y) { return (T)x < (T)y ? (T)x : (T)y; } \
    inline T max(A x, B y) { return (T)x > (T)y ? (T)x : (T)y; }
#define EMULATOR_ORDERED_INTEGERS(S, U) \
    EMULATOR_ORDERED(S, S, S) EMULATOR_ORDERED(U, U, U) \
    EMULATOR_ORDERED(S, U, U) EMULATOR_ORDERED(U, S, U)
EMULATOR_ORDERED_INTEGERS(int, unsigned)
EMULATOR_ORDERED_INTEGERS(long, unsigned long)
EMULATOR_ORDERED_INTEGERS(long long, unsigned long long)
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
#define EMULATOR_DOUBLES(A, B) \
    inline double min(A x, B y) { return fmin((double)x, (double)y); } \
    inline double max(A x, B y) { return fmax((double)x, (double)y); }
EMULATOR_DOUBLES(double, double) EMULATOR_DOUBLES(float, double) EMULATOR_DOUBLES(double, float)

// ---- arithmetic that the compiler may neither fuse nor approximate --------------------------------

#define __fadd_rn(x, y) ((float)(x) + (float)(y))
#define __fsub_rn(x, y) ((float)(x) - (float)(y))
#define __fmul_rn(x, y) ((float)(x) * (float)(y))
#define __fdiv_rn(x, y) ((float)(x) / (float)(y))
#define __frcp_rn(x) (1.0f / (float)(x))
#define __fsqrt_rn(x) sqrtf(x)
#define __fmaf_rn(x, y, z) fmaf(x, y, z)
#define __dadd_rn(x, y) ((double)(x) + (double)(y))
#define __dsub_rn(x, y) ((double)(x) - (double)(y))
#define __dmul_rn(x, y) ((double)(x) * (double)(y))
#define __ddiv_rn(x, y) ((double)(x) / (double)(y))
#define __drcp_rn(x) (1.0 / (double)(x))
#define __dsqrt_rn(x) sqrt((double)(x))
#define __fma_rn(x, y, z) fma((double)(x), (double)(y), (double)(z))

// The fast ones are exact here: a device's may differ from them in the last places.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)
#define __fdividef(x, y) ((float)(x) / (float)(y))
#define fdividef(x, y) ((float)(x) / (float)(y))
inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __saturatef(float x) { return isnan(x) ? 0.0f : fminf(fmaxf(x, 0.0f), 1.0f); }

// ---- bits ----------------------------------------------------------------------------------------

#define EMULATOR_BIT_CAST(name, From, To) \
    inline To name(From x) { return __builtin_bit_cast(To, x); }
EMULATOR_BIT_CAST(__int_as_float, int, float) EMULATOR_BIT_CAST(__float_as_int, float, int)
EMULATOR_BIT_CAST(__uint_as_float, unsigned, float)
EMULATOR_BIT_CAST(__float_as_uint, float, unsigned)
EMULATOR_BIT_CAST(__longlong_as_double, long long, double)
EMULATOR_BIT_CAST(__double_as_longlong, double, long long)
inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32
                                            | (unsigned)low));
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned chosen = 0;
    for (int i = 0; i < 4; ++i)
        chosen |= (unsigned)(bytes >> (8 * (selector >> (4 * i) & 7u)) & 0xffu) << (8 * i);
    return chosen;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31u)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31u));
}

// ---- whole numbers --------------------------------------------------------------------------------

inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)((unsigned long long)x * y >> 32);
}
inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }

namespace emulator {
// Four bytes of a word times four of another, added to a sum; Byte says how they are signed.
template <class Byte> inline unsigned dot(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8) sum += (unsigned)((Byte)(x >> i) * (Byte)(y >> i));
    return sum;
}
}
inline int __dp4a(int x, int y, int sum) {
    return (int)emulator::dot<signed char>((unsigned)x, (unsigned)y, (unsigned)sum);
}
inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    return emulator::dot<unsigned char>(x, y, sum);
}

// ---- conversions: to a whole number they stay within its range, and nan becomes 0 -----------------

namespace emulator {
template <class To, class From> inline To clamped(From x, double least, double beyond) {
    const To lowest = (To)(To(-1) < To(0) ? To(1) << (8 * sizeof(To) - 1) : 0);
    if (isnan(x)) return sizeof(To) == 8 ? To(1) << 63 : To(0);
    if ((double)x < least) return lowest;
    return (double)x >= beyond ? (To)~lowest : (To)x;
}
}
#define EMULATOR_TO_WHOLE(From, T, To, least, beyond) \
    inline T __##From##2##To##_rz(From x) { \
        return emulator::clamped<T>(trunc(x), least, beyond); } \
    inline T __##From##2##To##_rn(From x) { \
        return emulator::clamped<T>(rint(x), least, beyond); } \
    inline T __##From##2##To##_rd(From x) { \
        return emulator::clamped<T>(floor(x), least, beyond); } \
    inline T __##From##2##To##_ru(From x) { \
        return emulator::clamped<T>(ceil(x), least, beyond); }
#define EMULATOR_TO_WHOLES(From) \
    EMULATOR_TO_WHOLE(From, int, int, -0x1p31, 0x1p31) \
    EMULATOR_TO_WHOLE(From, unsigned, uint, 0.0, 0x1p32) \
    EMULATOR_TO_WHOLE(From, long long, ll, -0x1p63, 0x1p63) \
    EMULATOR_TO_WHOLE(From, unsigned long long, ull, 0.0, 0x1p64)
EMULATOR_TO_WHOLES(float) EMULATOR_TO_WHOLES(double)
#define EMULATOR_FROM_WHOLE(name, From) \
    inline float __##name##2float_rn(From x) { return (float)x; } \
    inline double __##name##2double_rn(From x) { return (double)x; }
EMULATOR_FROM_WHOLE(int, int) EMULATOR_FROM_WHOLE(uint, unsigned)
EMULATOR_FROM_WHOLE(ll, long long) EMULATOR_FROM_WHOLE(ull, unsigned long long)
inline float __double2float_rn(double x) { return (float)x; }

// ---- loads that say how they want to be cached -----------------------------------------------------

#define __ldg(p) (*(p))
#define __ldcs(p) (*(p))
#define __ldcg(p) (*(p))
#define __stcs(p, value) ((void)(*(p) = (value)))
#define __stcg(p, value) ((void)(*(p) = (value)))
