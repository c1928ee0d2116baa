// Products of tiles: the lanes of a warp bring the parts of two, and take those of the sum.
#include "runtime.h"

#include <string.h>

const unsigned ROWS = 16, COLUMNS = 8, MOST_INNER = 16;

struct Mma {
    int kind;
    float* d;
    const unsigned *a, *b;
};

struct Tiles {
    double a[ROWS][MOST_INNER], b[MOST_INNER][COLUMNS];
};

static double tf32(unsigned bits) {
    float value;
    bits &= ~0x1fffu;  // a tensor core reads no more of a float
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double half(int kind, unsigned word, unsigned which) {
    const emulator_half bits = (emulator_half)(word >> 16 * which);
    return kind == EMULATOR_F16 ? fw_f16_to_f32(bits) : fw_bf16_to_f32(bits);
}

// A lane's words hold two elements each that lie side by side along the inner axis.
static void place_halves(Tiles& tiles, const Mma& own, unsigned group, unsigned in_group) {
    for (unsigned which = 0; which < 2; ++which) {
        const unsigned k = 2 * in_group + which;
        for (unsigned r = 0; r < 4; ++r)
            tiles.a[group + r % 2 * 8][k + r / 2 * 8] = half(own.kind, own.a[r], which);
        for (unsigned r = 0; r < 2; ++r)
            tiles.b[k + r * 8][group] = half(own.kind, own.b[r], which);
    }
}

static void place_tf32(Tiles& tiles, const Mma& own, unsigned group, unsigned in_group) {
    for (unsigned r = 0; r < 4; ++r)
        tiles.a[group + r % 2 * 8][in_group + r / 2 * 4] = tf32(own.a[r]);
    for (unsigned r = 0; r < 2; ++r) tiles.b[in_group + r * 4][group] = tf32(own.b[r]);
}

static void add_product(const Tiles& tiles, const Mma& own, unsigned group, unsigned in_group) {
    const unsigned inner = own.kind == EMULATOR_TF32 ? 8 : 16;
    for (unsigned r = 0; r < 4; ++r) {
        const unsigned row = group + r / 2 * 8, column = 2 * in_group + r % 2;
        double sum = own.d[r];
        for (unsigned k = 0; k < inner; ++k) sum += tiles.a[row][k] * tiles.b[k][column];
        own.d[r] = (float)sum;
    }
}

static void finish_mma(Thread* warp, unsigned) {
    Tiles tiles;
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const Mma& own = *(const Mma*)warp[lane].collective.data;
        (own.kind == EMULATOR_TF32 ? place_tf32 : place_halves)(tiles, own, lane / 4, lane % 4);
    }
    for (unsigned lane = 0; lane < WARP; ++lane)
        add_product(tiles, *(const Mma*)warp[lane].collective.data, lane / 4, lane % 4);
}

extern "C" void emulator_mma(int line, int kind, float* d, const unsigned* a, const unsigned* b) {
    Mma own = {kind, d, a, b};
    wait_for_lanes({line, 0xffffffffu, "a product of tiles", finish_mma, &own});
}
