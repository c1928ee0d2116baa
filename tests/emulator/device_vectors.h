// Vector types, aligned as CUDA aligns them.
#pragma once

// Where a function's result goes straight to memory, the compiler tells the run time nothing. So an
// assignment is a function, which is told where from and where to. `noinline`: it knows by its
// return address which line it stands for.
#define EMULATOR_ASSIGNED(type) \
    EMULATOR_UNSEEN __attribute__((noinline)) type& operator=(const type& other) { \
        emulator_copy(this, &other, sizeof(type), alignof(type), __builtin_return_address(0)); \
        return *this; \
    }

#define EMULATOR_VECTORS(T, name) \
    struct __align__(sizeof(T)) name##1 { T x; EMULATOR_ASSIGNED(name##1) }; \
    struct __align__(2 * sizeof(T)) name##2 { T x, y; EMULATOR_ASSIGNED(name##2) }; \
    struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { \
        T x, y, z, w; \
        EMULATOR_ASSIGNED(name##4) \
    }; \
    inline name##1 make_##name##1(T x) { return {x}; } \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define EMULATOR_TRIPLE(T, name) \
    struct name##3 { T x, y, z; EMULATOR_ASSIGNED(name##3) }; \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }

inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
EMULATOR_TRIPLE(int, int)
EMULATOR_TRIPLE(float, float)
EMULATOR_TRIPLE(double, double)

EMULATOR_VECTORS(signed char, char)
EMULATOR_VECTORS(unsigned char, uchar)
EMULATOR_VECTORS(short, short)
EMULATOR_VECTORS(unsigned short, ushort)
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(unsigned, uint)
EMULATOR_VECTORS(long, long)
EMULATOR_VECTORS(unsigned long, ulong)
EMULATOR_VECTORS(long long, longlong)
EMULATOR_VECTORS(unsigned long long, ulonglong)
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)
