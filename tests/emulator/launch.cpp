// A launch: its blocks one after the other, the threads of each taking turns.
#include "runtime.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

Launch launch;

extern "C" {
uint3 emulator_thread_index() { return current->index; }
uint3 emulator_block_index() { return launch.block; }
dim3 emulator_block_size() { return launch.block_size; }
dim3 emulator_grid_size() { return launch.grid_size; }
unsigned emulator_lane() { return current->lane; }
}

// The numbers 0 ... count - 1: ascending, descending, or in an order drawn from a seed.
class Order {
public:
    Order(int kind, size_t count) : kind_(kind), random_((unsigned)kind), numbers_(count) {
        std::iota(numbers_.begin(), numbers_.end(), 0u);
        if (kind == 1) std::reverse(numbers_.begin(), numbers_.end());
    }

    const std::vector<unsigned>& next() {
        if (kind_ > 1) std::shuffle(numbers_.begin(), numbers_.end(), random_);
        return numbers_;
    }

private:
    int kind_;
    std::mt19937 random_;
    std::vector<unsigned> numbers_;
};

static void set_thread(unsigned number) {
    Thread& thread = threads[number];
    const dim3 size = launch.block_size;
    thread.index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
    thread.number = number;
    thread.lane = number % WARP;
    thread.warp = number / WARP;
    thread.synced = 1;
    std::fill(thread.seen, thread.seen + WARP, 0u);
}

static void set_block(uint64_t number) {
    const dim3 grid = launch.grid_size;
    launch.block = {(unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y),
                    (unsigned)(number / grid.x / grid.y)};
    launch.block_number = number;
    begin_block_memory();
}

static Thread* first_in(State state) {
    Thread* end = threads + thread_count;
    Thread* found = std::find_if(threads, end, [=](Thread& t) { return t.state == state; });
    return found == end ? nullptr : found;
}

static void run_threads(Order& order) {
    for (unsigned number : order.next()) {
        if (threads[number].state == RUNNING) resume(threads + number);
        if (launch.faulty) return;
    }
}

// Threads that wait for lanes which wait elsewhere, or are gone.
static void report_stuck(Thread* waiting) {
    const Collective& wanted = waiting->collective;
    unsigned absent = 0;
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const unsigned number = waiting->warp * WARP + lane;
        const Thread& other = threads[number];
        const bool there = number < thread_count && other.state == AT_COLLECTIVE
            && other.collective.line == wanted.line && other.collective.mask == wanted.mask;
        if (wanted.mask >> lane & 1u && !there) absent |= 1u << lane;
    }
    fault(Place::of_line(wanted.line),
          "%s with mask %08x: the lanes %08x of warp %u never arrive", wanted.name, wanted.mask,
          absent, waiting->warp);
}

static void check_barrier(Thread* waiting) {
    for (unsigned i = 0; i < thread_count; ++i) {
        const Thread& other = threads[i];
        if (other.state == FINISHED)
            fault(Place::of_line(waiting->line),
                  "divergent barrier: thread %u waits here, thread %u has returned",
                  waiting->number, i);
        else if (other.line != waiting->line)
            fault(Place::of_line(waiting->line),
                  "divergent barrier: thread %u waits here, thread %u at %s", waiting->number, i,
                  described(Place::of_line(other.line)));
        if (launch.faulty) return;
    }
}

static void release_barrier() {
    passed_barrier();
    for (unsigned i = 0; i < thread_count; ++i) threads[i].state = RUNNING;
}

static void run_block(Order& order) {
    while (!launch.faulty) {
        run_threads(order);
        if (launch.faulty || finish_collectives()) continue;
        if (Thread* waiting = first_in(AT_COLLECTIVE)) return report_stuck(waiting);
        Thread* waiting = first_in(AT_BARRIER);
        if (!waiting) return;
        check_barrier(waiting);
        release_barrier();
    }
}

extern "C" int emulator_launch(void (*kernel)(void**), void** arguments, const unsigned* grid,
                               const unsigned* block, size_t dynamic_shared, int checked,
                               int order) {
    launch = Launch();
    launch.checked = checked;
    launch.grid_size = {grid[0], grid[1], grid[2]};
    launch.block_size = {block[0], block[1], block[2]};
    thread_count = block[0] * block[1] * block[2];
    begin_launch_memory(dynamic_shared);
    for (unsigned i = 0; i < thread_count; ++i) set_thread(i);
    Order blocks(order, (size_t)grid[0] * grid[1] * grid[2]), turns(order, thread_count);
    for (unsigned number : blocks.next()) {
        if (launch.faulty) break;
        set_block(number);
        for (unsigned i = 0; i < thread_count; ++i) {
            set_thread(i);
            start_thread(threads + i, kernel, arguments);
        }
        run_block(turns);
    }
    return launch.faulty;
}
