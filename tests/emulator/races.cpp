// Races: two accesses to an element, at least one a write, that no barrier puts in an order.
#include "memory.h"

static uint32_t period, first_of_block;  // the time between two barriers, counted on and on

void begin_period(bool new_block) {
    ++period;
    if (new_block) first_of_block = period;
}

// Which earlier accesses an access must come after.
static const bool CONFLICT[4][REMEMBERED] = {
    /* READ        */ {false, true, true},
    /* WRITE       */ {true, true, true},
    /* ATOMIC      */ {true, true, false},
    /* ATOMIC_READ */ {false, true, false},
};
static const char* const HERE[] = {"read", "written", "changed atomically", "read"};

// Lanes of my warp in the crowd that did not pass a __syncwarp with me since.
static uint32_t unordered_lanes(const Crowd& crowd) {
    uint32_t found = 0;
    for (uint32_t left = crowd.lanes; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (lane != current->lane && crowd.synced >= current->seen[lane]) found |= 1u << lane;
    }
    return found;
}

static bool races_in_block(const Crowd& crowd) {
    if (crowd.period != period) return false;
    return crowd.warp != current->warp || unordered_lanes(crowd);
}

static bool by_other_block(const Crowd& crowd) {
    return crowd.block && crowd.block != launch.block_number + 1;
}

static void join(Crowd& crowd, Place place) {
    const uint32_t block = (uint32_t)launch.block_number + 1, lane = 1u << current->lane;
    crowd.block = by_other_block(crowd) ? Crowd::MANY : block;
    if (crowd.period != period) {
        crowd.warp = current->warp;
        crowd.lanes = lane;
        crowd.synced = current->synced;
    } else if (crowd.warp != current->warp) {
        crowd.warp = Crowd::MANY;
    } else if (crowd.synced == current->synced) {
        crowd.lanes |= lane;
    } else {  // of those who are ordered before me I speak from now on
        const uint32_t others = unordered_lanes(crowd);
        crowd.lanes = others | lane;
        if (!others || current->synced < crowd.synced) crowd.synced = current->synced;
    }
    crowd.period = period;
    crowd.thread = current->number;
    crowd.place = place;
}

static void report_race(const Region& region, unsigned long element, Access access, Place place,
                        unsigned earlier, const Crowd& crowd) {
    if (!region.shared && by_other_block(crowd))
        fault(place, "race between blocks on %s[%lu]: %s here, %s by another block at %s",
              region.name, element, HERE[access], HERE[earlier], described(crowd.place));
    else
        fault(place, "race on %s[%lu]: %s here, %s by thread %u at %s, no barrier between",
              region.name, element, HERE[access], HERE[earlier], crowd.thread,
              described(crowd.place));
}

static bool is_written(const Cell& cell) {
    return cell.crowds[WRITE].period >= first_of_block
        || cell.crowds[ATOMIC].period >= first_of_block;
}

// After a launch: whether anything there was both read and written. The front end asks for what one
// parameter promises to be nobody else's, and another may write.
extern "C" int emulator_restricted(const char* name, const char* begin, const char* end) {
    Region* region = region_at(begin);
    for (const char* address = begin; region && address < end; address += region->grain) {
        const Cell& cell = region->cells[(size_t)(address - region->begin) / region->grain];
        if (!cell.crowds[READ].block || !cell.crowds[WRITE].block) continue;
        fault(cell.crowds[READ].place, "%s is __restrict__, and what is read here is written at %s",
              name, described(cell.crowds[WRITE].place));
        return 1;
    }
    return 0;
}

void check_cell(Region& region, size_t number, Access access, Place place) {
    Cell& cell = region.cells[number];
    const unsigned long element = number * region.grain / region.element;
    if (region.shared && access != WRITE && !is_written(cell))
        fault(place, "uninitialised shared memory: %s[%lu] is read", region.name,
              element);
    if (cell.arriving)
        fault(place, "%s[%lu] is %s here, and a copy to it, begun at %s, was not waited for",
              region.name, element, HERE[access], described(cell.crowds[WRITE].place));
    for (unsigned earlier = 0; earlier < REMEMBERED; ++earlier) {
        const Crowd& crowd = cell.crowds[earlier];
        if (!CONFLICT[access][earlier] || !crowd.block) continue;
        if (races_in_block(crowd) || (!region.shared && by_other_block(crowd)))
            report_race(region, element, access, place, earlier, crowd);
    }
    if (access < REMEMBERED) join(cell.crowds[access], place);
}
