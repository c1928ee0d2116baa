// What the prelude of the device says in PTX: products of tiles by a warp, and copies to shared
// memory that arrive later. Fragments are laid out as PTX lays them out.
#pragma once

// d += a b, of 16 by 16 (for tf32 8) elements times as many by 8.
#define fw_mma_m16n8k16_bf16(d, a, b) emulator_mma(__LINE__, EMULATOR_BF16, d, a, b)
#define fw_mma_m16n8k16_f16(d, a, b) emulator_mma(__LINE__, EMULATOR_F16, d, a, b)
#define fw_mma_m16n8k8_tf32(d, a, b) emulator_mma(__LINE__, EMULATOR_TF32, d, a, b)

// fw_cp_async<bytes>(shared, global); then fw_cp_commit(), and fw_cp_wait<groups>() that may be on
// their way still.
#define fw_cp_async emulator::Copies{__LINE__}.copy
#define fw_cp_commit() emulator_copies_commit()
#define fw_cp_wait emulator::Copies{__LINE__}.wait

namespace emulator {
struct Copies {
    int line;
    template <int N> void copy(void* shared, const void* global) const {
        static_assert(N == 4 || N == 8 || N == 16, "cp.async copies 4, 8 or 16 bytes");
        emulator_copy_later(line, shared, global, N);
    }
    template <int N> void wait() const { emulator_copies_wait(line, N); }
};
}
