extern "C" __global__ void __launch_bounds__(256, 2)
k0_exp(const unsigned short* __restrict__ x0, unsigned short* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    const int v1 = (task * 256);
    {
        const int i_2 = v1 + lane;
        if (i_2 < min((v1 + 256), 99)) {
            {
                __align__(16) unsigned short vector3[2];
                fw_move<4>(vector3, &x0[(i_2 * 2)]);
                __align__(16) unsigned short vector4[2];
                {
                    const float v5 = fw_round_f16(expf(fw_f16_to_f32(vector3[0])));
                    float t0_6 = v5;
                    vector4[0] = fw_f32_to_f16(t0_6);
                }
                {
                    const float v7 = fw_round_f16(expf(fw_f16_to_f32(vector3[1])));
                    float t0_8 = v7;
                    vector4[1] = fw_f32_to_f16(t0_8);
                }
                fw_move<4>(&b0[(i_2 * 2)], vector4);
            }
        }
    }
}
