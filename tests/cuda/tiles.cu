// Products by tensor cores, for the tests of the emulator: a warp for each 16 by 8 elements.

// c = a b^T; a has rows of k elements, as has b. The next tile is on its way while one is used.
extern "C" __global__ void __launch_bounds__(32)
matmul_bf16(const unsigned short* __restrict__ a, const unsigned short* __restrict__ b,
            float* __restrict__ c, int n, int k) {
    __shared__ __align__(16) unsigned short left[2][16][24];
    __shared__ __align__(16) unsigned short right[2][8][24];
    const int lane = threadIdx.x, group = lane / 4, own = lane % 4 * 2;
    const int row = blockIdx.y * 16, column = blockIdx.x * 8;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int step = -1; step < k / 16; ++step) {
        const int next = step + 1, to = next % 2, r = lane / 2, part = lane % 2 * 8;
        if (next < k / 16) {
            fw_cp_async<16>(left[to][r] + part, a + (row + r) * k + next * 16 + part);
            if (r < 8)
                fw_cp_async<16>(right[to][r] + part, b + (column + r) * k + next * 16 + part);
        }
        fw_cp_commit();
        if (step < 0) continue;
        fw_cp_wait<1>();
        __syncwarp();  // all of the tile is there
        unsigned words[4], others[2];
        words[0] = *(unsigned*)&left[step % 2][group][own];
        words[1] = *(unsigned*)&left[step % 2][group + 8][own];
        words[2] = *(unsigned*)&left[step % 2][group][own + 8];
        words[3] = *(unsigned*)&left[step % 2][group + 8][own + 8];
        others[0] = *(unsigned*)&right[step % 2][group][own];
        others[1] = *(unsigned*)&right[step % 2][group][own + 8];
        fw_mma_m16n8k16_bf16(sums, words, others);
        __syncwarp();  // it is written again in the next turn
    }
    for (int i = 0; i < 4; ++i)
        c[(row + group + i / 2 * 8) * n + column + own + i % 2] = sums[i];
}

extern "C" __global__ void __launch_bounds__(32)
matmul_f16(const unsigned short* __restrict__ a, const unsigned short* __restrict__ b,
            float* __restrict__ c, int n, int k) {
    __shared__ __align__(16) unsigned short left[2][16][24];
    __shared__ __align__(16) unsigned short right[2][8][24];
    const int lane = threadIdx.x, group = lane / 4, own = lane % 4 * 2;
    const int row = blockIdx.y * 16, column = blockIdx.x * 8;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int step = -1; step < k / 16; ++step) {
        const int next = step + 1, to = next % 2, r = lane / 2, part = lane % 2 * 8;
        if (next < k / 16) {
            fw_cp_async<16>(left[to][r] + part, a + (row + r) * k + next * 16 + part);
            if (r < 8)
                fw_cp_async<16>(right[to][r] + part, b + (column + r) * k + next * 16 + part);
        }
        fw_cp_commit();
        if (step < 0) continue;
        fw_cp_wait<1>();
        __syncwarp();  // all of the tile is there
        unsigned words[4], others[2];
        words[0] = *(unsigned*)&left[step % 2][group][own];
        words[1] = *(unsigned*)&left[step % 2][group + 8][own];
        words[2] = *(unsigned*)&left[step % 2][group][own + 8];
        words[3] = *(unsigned*)&left[step % 2][group + 8][own + 8];
        others[0] = *(unsigned*)&right[step % 2][group][own];
        others[1] = *(unsigned*)&right[step % 2][group][own + 8];
        fw_mma_m16n8k16_f16(sums, words, others);
        __syncwarp();  // it is written again in the next turn
    }
    for (int i = 0; i < 4; ++i)
        c[(row + group + i / 2 * 8) * n + column + own + i % 2] = sums[i];
}

// c += a b, of 16 by 8 by 8 elements.
extern "C" __global__ void matmul_tf32(const unsigned* a, const unsigned* b, float* c) {
    const int group = threadIdx.x / 4, own = threadIdx.x % 4;
    const unsigned words[4] = {a[group * 8 + own], a[(group + 8) * 8 + own],
                               a[group * 8 + own + 4], a[(group + 8) * 8 + own + 4]};
    const unsigned others[2] = {b[own * 8 + group], b[(own + 4) * 8 + group]};
    float sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = c[(group + i / 2 * 8) * 8 + own * 2 + i % 2];
    fw_mma_m16n8k8_tf32(sums, words, others);
    for (int i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + own * 2 + i % 2] = sums[i];
}
