// The memory a kernel may touch, and what is remembered of every element.
#pragma once
#include "runtime.h"

// How memory is accessed. Reads through `volatile` pointers count as atomic: a loop around
// atomicCAS begins with one.
enum Access { READ, WRITE, ATOMIC, ATOMIC_READ };
const unsigned REMEMBERED = 3;  // the last of each of the first three

// Those who accessed an element in one way since the last barrier. Several blocks or warps are
// remembered as `MANY`: one of them is always somebody else.
struct Crowd {
    static const uint32_t MANY = 0xffffffffu;
    uint32_t block;   // 1 + its number; 0: nobody yet
    uint32_t period;  // between which two barriers
    uint32_t warp;
    uint32_t lanes;   // of that one warp
    uint32_t synced;  // the number of these lanes' last __syncwarp
    uint32_t thread;  // the last one
    Place place;      // where it did so
};

struct Cell {
    Crowd crowds[REMEMBERED];
    bool arriving;  // a copy is on its way to it
};

struct Region {
    char* begin;
    char* end;
    const char* name;
    bool writable, shared;
    unsigned long element;  // bytes of one, for messages
    unsigned long grain;    // bytes of a cell
    Cell* cells;
};

// What stands at an address; null outside of everything.
Region* region_at(const char* address);
// The region an address lies closest to; null where there is none.
Region* nearest_region(const char* address);

// Whether the access is a race, or reads what nobody wrote; faults, or is remembered.
void check_cell(Region& region, size_t number, Access access, Place place);
// Whether an access is allowed; faults, or is remembered. The second: of what is known to be in it.
void check_access(const char* address, size_t size, size_t alignment, Access access, Place place);
void check_cells(Region& region, const char* address, size_t size, Access access, Place place);
// Whether a copy is on its way to shared memory. (copies.cpp, memory.cpp)
void set_arriving(const char* address, size_t size, bool arriving);
void forget_copies();
// Writes down an access, where its block is traced. (trace.cpp)
void record(const Region& region, const char* address, size_t size, Access access, Place place);
// Begins a block: shared memory has no values.
void begin_period(bool new_block);
