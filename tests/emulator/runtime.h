// What the parts of the run time know of each other.
#pragma once
#include "interface.h"

#include <stddef.h>
#include <stdint.h>

const unsigned WARP = 32, MOST_THREADS = 1024;

// ---- threads (threads.cpp) ----------------------------------------------------------------------

enum State { RUNNING, AT_BARRIER, AT_COLLECTIVE, FINISHED };

// What the lanes of a warp do together; `finish` runs once all lanes of the mask are there.
struct Collective {
    int line;
    unsigned mask;
    const char* name;
    void (*finish)(struct Thread* warp, unsigned mask);
    void* data;  // each lane's own
};

// One thread of a block, on a stack of its own.
struct Thread {
    uint3 index;
    unsigned number, lane, warp;
    State state;
    int line;               // of the barrier it waits at
    Collective collective;  // what it waits for
    uint32_t synced;        // number of the last __syncwarp it passed, in its warp
    uint32_t seen[WARP];    // up to which __syncwarp it knows what each lane did
    char* stack;
    void* context;          // where to go on
};

extern Thread threads[MOST_THREADS];
extern unsigned thread_count;
extern Thread* current;  // null while no kernel runs

const size_t STACK = 256 * 1024;

void start_thread(Thread* thread, void (*kernel)(void**), void** arguments);
void resume(Thread* thread);
void suspend();  // from a thread back to whoever resumed it

// ---- what lanes do together (collectives.cpp) ---------------------------------------------------

void wait_for_lanes(Collective collective);
bool finish_collectives();  // whether there was anything to finish

// ---- the launch (launch.cpp) --------------------------------------------------------------------

struct Launch {
    uint3 block;  // the present one
    uint64_t block_number;
    dim3 block_size, grid_size;
    bool checked;
    bool faulty;
};
extern Launch launch;

// ---- faults (faults.cpp) ------------------------------------------------------------------------

// A place in the source: a line, or the address of an instruction within the library.
struct Place {
    uint32_t value;
    static Place of_line(int line) { return {(uint32_t)line | 1u << 31}; }
};
const char* described(Place place);  // as the front end understands it, in one of a few buffers

// Ends the launch. Within a kernel it does not return.
void fault(Place place, const char* format, ...) __attribute__((format(printf, 2, 3)));

// ---- memory (memory.cpp) ------------------------------------------------------------------------

void begin_launch_memory(size_t dynamic_shared);
void begin_block_memory();
void passed_barrier();
void* dynamic_shared_memory();
