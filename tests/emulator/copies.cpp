// Copies to shared memory that arrive when they are waited for, and not before: as late as a device
// may be.
#include "memory.h"

#include <string.h>
#include <vector>

struct Copy {
    char* to;
    const char* from;
    size_t size;
    unsigned group;
};

static std::vector<Copy> under_way[MOST_THREADS];
static unsigned groups[MOST_THREADS];  // how many a thread has committed

void forget_copies() {
    for (unsigned i = 0; i < thread_count; ++i) {
        under_way[i].clear();
        groups[i] = 0;
    }
}

extern "C" void emulator_copy_later(int line, void* to, const void* from, unsigned long size) {
    const Place place = Place::of_line(line);
    check_access((const char*)from, size, size, READ, place);
    check_access((const char*)to, size, size, WRITE, place);
    set_arriving((const char*)to, size, true);
    under_way[current->number].push_back(
        {(char*)to, (const char*)from, size, groups[current->number]});
}

extern "C" void emulator_copies_commit() { ++groups[current->number]; }

extern "C" void emulator_copies_wait(int line, int may_be_under_way) {
    std::vector<Copy> left;
    for (const Copy& copy : under_way[current->number]) {
        if (copy.group + (unsigned)may_be_under_way >= groups[current->number]) {
            left.push_back(copy);
            continue;
        }
        set_arriving(copy.to, copy.size, false);
        if (Region* region = launch.checked ? region_at(copy.to) : nullptr)
            check_cells(*region, copy.to, copy.size, WRITE, Place::of_line(line));
        memcpy(copy.to, copy.from, copy.size);
    }
    under_way[current->number] = left;
}
