// Atomic operations. Threads of the emulator take turns only where they wait for each other, so a
// plain read and write are one step here; the run time is told, as they are not races.
#pragma once

#define atomicAdd(p, v) emulator::atomic_add(__LINE__, p, v)
#define atomicSub(p, v) emulator::atomic_sub(__LINE__, p, v)
#define atomicMax(p, v) emulator::atomic_max(__LINE__, p, v)
#define atomicMin(p, v) emulator::atomic_min(__LINE__, p, v)
#define atomicExch(p, v) emulator::atomic_exch(__LINE__, p, v)
#define atomicAnd(p, v) emulator::atomic_and(__LINE__, p, v)
#define atomicOr(p, v) emulator::atomic_or(__LINE__, p, v)
#define atomicXor(p, v) emulator::atomic_xor(__LINE__, p, v)
#define atomicCAS(p, expected, v) emulator::atomic_cas(__LINE__, p, expected, v)

namespace emulator {

// The pointer alone decides the type, as among CUDA's overloads.
template <class T> struct type_of { typedef T type; };
template <class T> using Same = typename type_of<T>::type;

#define EMULATOR_ATOMIC(name, result) \
    template <class T> EMULATOR_UNSEEN __attribute__((noinline)) \
    T name(int line, T* place, Same<T> value) { \
        emulator_atomic(line, place, sizeof(T)); \
        T old = *place; \
        *place = (T)(result); \
        return old; \
    }
EMULATOR_ATOMIC(atomic_add, old + value)
EMULATOR_ATOMIC(atomic_sub, old - value)
EMULATOR_ATOMIC(atomic_max, old > value ? old : value)
EMULATOR_ATOMIC(atomic_min, old < value ? old : value)
EMULATOR_ATOMIC(atomic_exch, value)
EMULATOR_ATOMIC(atomic_and, old & value)
EMULATOR_ATOMIC(atomic_or, old | value)
EMULATOR_ATOMIC(atomic_xor, old ^ value)

template <class T> EMULATOR_UNSEEN __attribute__((noinline))
T atomic_cas(int line, T* place, Same<T> expected, Same<T> value) {
    emulator_atomic(line, place, sizeof(T));
    T old = *place;
    if (old == expected) *place = value;
    return old;
}

}
