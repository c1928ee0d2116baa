extern "C" __global__ void __launch_bounds__(256, 2)
k0_relu(const float* __restrict__ x1, const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    const int v1 = (task * 256);
    {
        const int i_2 = v1 + lane;
        {
            __align__(16) float piece3[4];
            fw_move<16>(piece3, &x1[((i_2 % 24) * 4)]);
            __align__(16) float piece4[4];
            fw_move<16>(piece4, &x0[(i_2 * 4)]);
            __align__(16) float piece5[4];
            {
                const float v6 = fw_maximum((piece4[0] + piece3[0]), 0.0f);
                float t0_7 = v6;
                piece5[0] = t0_7;
            }
            {
                const float v8 = fw_maximum((piece4[1] + piece3[1]), 0.0f);
                float t0_9 = v8;
                piece5[1] = t0_9;
            }
            {
                const float v10 = fw_maximum((piece4[2] + piece3[2]), 0.0f);
                float t0_11 = v10;
                piece5[2] = t0_11;
            }
            {
                const float v12 = fw_maximum((piece4[3] + piece3[3]), 0.0f);
                float t0_13 = v12;
                piece5[3] = t0_13;
            }
            fw_move<16>(&b0[(i_2 * 4)], piece5);
        }
    }
}
