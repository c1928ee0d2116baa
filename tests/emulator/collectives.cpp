// Where threads wait for each other: barriers of a block, and what the lanes of a warp do together.
#include "runtime.h"

#include <algorithm>
#include <string.h>

template <class F> static void for_lanes(Thread* warp, unsigned mask, F&& action) {
    for (unsigned lane = 0; lane < WARP; ++lane)
        if (mask >> lane & 1u) action(warp[lane]);
}

// ---- barriers of a block ------------------------------------------------------------------------

static int votes[MOST_THREADS];

extern "C" void emulator_barrier(int line) {
    current->state = AT_BARRIER;
    current->line = line;
    suspend();
}

extern "C" int emulator_barrier_vote(int line, int kind, int predicate) {
    votes[current->number] = predicate;
    emulator_barrier(line);
    const int count = (int)std::count(votes, votes + thread_count, 1);
    emulator_barrier(line);  // nobody votes again before all have counted
    if (kind == EMULATOR_COUNT) return count;
    return kind == EMULATOR_ANY ? count > 0 : count == (int)thread_count;
}

// ---- what the lanes of a warp do together -------------------------------------------------------

void wait_for_lanes(Collective collective) {
    if (!(collective.mask >> current->lane & 1u))
        fault(Place::of_line(collective.line), "%s: lane %u is not in its own mask %08x",
              collective.name, current->lane, collective.mask);
    current->collective = collective;
    current->state = AT_COLLECTIVE;
    suspend();
}

static bool all_there(Thread* warp, unsigned lanes, const Collective& wanted) {
    for (unsigned lane = 0; lane < WARP; ++lane) {
        if (!(wanted.mask >> lane & 1u)) continue;
        const Collective& other = warp[lane].collective;
        if (lane >= lanes || warp[lane].state != AT_COLLECTIVE || other.line != wanted.line
                || other.mask != wanted.mask || other.finish != wanted.finish)
            return false;
    }
    return true;
}

bool finish_collectives() {
    bool any = false;
    for (unsigned i = 0; i < thread_count && !launch.faulty; ++i) {
        if (threads[i].state != AT_COLLECTIVE) continue;
        const Collective wanted = threads[i].collective;
        Thread* warp = threads + i / WARP * WARP;
        if (!all_there(warp, std::min(WARP, thread_count - i / WARP * WARP), wanted)) continue;
        any = true;
        for_lanes(warp, wanted.mask, [](Thread& lane) { lane.state = RUNNING; });
        wanted.finish(warp, wanted.mask);
    }
    return any;
}

// A shuffle or a vote orders no accesses to memory; this alone does.
static void finish_warp_barrier(Thread* warp, unsigned mask) {
    uint32_t seen[WARP] = {}, last = 0;
    for_lanes(warp, mask, [&](Thread& lane) {
        for (unsigned i = 0; i < WARP; ++i) seen[i] = std::max(seen[i], lane.seen[i]);
    });
    for (unsigned i = 0; i < WARP; ++i) last = std::max(last, warp[i].synced);
    for_lanes(warp, mask, [&](Thread& lane) { seen[lane.lane] = last + 1; });
    for_lanes(warp, mask, [&](Thread& lane) {
        lane.synced = last + 1;
        memcpy(lane.seen, seen, sizeof seen);
    });
}

extern "C" void emulator_warp_barrier(int line, unsigned mask) {
    wait_for_lanes({line, mask, "__syncwarp", finish_warp_barrier, nullptr});
}

struct Vote {
    int predicate;
    unsigned result;
};

static void finish_ballot(Thread* warp, unsigned mask) {
    unsigned result = 0;
    for_lanes(warp, mask, [&](Thread& lane) {
        if (((Vote*)lane.collective.data)->predicate) result |= 1u << lane.lane;
    });
    for_lanes(warp, mask, [&](Thread& lane) { ((Vote*)lane.collective.data)->result = result; });
}

extern "C" unsigned emulator_ballot(int line, unsigned mask, int predicate) {
    Vote vote = {predicate, 0};
    wait_for_lanes({line, mask, "a vote of lanes", finish_ballot, &vote});
    return vote.result;
}

struct Shuffle {
    unsigned source;
    unsigned long long value, result;
};

static void finish_shuffle(Thread* warp, unsigned mask) {
    for_lanes(warp, mask, [&](Thread& lane) {
        Shuffle* shuffle = (Shuffle*)lane.collective.data;
        if (mask >> shuffle->source & 1u)
            shuffle->result = ((Shuffle*)warp[shuffle->source].collective.data)->value;
        else
            fault(Place::of_line(lane.collective.line),
                  "a shuffle: lane %u of warp %u reads lane %u, which is not in the mask %08x",
                  lane.lane, lane.warp, shuffle->source, mask);
    });
}

extern "C" unsigned long long emulator_shuffle64(int line, unsigned mask, unsigned source,
                                                 unsigned long long value) {
    Shuffle shuffle = {source, value, 0};
    wait_for_lanes({line, mask, "a shuffle", finish_shuffle, &shuffle});
    return shuffle.result;
}

extern "C" unsigned emulator_shuffle32(int line, unsigned mask, unsigned source, unsigned value) {
    return (unsigned)emulator_shuffle64(line, mask, source, value);
}

extern "C" unsigned emulator_active_lanes() {
    unsigned active = 0;
    for (unsigned i = current->warp * WARP; i < thread_count && i / WARP == current->warp; ++i)
        if (threads[i].state != FINISHED) active |= 1u << (i % WARP);
    return active;
}

extern "C" void emulator_trap(int line) { fault(Place::of_line(line), "the kernel trapped"); }
