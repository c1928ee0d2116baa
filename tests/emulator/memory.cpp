// The memory a kernel may touch: its arguments, shared memory, the constants of its source. The
// compiler calls what stands at the end of this file before each access (-fsanitize=thread; its own
// library is not linked).
#include "memory.h"

#include <algorithm>
#include <memory>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

const size_t STATIC_SHARED = 48 * 1024, ALL_SHARED = 227 * 1024;
const size_t APART = 4096;        // between arrays, so that one behind the end is in none of them
const unsigned char UNSET = 0xff;  // nan as a float, whatever its size

struct Array : Region {
    std::string text;
    std::unique_ptr<char, decltype(&free)> memory{nullptr, free};
    std::unique_ptr<Cell, decltype(&free)> zeroed{nullptr, free};
};

static std::vector<std::unique_ptr<Array>> arrays;  // by address
static std::vector<Array*> shared_arrays;           // by number
static Array* dynamic_array;
static size_t shared_bytes, dynamic_bytes;
static const char *image_begin, *image_end;

// ---- arrays --------------------------------------------------------------------------------------

static Array* add_array(const char* name, char* begin, size_t size, size_t element) {
    std::unique_ptr<Array> array(new Array());
    array->text = name;
    array->begin = begin;
    array->end = begin + size;
    array->name = array->text.c_str();
    array->writable = true;
    array->element = element ? element : 1;
    array->grain = array->element % 4 == 0 ? 4 : array->element % 2 == 0 ? 2 : 1;
    if (launch.checked) {
        array->zeroed.reset((Cell*)calloc(size / array->grain + 1, sizeof(Cell)));
        array->cells = array->zeroed.get();
    }
    auto place = std::upper_bound(arrays.begin(), arrays.end(), begin,
        [](const char* address, const std::unique_ptr<Array>& a) { return address < a->begin; });
    return arrays.insert(place, std::move(array))->get();
}

// Aligned as asked for and no better, so that an access that needs more is always seen.
static Array* add_shared(const char* name, size_t size, size_t alignment, size_t element) {
    const size_t room = (size + APART) / APART * APART + 2 * APART;
    char* memory = (char*)aligned_alloc(APART, room);
    Array* array = add_array(name, memory + APART + alignment, size, element);
    array->memory.reset(memory);
    array->shared = true;
    memset(array->begin, UNSET, size);
    return array;
}

static void check_shared_size() {
    if (shared_bytes > STATIC_SHARED)
        fault(Place::of_line(0), "%zu bytes of static shared memory, and at most %zu are allowed",
              shared_bytes, STATIC_SHARED);
    if (shared_bytes + dynamic_bytes > ALL_SHARED)
        fault(Place::of_line(0), "%zu bytes of shared memory, and at most %zu are allowed",
              shared_bytes + dynamic_bytes, ALL_SHARED);
}

extern "C" void* emulator_shared(int number, const char* name, unsigned long size,
                                 unsigned long alignment, unsigned long element) {
    if (shared_arrays.size() <= (size_t)number) shared_arrays.resize((size_t)number + 1);
    Array*& array = shared_arrays[(size_t)number];
    if (!array) {
        shared_bytes += size;
        check_shared_size();
        array = add_shared(name, size, alignment, element);
    }
    return array->begin;
}

extern "C" void* emulator_dynamic_shared(const char* name, unsigned long alignment,
                                         unsigned long element) {
    if (!dynamic_array)
        dynamic_array = add_shared(name, dynamic_bytes, std::max(alignment, 16ul), element);
    return dynamic_array->begin;
}

Region* region_at(const char* address) {
    auto after = std::upper_bound(arrays.begin(), arrays.end(), address,
        [](const char* a, const std::unique_ptr<Array>& array) { return a < array->begin; });
    if (after == arrays.begin()) return nullptr;
    Array* found = (after - 1)->get();
    return address < found->end ? found : nullptr;
}

static size_t distance(const Region& region, const char* address) {
    if (address < region.begin) return (size_t)(region.begin - address);
    return address < region.end ? 0 : (size_t)(address - region.end);
}

Region* nearest_region(const char* address) {
    auto found = std::min_element(arrays.begin(), arrays.end(), [=](auto& a, auto& b) {
        return distance(*a, address) < distance(*b, address);
    });
    return found == arrays.end() ? nullptr : found->get();
}

// ---- of a launch, of a block -----------------------------------------------------------------------

// Called by the front end before a launch: forgets the last one's memory.
extern "C" void emulator_begin(int checked, const char* begin, const char* end) {
    launch.checked = checked;
    arrays.clear();
    shared_arrays.clear();
    dynamic_array = nullptr;
    shared_bytes = 0;
    image_begin = begin;
    image_end = end;
}

extern "C" void emulator_argument(const char* name, char* begin, size_t size, int writable,
                                  size_t element) {
    add_array(name, begin, size, element)->writable = writable;
}

void begin_launch_memory(size_t dynamic_shared) {
    dynamic_bytes = dynamic_shared;
    check_shared_size();
}

static void empty(Array& array) {
    const size_t size = (size_t)(array.end - array.begin);
    memset(array.begin, UNSET, size);
    for (size_t i = 0; array.cells && i * array.grain < size; ++i) array.cells[i].arriving = false;
}

void begin_block_memory() {
    begin_period(true);
    forget_copies();
    for (auto& array : arrays)
        if (array->shared) empty(*array);
}

void passed_barrier() { begin_period(false); }

// ---- accesses --------------------------------------------------------------------------------------

static const char* const VERB[] = {"read", "write", "atomic operation", "read"};

static bool is_local(const char* address) {
    return address >= current->stack && address < current->stack + STACK;
}

static bool is_constant(const char* address, Access access) {
    return access == READ && address >= image_begin && address < image_end;
}

static void report_outside(const char* address, size_t size, Access access, Place place) {
    const Region* near = nearest_region(address);
    if (!near)
        return fault(place, "out of bounds: a %s of %zu bytes, where there are no arrays",
                     VERB[access], size);
    const long element = (address - near->begin) / (long)near->element;
    fault(place, "out of bounds: a %s of %zu bytes at %s[%ld], which has %zu elements",
          VERB[access], size, near->name, element,
          (size_t)(near->end - near->begin) / near->element);
}

void check_cells(Region& region, const char* address, size_t size, Access access,
                 Place place) {
    const size_t first = (size_t)(address - region.begin) / region.grain;
    const size_t last = (size_t)(address + size - 1 - region.begin) / region.grain;
    for (size_t i = first; i <= last; ++i) check_cell(region, i, access, place);
}

void check_access(const char* address, size_t size, size_t alignment, Access access,
                         Place place) {
    if (!launch.checked || !current || is_local(address)) return;
    Region* region = region_at(address);
    if (!region && is_constant(address, access)) return;
    if (!region || address + size > region->end)
        return report_outside(address, size, access, place);
    if (!region->writable && (access == WRITE || access == ATOMIC))
        fault(place, "a %s to %s, which is read-only", VERB[access], region->name);
    if ((uintptr_t)address % alignment)
        fault(place, "misaligned: a %s of %zu bytes, at byte %td of %s, where the address is no "
              "multiple of %zu", VERB[access], size, address - region->begin, region->name,
              alignment);
    record(*region, address, size, access, place);
    check_cells(*region, address, size, access, place);
}

void set_arriving(const char* address, size_t size, bool arriving) {
    Region* region = region_at(address);
    if (!launch.checked || !region) return;
    for (size_t i = 0; i < size; i += region->grain)
        region->cells[(size_t)(address + i - region->begin) / region->grain].arriving = arriving;
}

static Place place_of(const void* return_address) {
    return {(uint32_t)((const char*)return_address - image_begin) - 1};
}

extern "C" void emulator_atomic(int line, const void* address, unsigned long size) {
    check_access((const char*)address, size, size, ATOMIC, Place::of_line(line));
}

extern "C" void emulator_copy(void* to, const void* from, unsigned long size,
                              unsigned long alignment, const void* return_address) {
    const Place place = place_of(return_address);
    check_access((const char*)from, size, alignment, READ, place);
    check_access((const char*)to, size, alignment, WRITE, place);
    memmove(to, from, size);
}

// An access of a type with a lower alignment than its size is several of a device's.
#define SEEN(name, size, alignment, access) \
    extern "C" void name(const void* address) { \
        check_access((const char*)address, size, alignment, access, \
                     place_of(__builtin_return_address(0))); \
    }
#define SEEN_SIZE(size) \
    SEEN(__tsan_read##size, size, size, READ) \
    SEEN(__tsan_write##size, size, size, WRITE) \
    SEEN(__tsan_unaligned_read##size, size, 1, READ) \
    SEEN(__tsan_unaligned_write##size, size, 1, WRITE) \
    SEEN(__tsan_volatile_read##size, size, size, ATOMIC_READ) \
    SEEN(__tsan_volatile_write##size, size, size, WRITE) \
    SEEN(__tsan_unaligned_volatile_read##size, size, 1, ATOMIC_READ) \
    SEEN(__tsan_unaligned_volatile_write##size, size, 1, WRITE)
SEEN_SIZE(1) SEEN_SIZE(2) SEEN_SIZE(4) SEEN_SIZE(8) SEEN_SIZE(16)

#define SEEN_RANGE(name, access) \
    extern "C" void name(const void* address, size_t size) { \
        check_access((const char*)address, size, 1, access, \
                     place_of(__builtin_return_address(0))); \
    }
SEEN_RANGE(__tsan_read_range, READ)
SEEN_RANGE(__tsan_write_range, WRITE)

extern "C" void __tsan_init() {}  // called when a library of kernels is loaded
