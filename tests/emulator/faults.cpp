// Faults: the first one ends the launch, and is read by the front end.
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>

static char message[1024];
static Place place_of_fault;

const char* described(Place place) {
    static char texts[4][32];
    static unsigned next;
    char* text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "<%u>", place.value);  // the front end puts a line here
    return text;
}

void fault(Place place, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (current)
        snprintf(message + length, sizeof message - (size_t)length,
                 ", in thread (%u, %u, %u) of block (%u, %u, %u)", current->index.x,
                 current->index.y, current->index.z, launch.block.x, launch.block.y,
                 launch.block.z);
    place_of_fault = place;
    launch.faulty = true;
    if (current) suspend();
}

extern "C" const char* emulator_fault_message() { return message; }
extern "C" uint32_t emulator_fault_place() { return place_of_fault.value; }
