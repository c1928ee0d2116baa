// The accesses of one block, one after the other, for the front end to count.
#include "memory.h"

#include <vector>

struct Record {
    uint64_t address;  // within its array, for shared memory
    uint32_t place, thread;
    uint16_t size, access, shared, unused;
};

static std::vector<Record> records;
static int64_t traced_block = -1;

// Called by the front end before a launch; -1: none.
extern "C" void emulator_trace_block(int64_t block) {
    traced_block = block;
    records.clear();
}

extern "C" size_t emulator_trace(const Record** found) {
    *found = records.data();
    return records.size();
}

void record(const Region& region, const char* address, size_t size, Access access, Place place) {
    if ((int64_t)launch.block_number != traced_block) return;
    const char* from = region.shared ? region.begin : nullptr;
    records.push_back({(uint64_t)(address - from), place.value, current->number, (uint16_t)size,
                       (uint16_t)access, region.shared, 0});
}
