__device__ __forceinline__ float fw_maximum_f32_of_32(float x) {
    x = fw_maximum(x, fw_from_lane(x, 16));
    x = fw_maximum(x, fw_from_lane(x, 8));
    x = fw_maximum(x, fw_from_lane(x, 4));
    x = fw_maximum(x, fw_from_lane(x, 2));
    x = fw_maximum(x, fw_from_lane(x, 1));
    return x;
}
extern "C" __global__ void __launch_bounds__(128, 1)
k0_max(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    float r0_1 = __uint_as_float(0xff800000u);
    float part2 = __uint_as_float(0xff800000u);
    {
        const int k_3 = lane;
        if (k_3 < 2) {
            {
                __align__(16) float piece4[2];
                const int v5 = (task % 4);
                const int v6 = (task / 4);
                fw_move<8>(piece4, &x0[(((v6 * 16) + (k_3 * 8)) + (v5 * 2))]);
                {
                    part2 = fw_maximum(part2, piece4[0]);
                }
                {
                    part2 = fw_maximum(part2, piece4[1]);
                }
            }
        }
    }
    r0_1 = fw_maximum(r0_1, fw_maximum_f32_of_32(part2));
    const int v7 = (task % 4);
    const int v8 = (task / 4);
    if (lane == 0) b0[((v8 * 4) + v7)] = r0_1;
}
