// What the source of a kernel sees in place of CUDA's own declarations. It includes no header of
// the system: reading those would take longer than compiling most kernels.
#pragma once
#include "interface.h"

#define FW_EMULATOR 1
#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ static
#define __grid_constant__

#define threadIdx (emulator_thread_index())
#define blockIdx (emulator_block_index())
#define blockDim (emulator_block_size())
#define gridDim (emulator_grid_size())
#define warpSize 32

// Functions of this header are not looked into: what they do to memory they say themselves.
#define EMULATOR_UNSEEN __attribute__((no_sanitize("thread", "undefined")))

// ---- barriers ---------------------------------------------------------------------------------

#define __syncthreads() emulator_barrier(__LINE__)
#define __syncthreads_or(p) emulator_barrier_vote(__LINE__, EMULATOR_ANY, !!(p))
#define __syncthreads_and(p) emulator_barrier_vote(__LINE__, EMULATOR_ALL, !!(p))
#define __syncthreads_count(p) emulator_barrier_vote(__LINE__, EMULATOR_COUNT, !!(p))
#define __syncwarp(...) emulator_warp_barrier(__LINE__, emulator::mask(__VA_ARGS__))
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
#define __trap() emulator_trap(__LINE__)

// ---- what the lanes of a warp exchange --------------------------------------------------------

#define __shfl_sync(mask, value, lane, ...) \
    emulator::shuffle(__LINE__, mask, value, emulator::lane_at(lane, ##__VA_ARGS__))
#define __shfl_xor_sync(mask, value, bits, ...) \
    emulator::shuffle(__LINE__, mask, value, emulator::lane_across(bits, ##__VA_ARGS__))
#define __shfl_up_sync(mask, value, delta, ...) \
    emulator::shuffle(__LINE__, mask, value, emulator::lane_below(delta, ##__VA_ARGS__))
#define __shfl_down_sync(mask, value, delta, ...) \
    emulator::shuffle(__LINE__, mask, value, emulator::lane_above(delta, ##__VA_ARGS__))
#define __ballot_sync(mask, p) emulator_ballot(__LINE__, mask, !!(p))
#define __any_sync(mask, p) (emulator_ballot(__LINE__, mask, !!(p)) != 0)
#define __all_sync(mask, p) (emulator_ballot(__LINE__, mask, !(p)) == 0)
#define __activemask() emulator_active_lanes()

namespace emulator {

inline unsigned mask(unsigned lanes = 0xffffffffu) { return lanes; }

// The lane a value comes from. `width` is a power of two: the warp is cut into groups of so many.
inline unsigned first_of_group(int width) { return emulator_lane() & ~(unsigned)(width - 1); }
inline unsigned in_group(unsigned lane, int width) {
    return lane - first_of_group(width) < (unsigned)width ? lane : emulator_lane();
}
inline unsigned lane_at(int lane, int width = 32) {
    return first_of_group(width) | ((unsigned)lane & (unsigned)(width - 1));
}
inline unsigned lane_across(int bits, int width = 32) {
    unsigned lane = emulator_lane() ^ (unsigned)bits;  // an earlier group may be read, no later one
    return lane < first_of_group(width) + (unsigned)width ? lane : emulator_lane();
}
inline unsigned lane_below(unsigned delta, int width = 32) {
    return in_group(emulator_lane() - delta, width);
}
inline unsigned lane_above(unsigned delta, int width = 32) {
    return in_group(emulator_lane() + delta, width);
}

template <class To, class From> inline To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast between two sizes");
    return __builtin_bit_cast(To, value);
}

#define EMULATOR_SHUFFLE(T, WORD, function) \
    inline T shuffle(int line, unsigned mask, T value, unsigned source) { \
        return bits_as<T>(function(line, mask, source, bits_as<WORD>(value))); \
    }
EMULATOR_SHUFFLE(int, unsigned, emulator_shuffle32)
EMULATOR_SHUFFLE(unsigned, unsigned, emulator_shuffle32)
EMULATOR_SHUFFLE(float, unsigned, emulator_shuffle32)
EMULATOR_SHUFFLE(long, unsigned long long, emulator_shuffle64)
EMULATOR_SHUFFLE(unsigned long, unsigned long long, emulator_shuffle64)
EMULATOR_SHUFFLE(long long, unsigned long long, emulator_shuffle64)
EMULATOR_SHUFFLE(unsigned long long, unsigned long long, emulator_shuffle64)
EMULATOR_SHUFFLE(double, unsigned long long, emulator_shuffle64)

}

#include "device_atomics.h"
#include "device_vectors.h"
#include "device_math.h"
#include "device_tiles.h"
