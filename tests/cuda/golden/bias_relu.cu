extern "C" __global__ void __launch_bounds__(256, 2)
k0_relu(const float* __restrict__ x1, const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    const int v1 = (task * 256);
    {
        const int i_2 = v1 + lane;
        {
            __align__(16) float piece3[4];
            const int v4 = ((i_2 % 24) * 4);
            fw_move<16>(piece3, &x1[v4]);
            __align__(16) float piece5[4];
            fw_move<16>(piece5, &x0[(((i_2 / 24) * 96) + v4)]);
            __align__(16) float piece6[4];
            {
                const float v7 = fw_maximum((piece5[0] + piece3[0]), 0.0f);
                float t0_8 = v7;
                piece6[0] = t0_8;
            }
            {
                const float v9 = fw_maximum((piece5[1] + piece3[1]), 0.0f);
                float t0_10 = v9;
                piece6[1] = t0_10;
            }
            {
                const float v11 = fw_maximum((piece5[2] + piece3[2]), 0.0f);
                float t0_12 = v11;
                piece6[2] = t0_12;
            }
            {
                const float v13 = fw_maximum((piece5[3] + piece3[3]), 0.0f);
                float t0_14 = v13;
                piece6[3] = t0_14;
            }
            fw_move<16>(&b0[(((i_2 / 24) * 96) + v4)], piece6);
        }
    }
}
