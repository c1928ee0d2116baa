extern "C" __global__ void __launch_bounds__(128, 1)
k0_sum(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    const int v1 = (task * 32);
    {
        const int i_2 = v1 + lane;
        if (i_2 < min((v1 + 32), 500)) {
            float r0_3 = 0.0f;
            #pragma unroll 4
            for (int k_4 = 0; k_4 < 100; ++k_4) {
                const float v5 = x0[((k_4 * 500) + i_2)];
                r0_3 = (r0_3 + v5);
            }
            b0[i_2] = r0_3;
        }
    }
}
