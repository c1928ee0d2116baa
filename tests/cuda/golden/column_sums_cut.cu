extern "C" __global__ void __launch_bounds__(128, 1)
k0_sum(const float* __restrict__ x0, float* k0_sum_part0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    const int v1 = ((task % 2) * 32);
    {
        const int i_2 = v1 + lane;
        if (i_2 < min((v1 + 32), 40)) {
            float r0_3 = 0.0f;
            const int v4 = (task / 2);
            const int v5 = (v4 * 66);
            #pragma unroll 4
            for (int k_6 = v5; k_6 < min((v5 + 66), 3000); ++k_6) {
                const float v7 = x0[((k_6 * 40) + i_2)];
                r0_3 = (r0_3 + v7);
            }
            k0_sum_part0[((v4 * 40) + i_2)] = r0_3;
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
            #pragma unroll 4
            for (int p_4 = 0; p_4 < 46; ++p_4) {
                const float v5 = k0_sum_part0[((p_4 * 40) + o_2)];
                r0_3 = (r0_3 + v5);
            }
            b0[o_2] = r0_3;
        }
    }
}
