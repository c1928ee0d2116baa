extern "C" __global__ void __launch_bounds__(256, 2)
k0_relu(const float* __restrict__ x1, const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    const int v1 = (task * 256);
    {
        const int i_2 = v1 + lane;
        {
            __align__(16) float vector3[4];
            fw_move<16>(vector3, &x1[((i_2 % 24) * 4)]);
            __align__(16) float vector4[4];
            fw_move<16>(vector4, &x0[(i_2 * 4)]);
            __align__(16) float vector5[4];
            {
                const float v6 = fw_maximum((vector4[0] + vector3[0]), 0.0f);
                float t0_7 = v6;
                vector5[0] = t0_7;
            }
            {
                const float v8 = fw_maximum((vector4[1] + vector3[1]), 0.0f);
                float t0_9 = v8;
                vector5[1] = t0_9;
            }
            {
                const float v10 = fw_maximum((vector4[2] + vector3[2]), 0.0f);
                float t0_11 = v10;
                vector5[2] = t0_11;
            }
            {
                const float v12 = fw_maximum((vector4[3] + vector3[3]), 0.0f);
                float t0_13 = v12;
                vector5[3] = t0_13;
            }
            fw_move<16>(&b0[(i_2 * 4)], vector5);
        }
    }
}
