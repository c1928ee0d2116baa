// What kernels and the run time of the emulator ask of each other. Every `line` is a line of the
// kernels' source.
#pragma once

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

typedef unsigned short emulator_half;  // the bits of a float16 or bfloat16

// How the values of a block's threads become one.
enum { EMULATOR_ANY, EMULATOR_ALL, EMULATOR_COUNT };

extern "C" {

// `const`: a kernel asks within one thread of one block, for which the answers never change. They
// come in registers, so that reading them is no access to memory.
#define EMULATOR_CONSTANT __attribute__((const))
EMULATOR_CONSTANT uint3 emulator_thread_index();
EMULATOR_CONSTANT uint3 emulator_block_index();
EMULATOR_CONSTANT dim3 emulator_block_size();
EMULATOR_CONSTANT dim3 emulator_grid_size();
EMULATOR_CONSTANT unsigned emulator_lane();

// Shared memory: the array of this number, one for the whole block.
void* emulator_shared(int number, const char* name, unsigned long size, unsigned long alignment,
                      unsigned long element);
void* emulator_dynamic_shared(const char* name, unsigned long alignment, unsigned long element);

// Where threads wait for each other.
void emulator_barrier(int line);
int emulator_barrier_vote(int line, int kind, int predicate);
void emulator_warp_barrier(int line, unsigned mask);
unsigned emulator_ballot(int line, unsigned mask, int predicate);
unsigned emulator_shuffle32(int line, unsigned mask, unsigned source, unsigned value);
unsigned long long emulator_shuffle64(int line, unsigned mask, unsigned source,
                                      unsigned long long value);
unsigned emulator_active_lanes();

// An atomic operation on these bytes is about to be done.
void emulator_atomic(int line, const void* address, unsigned long size);
void emulator_trap(int line);

// Copies a vector. It is done, and said to be done, at the instruction behind `return_address`.
void emulator_copy(void* to, const void* from, unsigned long size, unsigned long alignment,
                   const void* return_address);

// Products of tiles, and copies that arrive later.
enum { EMULATOR_BF16, EMULATOR_F16, EMULATOR_TF32 };
void emulator_mma(int line, int kind, float* d, const unsigned* a, const unsigned* b);
void emulator_copy_later(int line, void* to, const void* from, unsigned long size);
void emulator_copies_commit();
void emulator_copies_wait(int line, int may_be_under_way);

// Halves; bits are rounded to nearest even, nan stays nan.
float fw_f16_to_f32(emulator_half bits);
emulator_half fw_f32_to_f16(float value);
float fw_bf16_to_f32(emulator_half bits);
emulator_half fw_f32_to_bf16(float value);

}
