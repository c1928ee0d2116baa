extern "C" __global__ void __launch_bounds__(128, 1)
k0_max(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    const int v1 = (task * 32);
    {
        const int i_2 = v1 + lane;
        float r0_3 = __uint_as_float(0xff800000u);
        #pragma unroll 2
        for (int k_4 = 0; k_4 < 2; ++k_4) {
            {
                __align__(16) float vector5[2];
                const int v6 = ((((i_2 / 8) * 32) + (k_4 * 16)) + ((i_2 % 8) * 2));
                fw_move<8>(vector5, &x0[v6]);
                {
                    r0_3 = fw_maximum(r0_3, vector5[0]);
                }
                {
                    r0_3 = fw_maximum(r0_3, vector5[1]);
                }
            }
        }
        b0[i_2] = r0_3;
    }
}
