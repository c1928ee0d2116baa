// How the front end calls a kernel, and learns what it takes.
#pragma once

namespace emulator {

// A parameter as one number: 16 times its size, and one of these.
enum Kind { OTHER, POINTER, SIGNED, UNSIGNED, FLOAT };
template <class T> struct KindOf { static const int value = OTHER; };
template <class T> struct KindOf<T*> { static const int value = POINTER; };
#define EMULATOR_KIND_OF(T, kind) \
    template <> struct KindOf<T> { static const int value = kind; };
EMULATOR_KIND_OF(signed char, SIGNED) EMULATOR_KIND_OF(unsigned char, UNSIGNED)
EMULATOR_KIND_OF(char, SIGNED) EMULATOR_KIND_OF(bool, UNSIGNED)
EMULATOR_KIND_OF(short, SIGNED) EMULATOR_KIND_OF(unsigned short, UNSIGNED)
EMULATOR_KIND_OF(int, SIGNED) EMULATOR_KIND_OF(unsigned, UNSIGNED)
EMULATOR_KIND_OF(long, SIGNED) EMULATOR_KIND_OF(unsigned long, UNSIGNED)
EMULATOR_KIND_OF(long long, SIGNED) EMULATOR_KIND_OF(unsigned long long, UNSIGNED)
EMULATOR_KIND_OF(float, FLOAT) EMULATOR_KIND_OF(double, FLOAT)

template <class... A> EMULATOR_UNSEEN int describe(void (*)(A...), int* found) {
    const int all[] = {0, (int)(16 * sizeof(A)) + KindOf<A>::value...};
    for (unsigned i = 0; i < sizeof...(A); ++i) found[i] = all[i + 1];
    return (int)sizeof...(A);
}

template <int... I> struct Numbers {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Numbers<I...> numbers; };

template <class... A, int... I>
EMULATOR_UNSEEN void call(void (*kernel)(A...), void** arguments, Numbers<I...>) {
    kernel(*(A*)arguments[I]...);
}
template <class... A> EMULATOR_UNSEEN void call(void (*kernel)(A...), void** arguments) {
    call(kernel, arguments, typename Count<(int)sizeof...(A)>::numbers());
}

}

#define EMULATOR_KERNEL(name) \
    extern "C" EMULATOR_UNSEEN void emulator_call_##name(void** a) { emulator::call(name, a); } \
    extern "C" EMULATOR_UNSEEN int emulator_types_##name(int* found) { \
        return emulator::describe(name, found); \
    }

// Where the library lies in memory: its constants may be read, and places count from its beginning.
#define EMULATOR_IMAGE \
    extern "C" { \
    extern char __ehdr_start[] __attribute__((visibility("hidden"))); \
    extern char _end[] __attribute__((visibility("hidden"))); \
    EMULATOR_UNSEEN char* emulator_image(int end) { return end ? _end : __ehdr_start; } \
    }
