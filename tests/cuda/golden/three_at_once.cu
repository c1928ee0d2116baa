extern "C" __global__ void __launch_bounds__(256, 2)
k0_multiply_and_2(const float* __restrict__ x0_0, float* b0_0, const float* __restrict__ x0_1, float* b0_1, const float* __restrict__ x2_2, float* b2_2) {
    const int block = blockIdx.x;
    if (block < 2) {
        const float* __restrict__ x0;
        float* b0;
        switch (block) {
        case 0: x0 = x0_0; b0 = b0_0; break;
        default: x0 = x0_1; b0 = b0_1; break;
        }
        const int lane = threadIdx.x;
        const int task = 0;
        const int v1 = (task * 256);
        {
            const int i_2 = v1 + lane;
            if (i_2 < min((v1 + 256), 150)) {
                {
                    __align__(16) float vector3[4];
                    fw_move<16>(vector3, &x0[(i_2 * 4)]);
                    __align__(16) float vector4[4];
                    {
                        float t0_5 = (vector3[0] * 2.0f);
                        vector4[0] = t0_5;
                    }
                    {
                        float t0_6 = (vector3[1] * 2.0f);
                        vector4[1] = t0_6;
                    }
                    {
                        float t0_7 = (vector3[2] * 2.0f);
                        vector4[2] = t0_7;
                    }
                    {
                        float t0_8 = (vector3[3] * 2.0f);
                        vector4[3] = t0_8;
                    }
                    fw_move<16>(&b0[(i_2 * 4)], vector4);
                }
            }
        }
        return;
    }
    if (block < 3) {
        const float* __restrict__ x2 = x2_2;
        float* b2 = b2_2;
        const int lane = threadIdx.x;
        const int task = 0;
        const int v1 = (task * 256);
        {
            const int i_2 = v1 + lane;
            if (i_2 < min((v1 + 256), 7)) {
                const float v3 = x2[i_2];
                float t0_4 = (v3 + 1.0f);
                b2[i_2] = t0_4;
            }
        }
        return;
    }
}
