extern "C" __global__ void __launch_bounds__(128, 1)
k0_sum(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    const int v1 = (task * 32);
    {
        const int i_2 = v1 + lane;
        if (i_2 < min((v1 + 32), 500)) {
            float r0_3 = 0.0f;
            double r0_total_4 = 0.0;
            for (int k_block_5 = 0; k_block_5 < 4; ++k_block_5) {
                float r0_block_6 = 0.0f;
                const int v7 = (k_block_5 * 25);
                #pragma unroll 4
                for (int k_8 = v7; k_8 < (v7 + 25); ++k_8) {
                    const float v9 = x0[((k_8 * 500) + i_2)];
                    r0_block_6 = (r0_block_6 + v9);
                }
                r0_total_4 = (r0_total_4 + ((double)r0_block_6));
            }
            r0_3 = (r0_3 + ((float)r0_total_4));
            b0[i_2] = r0_3;
        }
    }
}
