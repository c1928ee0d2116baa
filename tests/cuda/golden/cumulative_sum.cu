extern "C" __global__ void __launch_bounds__(32)
k0_cumulative_sum(const float* __restrict__ x0, float* b0) {
    const int lane = 0;
    const int task = blockIdx.x * 32 + threadIdx.x;
    if (task >= 1) return;
    for (int block_1 = task; block_1 < (task + 1); ++block_1) {
        float s0_2 = -0.0f;
        for (int k_3 = 0; k_3 < 100; ++k_3) {
            const int v4 = ((block_1 * 800) + k_3);
            const float v5 = x0[v4];
            s0_2 = (s0_2 + v5);
            b0[v4] = s0_2;
        }
    }
}
