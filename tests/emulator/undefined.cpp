// What C++ leaves undefined and a launch must not meet. The compiler calls these where it happens
// (-fsanitize=bounds and others; its own library is not linked).
#include "runtime.h"

// What the compiler says of the place; more follows, by kind.
struct Source {
    const char* file;
    uint32_t line, column;
};

struct Type {
    uint16_t kind, details;
    char name[1];  // in quotes
};

struct OfType {
    Source source;
    const Type* type;
};

static Place place_of(const OfType* data) { return Place::of_line((int)data->source.line); }

extern "C" {

void __ubsan_handle_out_of_bounds(const OfType* data, uintptr_t index) {
    fault(place_of(data), "out of bounds: index %td of an array of type %s", (ptrdiff_t)index,
          data->type->name);
}

void __ubsan_handle_divrem_overflow(const OfType* data, uintptr_t, uintptr_t) {
    fault(place_of(data), "a division by zero, or of the least integer by -1");
}

void __ubsan_handle_shift_out_of_bounds(const OfType* data, uintptr_t, uintptr_t by) {
    fault(place_of(data), "a shift of %s by %td bits", data->type->name, (ptrdiff_t)by);
}

#define OVERFLOW(operation, what) \
    void __ubsan_handle_##operation##_overflow(const OfType* data, uintptr_t, uintptr_t) { \
        fault(place_of(data), "overflow: " what " does not fit into %s", data->type->name); \
    }
OVERFLOW(add, "a sum")
OVERFLOW(sub, "a difference")
OVERFLOW(mul, "a product")

void __ubsan_handle_negate_overflow(const OfType* data, uintptr_t) {
    fault(place_of(data), "overflow: the least integer has no negative in %s", data->type->name);
}

}
