extern "C" __global__ void __launch_bounds__(128, 1)
k0_sum(const float* __restrict__ x0, float* k0_sum_part0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    const int v1 = ((task % 2) * 32);
    {
        const int i_2 = v1 + lane;
        if (i_2 < min((v1 + 32), 40)) {
            float r0_3 = 0.0f;
            double r0_total_4 = 0.0;
            const int v5 = (task / 2);
            const int v6 = (v5 * 66);
            const int v7 = min((v6 + 66), 3000);
            for (int k_block_8 = 0; k_block_8 < ((max((v7 - v6), 0) + 21) / 22); ++k_block_8) {
                float r0_block_9 = 0.0f;
                const int v10 = (v6 + (k_block_8 * 22));
                #pragma unroll 4
                for (int k_11 = v10; k_11 < min((v10 + 22), v7); ++k_11) {
                    const float v12 = x0[((k_11 * 40) + i_2)];
                    r0_block_9 = (r0_block_9 + v12);
                }
                r0_total_4 = (r0_total_4 + ((double)r0_block_9));
            }
            r0_3 = (r0_3 + ((float)r0_total_4));
            k0_sum_part0[((v5 * 40) + i_2)] = r0_3;
        }
    }
}
extern "C" __global__ void __launch_bounds__(64, 1)
k1_sum_total(const float* __restrict__ k0_sum_part0, float* b0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 2 + threadIdx.x / 32;
    const int v1 = (task * 32);
    {
        const int o_2 = v1 + lane;
        if (o_2 < min((v1 + 32), 40)) {
            float r0_3 = 0.0f;
            double r0_total_4 = 0.0;
            for (int p_block_5 = 0; p_block_5 < 2; ++p_block_5) {
                float r0_block_6 = 0.0f;
                const int v7 = (p_block_5 * 23);
                #pragma unroll 4
                for (int p_8 = v7; p_8 < (v7 + 23); ++p_8) {
                    const float v9 = k0_sum_part0[((p_8 * 40) + o_2)];
                    r0_block_6 = (r0_block_6 + v9);
                }
                r0_total_4 = (r0_total_4 + ((double)r0_block_6));
            }
            r0_3 = (r0_3 + ((float)r0_total_4));
            b0[o_2] = r0_3;
        }
    }
}
